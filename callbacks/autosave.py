"""`last.ckpt` in the middle of an epoch too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from cfgen.errors import UserError

__all__ = ["Autosave"]


class Autosave(pl.Callback):
    """Says when `last.ckpt` is written between two batches: some minutes apart, beside the ends of epochs.

    A run that is killed loses no more than that.  The loop over batches asks it (`cfgen/training/batches.py`), and writes.

    Args:
        minutes: how far apart; fractions count.
    """

    def __init__(self, minutes: float = 10.0) -> None:
        if not minutes > 0:
            raise UserError(f"Autosave needs minutes above 0, not {minutes}", argument="trainer.callbacks")
        self.minutes = minutes
        self.moved_to: Path | None = None  # the folder of a run that goes on in place, wherever it was before
        self.saved = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.saved = time.monotonic()

    @property
    def due(self) -> bool:
        return time.monotonic() - self.saved >= 60 * self.minutes

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Tells the other callbacks where their checkpoints are now: of another folder they would forget which was the best."""
        if self.moved_to is None:
            return
        for key, state in checkpoint["callbacks"].items():
            if isinstance(state, dict) and (before := state.get("dirpath")):
                checkpoint["callbacks"][key] = moved(state, Path(before), self.moved_to)


def moved(state: Any, before: Path, after: Path) -> Any:
    """A state in which every path in the folder `before` is one in `after`.

    >>> moved({"best": {"runs/a/001/best.ckpt": 0.5}}, Path("runs/a/001"), Path("b"))
    {'best': {'b/best.ckpt': 0.5}}
    """
    if isinstance(state, dict):
        return {moved(key, before, after): moved(value, before, after) for key, value in state.items()}
    if isinstance(state, str) and Path(state).is_relative_to(before):
        return str(after / Path(state).relative_to(before))
    return state
