"""Random numbers that depend on the seed, the epoch and the process alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

__all__ = ["EpochSeed"]


class EpochSeed(pl.Callback):
    """Seeds every generator anew when an epoch starts.

    A run resumed at the end of an epoch then draws what the uninterrupted one would have drawn, and the processes of DDP
    draw different latents (one seed for all would give each the same).
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def seed_loader(self, trainer: pl.Trainer) -> None:
        """Before an epoch's first batch is fetched: a loader that shuffles draws its order then."""
        self._seed(trainer.current_epoch, trainer.global_rank, 1)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx == 0:
            self._seed(trainer.current_epoch, trainer.global_rank)

    def _seed(self, *numbers: int) -> None:
        number = int(np.random.SeedSequence([self.seed, *numbers]).generate_state(1)[0])
        torch.manual_seed(number)
        np.random.seed(number)  # noqa: NPY002  # what user code may draw from
        random.seed(number)
