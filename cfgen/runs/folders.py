"""Run folders: `runs/NAME/001`, one for each run, with one writer at a time, never overwritten."""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from pytorch_lightning.plugins.io import TorchCheckpointIO

from cfgen.errors import UserError
from cfgen.io.checksums import require_whole_checkpoint
from cfgen.io.files import read_json
from cfgen.io.parts import remove_if_dead
from cfgen.io.writing import write_atomically

__all__ = [
    "CHECKPOINT",
    "FINISHED",
    "AtomicCheckpointIO",
    "find_last_run",
    "how_to_go_on",
    "last_writer",
    "new_run_folder",
    "runs_of",
    "write_atomically",
    "writing",
]

FINISHED = "finished.json"  # in the folder of a run that was trained to its end
CHECKPOINT = "last.ckpt"  # from which a run goes on
LOCK, WRITER = ".writer.lock", "writer.json"  # held while a run is trained; who trains it, or did last


def new_run_folder(root: Path, name: str) -> Path:
    """Creates the next free `root/name/NNN`; two commands that start at once get two folders."""
    (root / name).mkdir(parents=True, exist_ok=True)
    for earlier in runs_of(root, name):
        remove_leftovers(earlier)
    number = max((int(run.name) for run in runs_of(root, name)), default=0) + 1
    while True:
        folder = root / name / f"{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def remove_leftovers(run: Path) -> None:
    """Removes what killed writers left half written in a run's folder; what a living process writes stays."""
    for left in run.glob(".*.part"):
        remove_if_dead(left)


def runs_of(root: Path, name: str) -> list[Path]:
    """The runs of that name, the newest first."""
    parent = root / name
    runs = [path for path in parent.iterdir() if path.name.isdigit()] if parent.is_dir() else []
    return sorted(runs, key=lambda run: int(run.name), reverse=True)


def find_last_run(root: Path, name: str, holding: str) -> Path:
    """The newest run of that name that holds a file, e.g. `last.ckpt`."""
    for run in runs_of(root, name):
        if (run / holding).is_file():
            return run
    raise UserError(f"no run under {root / name} has a {holding} yet: start one without it", argument="ckpt_path")


def how_to_go_on(folder: Path) -> str:
    """The command that trains a run to its end."""
    return f"`{shlex.join(['cfgen', 'fit', '--ckpt_path', str(folder)])}`"


@contextmanager
def writing(folder: Path, launcher: Mapping[str, Any]) -> Iterator[None]:
    """Holds a run's folder for training; refuses where another process trains in it.  Reading needs no lock.

    The system frees the lock of a process that dies.  What killed writers left half written is removed.  `launcher` is kept
    beside who writes, for `last_writer`.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=1)  # workers of a process that was just killed hold it for a moment
    except Timeout:
        writer = last_writer(folder)
        who = f"process {writer.get('pid', '?')} on {writer.get('host', '?')} since {writer.get('since', '?')}"
        raise UserError(
            f"{folder} is being trained by {who}: wait until that ends, or stop it", argument="ckpt_path"
        ) from None
    try:
        remove_leftovers(folder)
        writer = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        text = json.dumps({**writer, **launcher})
        write_atomically(folder / WRITER, lambda file: file.write(text.encode()))
        yield
    finally:
        lock.release()


def last_writer(folder: Path) -> dict[str, Any]:
    """Who trains in a run's folder, or did last; empty where that is not known."""
    try:
        return read_json(folder / WRITER)
    except UserError:
        return {}


class AtomicCheckpointIO(TorchCheckpointIO):
    """Checkpoints that are written whole or not at all, and read without running code from them.

    Lightning's own way goes through the system's temporary folder, which may lie on another disk: its last step is then a
    copy that can be interrupted.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        write_atomically(Path(path), lambda file: torch.save(checkpoint, file))

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = True) -> dict[str, Any]:
        require_whole_checkpoint(Path(path))
        return super().load_checkpoint(path, map_location, weights_only=True)
