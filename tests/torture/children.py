"""Commands as real processes in a fraction of a second: forked from one that has imported torch, Lightning and cfgen.

The forked process runs `cfgen.__main__.main` in a folder and a session of its own, takes real signals and ends with the exit
code that the command would have.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cfgen import morpho
from cfgen.__main__ import COMMANDS

__all__ = ["Child", "Ended", "Harm", "import_everything", "processes_of", "start"]

HEAVY = (
    "cfgen.training.run", "cfgen.runs.generation", "cfgen.runs.export", "cfgen.runs.verification", "cfgen.evaluation.run",
    "cfgen.evaluation.comparison", "cfgen.evaluation.terminal", "cfgen.audit._audit", "cfgen.audit.strength._calibrate",
    "cfgen.audit.report", "cfgen.reporting.dataset", "cfgen.morpho", "datamodules",
    "cfgen.app.static_page", "cfgen.study.making", "cfgen.study.analysis", "cfgen.study.simulation", "cfgen.study.figures",
    "callbacks", "rich.table", "matplotlib.backends.backend_agg", "pandas", "sklearn.decomposition", "tests.fakes",
    *(f"cfgen.commands.{command}" for command in COMMANDS if command != "app"),
)  # fmt: skip
CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.link", "os.symlink"}
WAIT = 240.0  # seconds after which a command hangs


def import_everything() -> None:
    """What commands import; no thread is started, for a forked process has none of them."""
    torch.set_num_threads(1)
    for name in HEAVY:
        importlib.import_module(name)
    digit = np.zeros((1, 28, 28), np.uint8)
    digit[:, 8:20, 13:16] = 255
    # compiled now, once for all
    morpho.measure(morpho.set_intensity(morpho.set_thickness(digit, 3.0), 200.0), ["slant"])


@dataclass(frozen=True)
class Harm:
    """What the process does to itself, from within.

    `signal` comes at the `at`-th change of a file in its folder; `memory` is how many bytes more it may have, `largest` how many a
    file may have (None: any number).
    """

    signal: int = 0
    at: int = 0
    memory: int = 0
    largest: int | None = None


@dataclass(frozen=True)
class Ended:
    """How a process ended: as the shell would say it, or -N by a signal that it did not take; None where it hung."""

    code: int | None
    out: str
    error: str
    changes: int
    seconds: float


class Child:
    """A running command."""

    def __init__(self, pid: int, logs: Path) -> None:
        self.pid, self.logs, self.started = pid, logs, time.monotonic()

    def kill(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def wait(self, seconds: float = WAIT) -> Ended:
        """Waits for its end; what does not end is killed, with all its processes."""
        end, code = time.monotonic() + seconds, None
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.01)
        else:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        took = time.monotonic() - self.started
        read = {name: (self.logs / name).read_text(errors="replace") for name in ("out", "error")}
        changes = (self.logs / "changes").stat().st_size if (self.logs / "changes").exists() else 0
        return Ended(code, read["out"], read["error"], changes, took)


def start(words: Sequence[str], folder: Path, logs: Path, harm: Harm | None = None) -> Child:
    """Starts `cfgen WORDS` in a folder; what it prints goes to `logs`, which lies outside of the folder."""
    logs.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        os.close(reading)
        try:
            code = _command(words, folder, logs, harm or Harm(), ready=writing)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:  # a signal that comes before it is the command would hit the harness
        pipe.read()
    return Child(pid, logs)


def _command(words: Sequence[str], folder: Path, logs: Path, harm: Harm, ready: int) -> int:
    """Runs the command in this process; closes `ready` when nothing but the command is left to do."""
    os.setsid()
    (logs / "session").write_text(str(os.getpid()))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for descriptor, name in ((1, "out"), (2, "error")):
        os.dup2(os.open(logs / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1, closefd=False) for descriptor in (1, 2))
    counted = os.open(logs / "changes", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.chdir(folder)
    os.environ |= {"XDG_CACHE_HOME": str(folder / ".cache"), "WANDB_MODE": "disabled", "COLUMNS": "200"}
    sys.argv = ["cfgen", *words]
    sys.addaudithook(_watching(str(folder), counted, harm))
    if harm.largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (harm.largest, resource.RLIM_INFINITY))
    if harm.memory:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + harm.memory, resource.RLIM_INFINITY))
    from cfgen.__main__ import main

    os.close(ready)
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        traceback.print_exc()
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code & 0xFF


def _watching(folder: str, counted: int, harm: Harm) -> Callable[[str, tuple[Any, ...]], None]:
    """Counts the files that are opened, made, moved and removed in the folder, and sends the signal at one of them."""
    seen = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES or not arguments or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.fsdecode(arguments[0])
        if os.path.isabs(path) and not path.startswith(folder):
            return
        seen[0] += 1
        os.write(counted, b".")
        if harm.signal and seen[0] == harm.at:
            os.kill(os.getpid(), harm.signal)

    return hook


def processes_of(session: int) -> list[int]:
    """The processes of a session that are still there."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(f"/proc/{entry.name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found
