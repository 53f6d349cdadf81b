"""Run folders: `runs/NAME/001`, one for each run, never shared and never overwritten."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from cfgen.errors import UserError

__all__ = [
    "FINISHED",
    "AtomicCheckpointIO",
    "cannot_write",
    "find_last_run",
    "how_to_go_on",
    "new_run_folder",
    "runs_of",
    "write_atomically",
]

FINISHED = "finished.json"  # in the folder of a run that was trained to its end


def new_run_folder(root: Path, name: str) -> Path:
    """Creates the next free `root/name/NNN`; two commands that start at once get two folders."""
    (root / name).mkdir(parents=True, exist_ok=True)
    number = max((int(run.name) for run in runs_of(root, name)), default=0) + 1
    while True:
        folder = root / name / f"{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


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
    return f"`cfgen fit --config {folder}/config.yaml --runs_dir {folder.parent.parent} --ckpt_path last`"


def cannot_write(folder: Path, error: OSError) -> UserError:
    """What is said where a folder of results may not be written."""
    return UserError(f"cannot write {folder}: {error.strerror or error}; choose another folder", argument="out")


def write_atomically(path: Path, write: Callable[[Any], None]) -> None:
    """Calls `write` with an open binary file that becomes `path` only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # not tempfile's, which only their owner may read
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class AtomicCheckpointIO(TorchCheckpointIO):
    """Checkpoints that are written whole or not at all, and read without running code from them.

    Lightning's own way goes through the system's temporary folder, which may lie on another disk: its last step is then a
    copy that can be interrupted.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        write_atomically(Path(path), lambda file: torch.save(checkpoint, file))

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = True) -> dict[str, Any]:
        return super().load_checkpoint(path, map_location, weights_only=True)
