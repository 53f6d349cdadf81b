"""The two checkpoints of a run: `best.ckpt` by a measured metric and `last.ckpt` to go on from."""

from __future__ import annotations

from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

__all__ = ["BestCheckpoint"]


class BestCheckpoint(ModelCheckpoint):
    """Keeps `best.ckpt` (lowest or highest `monitor`) and `last.ckpt` in the run's folder, both written at epoch ends.

    `Autosave` writes `last.ckpt` in between.

    Args:
        monitor: a metric that was measured on images, not a loss: a GAN's losses say little about its quality; without one
            the last is the best.
        mode: whether the best is the `min` or the `max`.
    """

    def __init__(self, monitor: str | None = None, mode: str = "min") -> None:
        super().__init__(
            filename="best",
            monitor=monitor,
            mode=mode,
            save_on_train_epoch_end=True,
            auto_insert_metric_name=False,
            enable_version_counter=False,
        )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # a resumed run may have to wait for the next measurement; a name that is never measured still fails
        if self.monitor is None or self.monitor in trainer.callback_metrics or not self.best_model_path:
            super().on_train_epoch_end(trainer, pl_module)
        # not ModelCheckpoint's `save_last`, which writes only in epochs that also brought a new best
        if not trainer.fast_dev_run and self.dirpath is not None:  # type: ignore[attr-defined]  # set in Trainer.__init__
            trainer.save_checkpoint(Path(self.dirpath) / "last.ckpt", weights_only=False)
