"""Learning rates that fall to 0 along a cosine until training ends."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch

from cfgen.errors import UserError

__all__ = ["cosine_schedule", "decaying"]


def cosine(step: int, steps: float) -> float:
    """From 1 at the first step to 0 at the last."""
    return 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))


def cosine_schedule(module: pl.LightningModule, optimiser: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    """A schedule to be stepped once a batch."""
    steps = module.trainer.estimated_stepping_batches
    if not math.isfinite(steps):
        raise UserError("lr_decay needs a known end: set trainer.max_epochs or trainer.max_steps")
    return torch.optim.lr_scheduler.LambdaLR(optimiser, partial(cosine, steps=steps))


def decaying(module: pl.LightningModule, optimiser: torch.optim.Optimizer) -> Any:
    """What `configure_optimizers` returns for an optimiser whose rate falls."""
    return {
        "optimizer": optimiser,
        "lr_scheduler": {"scheduler": cosine_schedule(module, optimiser), "interval": "step"},
    }
