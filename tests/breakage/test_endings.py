"""How commands end: one line and the right exit code for a full disk, a signal, a fault; nothing half done is left."""

import contextlib
import errno
import importlib
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cfgen.__main__ import main
from cfgen.audit import _answer, _audit
from cfgen.audit.strength import _calibrate
from cfgen.command_line import run_command
from cfgen.errors import Terminated, UserError, unknown_name
from cfgen.evaluation import run as evaluation
from cfgen.io.endings import faults_logged_in, signals_raised
from cfgen.runs import export as exporting
from cfgen.runs import generation
from cfgen.runs.folders import AtomicCheckpointIO
from cfgen.training.signals import hearing
from tests.breakage.tiny import WORDS, everything, struck

ROOT = Path(__file__).parents[2]


def raising(error):
    def command():
        raise error

    return command


def line_of(capsys, code, command):
    """The one line on stderr with which a command ends with that exit code."""
    capsys.readouterr()
    assert run_command(command) == code
    (line,) = capsys.readouterr().err.splitlines()
    return line


@contextmanager
def files_of_at_most(size):
    """A disk on which no file can be larger: writing fails in the middle, as on a full one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "can be written"),
        (errno.ENAMETOOLONG, "shorter"),
        (errno.EIO, "check"),
    ],
)
def test_what_the_system_refuses_names_the_path_and_what_to_do(capsys, number, remedy):
    line = line_of(capsys, 2, raising(OSError(number, os.strerror(number), "runs/x/best.ckpt")))
    assert line.startswith(f"error: runs/x/best.ckpt: {os.strerror(number)}; ")
    assert remedy in line


def test_a_checkpoint_on_a_full_disk(capsys, here):
    """Through our own way of writing, and as torch and safetensors say it by themselves."""
    large = {"weights": torch.zeros(100_000)}
    ways = {
        "ours.ckpt": lambda: AtomicCheckpointIO().save_checkpoint(large, here / "ours.ckpt"),
        "checkpoint": lambda: torch.save(large, io.FileIO("theirs", "w")),
        "weights": lambda: save_file(large, "theirs.safetensors"),
    }
    before = everything(here)
    with files_of_at_most(50_000):
        for word, write in ways.items():
            line = line_of(capsys, 2, write)
            assert word in line
            assert "too large" in line
    assert everything(here).keys() - before.keys() <= {"theirs", "theirs.safetensors"}  # of ours there is nothing


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory")],
)
def test_too_little_memory_is_not_a_fault(capsys, error):
    assert "not enough memory" in line_of(capsys, 2, raising(error))


def test_interrupts_and_signals_have_the_codes_that_shells_know(capsys):
    def gracefully():  # as Lightning's Trainer does
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)

    def in_passing():  # something else goes wrong on the way out
        try:
            raise Terminated(signal.SIGTERM)
        finally:
            raise RuntimeError("connection closed by peer")

    assert line_of(capsys, 130, raising(KeyboardInterrupt())) == "interrupted"
    assert line_of(capsys, 130, gracefully) == "interrupted"
    assert line_of(capsys, 143, raising(Terminated(signal.SIGTERM))) == "ended by SIGTERM"
    assert line_of(capsys, 143, in_passing) == "ended by SIGTERM"
    assert line_of(capsys, 129, raising(Terminated(signal.SIGHUP))) == "ended by SIGHUP"
    with pytest.raises(SystemExit) as stopped:  # as --help has it
        run_command(lambda: sys.exit(0))
    assert stopped.value.code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_c_plus_plus_makes_an_error_of_is_still_a_signal(capsys, number, code):
    """pybind11 drops what is raised while it converts an argument, and says that the argument is wrong."""

    def converting():
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), number)
        raise ValueError("Invalid affine transformation matrix")

    said = line_of(capsys, code, converting)
    assert said == ("interrupted" if code == 130 else "ended by SIGTERM")
    assert line_of(capsys, 1, raising(ValueError("on its own"))).startswith("error: ")  # and is forgotten afterwards
    with pytest.raises(BaseException) as ended, hearing():
        converting()
    assert isinstance(ended.value, KeyboardInterrupt if code == 130 else Terminated)


def test_handlers_are_as_they_were_afterwards_and_those_of_others_stay():
    before = signal.getsignal(signal.SIGTERM)
    with signals_raised():
        assert signal.getsignal(signal.SIGTERM) is not before
        with signals_raised(), pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_raised():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    codes = []
    thread = threading.Thread(target=lambda: codes.append(run_command(lambda: 3)))  # where signals cannot be asked for
    thread.start()
    thread.join()
    assert codes == [3]


looking = importlib.import_module("cfgen.reporting.dataset.look")  # the function of that name hides the module
# where each command is in the middle of its work, or of writing
MIDDLE = {
    "generate": [(generation, "sweep"), (generation, "png_of")],
    "evaluate": [(evaluation, "sweep")],
    "compare": [(evaluation, "sweep")],
    "audit": [(_audit, "prepare"), (_answer, "sweep"), (_audit, "estimate"), (_audit, "illustrate")],
    "calibrate": [(_calibrate, "read_data")],
    "export": [(exporting, "write_checksums"), (exporting, "model_card")],
    "data": [(looking, "contact_sheet")],
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("command", WORDS)
def test_a_signal_ends_a_command_at_once_and_nothing_is_left(here, monkeypatch, capsys, command, number):
    if command == "calibrate":
        monkeypatch.setattr(_calibrate, "check_predictor", lambda *given: None)
    before = everything(here)
    for module, name in MIDDLE[command]:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, struck(number))
            started = time.monotonic()
            assert main(WORDS[command].split()) == 128 + number
            assert time.monotonic() - started < 20
        error = capsys.readouterr().err
        assert "Traceback" not in error
        assert error.splitlines()[-1] == ("interrupted" if number == signal.SIGINT else f"ended by {number.name}")
        assert everything(here) == before


def faulty():
    unknown_name("split", "tset", 3)  # type: ignore[arg-type]


def test_a_fault_is_one_line_with_its_traceback_in_a_file(capsys, tmp_path, monkeypatch):
    line = line_of(capsys, 1, faulty)
    assert line.startswith("error: this is a fault of cfgen: TypeError: 'int' object is not iterable; details in ")
    log = Path(line.rpartition(" ")[2])
    assert log.parent == tmp_path / "cache" / "cfgen" / "logs"
    assert "Traceback" in log.read_text()
    # in the run's folder, where there is one
    (tmp_path / "run").mkdir()

    def training():
        with faults_logged_in(tmp_path / "run"):
            faulty()

    assert Path(line_of(capsys, 1, training).rpartition(" ")[2]).parent == tmp_path / "run"
    # shown where it cannot be kept, and where it is asked for
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert run_command(faulty) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.splitlines()[-1] == "error: this is a fault of cfgen: TypeError: 'int' object is not iterable"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "unused"))
    monkeypatch.setenv("CFGEN_DEBUG", "1")
    for error, code in ((ValueError("nine"), 1), (OSError(errno.ENOSPC, "full", "x"), 2)):
        assert run_command(raising(error)) == code
        assert "Traceback" in capsys.readouterr().err
    assert line_of(capsys, 2, raising(UserError("no"))) == "error: no"  # is not a fault, and has nothing to show
    assert not (tmp_path / "unused").exists()


def test_a_fault_of_the_users_own_module_names_that(capsys, here, monkeypatch):
    (here / "mine.py").write_text("def work():\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(str(here))
    import mine  # type: ignore[import-not-found]

    line = line_of(capsys, 1, mine.work)
    assert line.startswith(f"error: {here / 'mine.py'}, line 2: ZeroDivisionError: division by zero; details in ")


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_a_reader_that_went_away_is_no_fault():
    writing = closed_pipe()
    done = subprocess.run(
        [sys.executable, "-m", "cfgen", "--help"], stdout=writing, stderr=subprocess.PIPE, cwd=ROOT,
        text=True, timeout=120,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_a_real_process_hears_sigterm(here):
    words = [sys.executable, "-m", "cfgen", "data", "morpho_mnist", "--cache_dir", "cache", "--out", "sheet.png"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, cwd=here, text=True, env=environment)
    assert process.stderr is not None
    assert "preparing" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.stderr.read().splitlines() == ["ended by SIGTERM"]
    assert process.wait(30) == 143
    assert not [path for path in here.rglob("*") if path.suffix in (".npz", ".png", ".tmp")]
