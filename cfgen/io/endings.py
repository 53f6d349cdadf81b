"""How a command ends when it does not end well: one line for whoever typed it, and the exit code that scripts go by.

| what happened | exit code |
|---|---|
| bad input (`UserError`), and what the user can mend: a full disk, a path that may not be used, too little memory | 2 |
| a signal: Ctrl-C, SIGTERM, SIGHUP | 130, 143, 129 |
| anything else: a fault of cfgen, whose traceback goes into a file | 1 |

`CFGEN_DEBUG=1` shows the traceback instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from cfgen.errors import Terminated, UserError

__all__ = ["Ending", "default_cache_dir", "end", "ended_by", "ending_of", "faults_logged_in", "signals_raised", "why"]

USER, FAULT = 2, 1
BROKEN_PIPE = 141  # 128 + SIGPIPE, which not every system has
REMEDIES = {
    errno.ENOSPC: "make room there or choose another folder",
    errno.EDQUOT: "make room there or choose another folder",
    errno.EFBIG: "choose a folder in which larger files may be written",
    errno.EACCES: "choose a place that you may use, or have its permissions changed",
    errno.EPERM: "choose a place that you may use, or have its permissions changed",
    errno.EROFS: "choose a folder that can be written",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "allow more open files (`ulimit -n`)",
    errno.ENOMEM: "choose fewer images or a smaller batch size",
}
DEFAULT_REMEDY = "check the path, or choose another"
MEMORY = "there is not enough memory; choose fewer images or a smaller batch size, or end other programs"
# torch writes a checkpoint piece by piece, and of a full disk says where it had got to; safetensors quotes the system's number
TORCH_WRITING = re.compile(r"PytorchStreamWriter failed|inline_container.*unexpected pos")
NO_MEMORY = re.compile(
    r"DefaultCPUAllocator|out of memory|annot allocate memory|can't start new thread|could not create a primitive|bad_alloc"
)
QUOTED_NUMBER = re.compile(r"os error (\d+)")
DEBUG = "CFGEN_DEBUG"  # an environment variable
FOLDER = "cfgen_log_folder"  # an exception's attribute: where its traceback belongs
_received: list[int] = []  # signals, while they are raised
OURS = ("cfgen", "datamodules", "lightning_modules", "callbacks", "__main__")


class Ending(NamedTuple):
    """An exit code, and the line that says why; none where the reader of our output went away, as `head` does."""

    code: int
    line: str = ""


def why(error: OSError) -> str:
    """What the system says of a file, and what to do; of what is no system's error, such as a download's, what it says itself.

    >>> why(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device; make room there or choose another folder'
    """
    if error.errno is None:
        return one_line(error)
    return f"{error.strerror or error}; {REMEDIES.get(error.errno, DEFAULT_REMEDY)}"


def ending_of(error: BaseException, positional: Sequence[str] = ()) -> Ending | None:
    """How a command ends by an exception; None where the exception says so itself, as that of `--help` does.

    `positional` are the arguments that are given without dashes.
    """
    chain = list(causes(error))
    for one in chain:  # whatever else went wrong on the way out, and be it an exit that a library made of it
        if isinstance(one, KeyboardInterrupt):
            return Ending(128 + signal.SIGINT, "interrupted")
        if isinstance(one, Terminated):
            return Ending(128 + one.signal, f"ended by {signal.Signals(one.signal).name}")
    if isinstance(error, SystemExit):
        return None
    if isinstance(error, BrokenPipeError):
        return Ending(BROKEN_PIPE)
    if isinstance(error, UserError):
        name = error.argument
        where = "" if name is None else f"{name.upper()}: " if name in positional else f"--{name}: "
        return Ending(error.code, f"error: {where}{one_line(error)}")
    reason = mendable(error, chain)
    return Ending(FAULT, f"error: {fault(error)}") if reason is None else Ending(USER, f"error: {reason}")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those behind it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def mendable(error: BaseException, chain: Sequence[BaseException]) -> str | None:
    """What the user can mend, and how; None for a fault."""
    text = str(error)
    if isinstance(error, OSError):
        names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        return f"{' to '.join(names)}{': ' if names else ''}{why(error)}"
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError | ImportError) and NO_MEMORY.search(text)):
        return MEMORY
    if (quoted := QUOTED_NUMBER.search(text)) and type(error).__module__.startswith("safetensors"):
        number = int(quoted[1])
        return f"a file of weights could not be read or written: {why(OSError(number, os.strerror(number)))}"
    if isinstance(error, RuntimeError) and TORCH_WRITING.search(text):
        behind = next((one for one in chain if isinstance(one, OSError)), None)
        full = OSError(errno.ENOSPC, "the disk is full, or cannot be written")
        return f"a checkpoint could not be written: {why(behind or full)}"
    return None


def fault(error: BaseException) -> str:
    """Whose fault it is: cfgen's, or that of a module of the user's own that cfgen was told to use."""
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if str(frame.f_globals.get("__name__")).partition(".")[0] in OURS:
            where = ""
        elif not file.startswith((*libraries, "<")):
            where = f"{file}, line {line}"
    told = f"{type(error).__name__}: {one_line(error)[:300]}".removesuffix(": ")
    return f"{where}: {told}" if where else f"this is a fault of cfgen: {told}"


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def end(error: BaseException, positional: Sequence[str] = ()) -> int:
    """Says how a command ends, keeps the traceback of a fault, and returns the exit code."""
    ending = ending_of(error, positional)
    if ending is None:
        raise error
    line, shown = ending.line, False
    if ending.code in (USER, FAULT) and not isinstance(error, UserError):
        shown = os.environ.get(DEBUG, "0") not in ("", "0")
        if ending.code == FAULT and not shown:
            kept = keep_traceback(error)
            line, shown = (line, True) if kept is None else (f"{line}; details in {kept}", False)
    of_another = ending.code > 128 and os.environ.get("LOCAL_RANK", "0") != "0"  # the first process says it for all
    with contextlib.suppress(OSError, ValueError):  # nobody can be told
        if shown:
            traceback.print_exception(error)
        if line and not of_another:
            print(line, file=sys.stderr, flush=True)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # the interpreter would try again, and complain
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ending.code


def keep_traceback(error: BaseException) -> Path | None:
    """Writes a fault's traceback into the folder that it belongs to, else into the cache's; None where that cannot be."""
    name = f"fault-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    text = f"{' '.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"
    for folder in (lambda: getattr(error, FOLDER, None), lambda: default_cache_dir() / "logs"):
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home
            if (place := folder()) is not None:
                place.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, encoding="utf-8", errors="backslashreplace")
                return place / name
    return None


@contextlib.contextmanager
def faults_logged_in(folder: Path | None) -> Iterator[None]:
    """The traceback of a fault inside goes into this folder, e.g. a run's; None changes nothing."""
    try:
        yield
    except Exception as error:
        if folder is not None and not hasattr(error, FOLDER):
            setattr(error, FOLDER, folder)
        raise


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `Terminated`, as Ctrl-C raises KeyboardInterrupt: what is half done is cleaned up.

    What else is raised after a signal is taken for its doing: C++ code that a signal finds in the middle of asking Python for
    something may make an error of its own of it.  A signal that somebody else handles, or that is ignored as `nohup` has it,
    stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():  # only there may it be asked for
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        raise ended_by(number)

    defaults = (signal.SIG_DFL, signal.default_int_handler)
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in map(signal.Signals.__getitem__, names)}
    ours = {number: handler for number, handler in before.items() if handler in defaults}
    for number in ours:
        signal.signal(number, terminate)
    try:
        yield
    except Exception as error:
        if _received:
            raise ended_by(_received[-1]) from error
        raise
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        if ours:  # the outermost one: those within have the same signals
            _received.clear()


def ended_by(number: int) -> BaseException:
    """What a signal raises."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def default_cache_dir() -> Path:
    """`cfgen` in the user's cache folder: prepared data, and the tracebacks of faults."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cfgen"
