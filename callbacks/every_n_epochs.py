"""Callbacks that act at validations, some epochs apart."""

from __future__ import annotations

import pytorch_lightning as pl

__all__ = ["EveryNEpochs"]


class EveryNEpochs(pl.Callback):
    """Acts at the first validation and then whenever `every_n_epochs` have passed; never at the sanity check.

    The first one counts, so that a checkpoint chosen by what is measured always finds a value.  A resumed run keeps the beat.
    """

    def __init__(self, every_n_epochs: int) -> None:
        if every_n_epochs < 1:
            raise ValueError(f"every_n_epochs is at least 1, not {every_n_epochs}")
        self.every_n_epochs = every_n_epochs
        self.acted_at: int | None = None

    def act(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """What is due; called on every process."""
        raise NotImplementedError

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        due = self.acted_at is None or trainer.current_epoch - self.acted_at >= self.every_n_epochs
        if due and not trainer.sanity_checking:
            self.acted_at = trainer.current_epoch
            self.act(trainer, pl_module)

    def state_dict(self) -> dict[str, int | None]:
        return {"acted_at": self.acted_at}

    def load_state_dict(self, state_dict: dict[str, int | None]) -> None:
        self.acted_at = state_dict["acted_at"]
