"""A model and data that train in a moment and draw random numbers of every kind; and callbacks that cut such a run off.

Importable by name, so that a config, and another process, can use them.
"""

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

__all__ = ["BATCHES", "Cut", "PowerCut", "SmallData", "SmallModel"]

BATCHES = 10  # of an epoch on one device


class SmallData(pl.LightningDataModule):
    """Rows in an order that the loader draws itself."""

    def __init__(self, rows: int = 4 * BATCHES, slow: float = 0.0, data_dir: str = "") -> None:
        super().__init__()
        self.rows, self.slow = rows, slow
        self.scm_spec = {"attributes": {"b": {"kind": "binary"}}, "edges": []}
        self.image_shape = (1, 2, 2)

    def prepare_data(self) -> None:
        time.sleep(self.slow)

    def train_dataloader(self) -> Any:
        x = torch.linspace(0, 1, self.rows * 4).reshape(-1, 4)
        return DataLoader(TensorDataset(x), batch_size=4, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(TensorDataset(torch.linspace(0, 1, 32).reshape(-1, 4)), batch_size=4)


class SmallModel(pl.LightningModule):
    """Learns with noise from torch, numpy and Python, with momentum, and with a rate that falls after each batch."""

    def __init__(self, scm: dict[str, Any], image_shape: Sequence[int], width: float = 1.0, sleep: float = 0.0) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.width, self.sleep = width, sleep
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 4))

    def training_step(self, batch: Any, _: int) -> Tensor:
        time.sleep(self.sleep)
        x = batch[0] + 0.1 * torch.randn_like(batch[0]) + 0.1 * np.random.rand() + 0.1 * random.random()  # noqa: NPY002
        loss = (self.net(x) * self.width - batch[0]).square().mean()
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("val/loss", (self.net(batch[0]) - torch.rand_like(batch[0])).square().mean())

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.97)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class PowerCut(Exception):
    """Nobody expects it."""


class Cut(pl.Callback):
    """At a hook, in the batch that the file says (counted over all epochs), raises `PowerCut`, or sends a signal to this process."""

    def __init__(self, hook: str = "on_train_batch_end", batch: int = 0, signal: str = "", rank: int = 0) -> None:
        self.batch, self.signal, self.rank = batch, signal, rank
        setattr(self, hook, self.cut)

    def cut(self, trainer: pl.Trainer, *_: Any, **__: Any) -> None:
        if trainer.global_rank != self.rank or max(0, trainer.fit_loop.total_batch_idx) != self.batch:
            return
        if Path("cut").exists():  # once only
            return
        Path("cut").touch()
        if not self.signal:
            raise PowerCut
        os.kill(os.getpid(), getattr(signal, self.signal))
