"""A model and the words of every command, all tiny: what is tried here is how commands end, not what they find."""

import os
import signal
import time
from pathlib import Path

from cfgen.checkpoints import class_path
from tests.fakes import Painted, Painter, finished, fitted

__all__ = ["WORDS", "everything", "painted", "struck"]

ROWS = 30


def painted(folder: Path, **options) -> Path:
    """A finished run of a model that fits its images."""
    settings = {"rows": ROWS} | options
    module = fitted(Painter, Painted(**settings))
    config = {
        "data": {"class_path": "tests.fakes.Painted", "init_args": settings},
        "model": {"class_path": class_path(module), "init_args": {}},
    }
    return finished(module, folder, config)


# each command, with `run` for the model: what it writes is new, and right here or in the run's folder
WORDS = {
    "generate": "generate run --do Bangs=1 --out made",
    "evaluate": "evaluate run --metrics cycles --predictor none",
    "compare": "evaluate run other --metrics cycles --predictor none",
    "audit": "audit --model run --classifier tests.audit.worlds:Bright --do Bangs=1 --predictor none --explain none "
    "--accelerator cpu",
    "calibrate": "calibrate run --predictor none.ckpt --accelerator cpu",
    "export": "export run made",
    "data": "data morpho_mnist --limit 100 --cache_dir cache --out made.png",
}


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too, and the folders that hold nothing."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() or not any(path.iterdir())
    }


def struck(number: signal.Signals):
    """A function that anything can be replaced by, in which the signal strikes and which then goes on for long."""

    def work(*arguments, **options):
        os.kill(os.getpid(), number)
        time.sleep(30)
        raise AssertionError("the signal was not heard")

    return work
