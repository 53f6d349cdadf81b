"""Median absolute error of counterfactual digits, during training (Table 1)."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch

from callbacks.every_n_epochs import EveryNEpochs
from cfgen.attributes import Schema
from cfgen.contracts import measured_names
from cfgen.metrics.effectiveness import compare, median_abs_errors

__all__ = ["MedianAbsError"]


class MedianAbsError(EveryNEpochs):
    """For each continuous attribute k: draws values, intervenes, decodes, measures the images, and compares every attribute.

    `val/median_abs_error/do(k)/j` compares attribute j under do(k): what should move (k and its descendants) with its new
    value, what should not with its old one.  Beside it stand `floor/j` (real images against their own labels: the measure's
    own error) and `untouched/j` (real images against the values requested for j: what doing nothing scores).
    `val/median_abs_error/relative` is the mean of do(k)/j over untouched/j: 1 does nothing, 0 is perfect; checkpoints are
    chosen by it.

    Args:
        images: how many validation images are used.
        every_n_epochs: measure at the first validation and then at this distance.
        seed: of the values drawn and of the noise abducted.
    """

    def __init__(self, images: int = 500, every_n_epochs: int = 1, seed: int = 0) -> None:
        super().__init__(every_n_epochs)
        self.images, self.seed = images, seed

    def check(self, data: Any) -> None:
        """Refuses data without an attribute that can be measured on an image."""
        if not measured_names(data, Schema(data.scm_spec["attributes"])):
            raise ValueError(
                f"MedianAbsError needs data that can measure attributes on its images, as MorphoMNIST can; "
                f"{type(data).__name__} cannot. Leave the callback out; `cfgen evaluate --predictor` scores such models"
            )

    def act(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        model: Any = pl_module
        columns = {name: column[: self.images] for name, column in data.columns("val").items()}
        images, names = data.images("val")[: self.images], measured_names(data, model.scm.schema)
        share = (trainer.global_rank, trainer.world_size)
        comparisons = compare(model, data, images, columns, names, seed=self.seed, share=share)
        values = {key: metric.compute() for key, metric in median_abs_errors(comparisons, names, model.device).items()}
        relative = torch.stack([values[f"do({k})", j] / values["untouched", j] for k in names for j in names]).mean()
        prefix = "val/median_abs_error"
        # every process has reduced them already
        pl_module.log_dict({f"{prefix}/{do}/{j}": value for (do, j), value in values.items()})
        pl_module.log(f"{prefix}/relative", relative, prog_bar=True)
