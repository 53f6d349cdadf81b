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

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx > 0:  # not at on_train_epoch_start: the loader draws a number between that and its first batch
            return
        sequence = np.random.SeedSequence([self.seed, trainer.current_epoch, trainer.global_rank])
        number = int(sequence.generate_state(1)[0])
        torch.manual_seed(number)
        np.random.seed(number)  # noqa: NPY002  # what user code may draw from
        random.seed(number)
