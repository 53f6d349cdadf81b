"""The paper's classifiers in Lightning: Appendix G (digits) and Appendix M (a binary attribute of a face)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.batch import Batch
from cfgen.checkpoints import class_path
from cfgen.networks.classifiers import classifier_for

__all__ = ["Classifier"]


class Classifier(pl.LightningModule):
    """Predicts y from x; returns logits, (N, classes) or, for a binary target, (N,).

    Args:
        image_shape: (channels, height, width); comes from the data.
        classes: how many values y has; 2 gives one logit and binary cross-entropy.
        width: multiplies the filter counts of the convolutions; 0.25 trains 64x64 images on a laptop.
        lr: Adam's learning rate; the paper's is 1e-4.
        betas: Adam's decay rates; the paper's beta1 is 0.5.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        classes: int,
        width: float = 1.0,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.5, 0.999),
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.image_shape = tuple(image_shape)
        self.classes, self.lr, self.betas = classes, lr, betas
        self.network = classifier_for(image_shape, classes if classes > 2 else 1, width)
        self.to(memory_format=torch.channels_last)  # a quarter less time on a CPU

    def forward(self, x: Tensor) -> Tensor:
        logits = self.network(x)
        return logits if self.classes > 2 else logits[:, 0]

    def predict(self, x: Tensor) -> Tensor:
        """The predicted class of each image."""
        return self.decide(self(x))

    def decide(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=1) if self.classes > 2 else (logits > 0).long()

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        if self.classes > 2:
            return nn.functional.cross_entropy(logits, y)
        return nn.functional.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))

    def training_step(self, batch: Batch, _: int) -> Tensor:
        loss = self.loss(self(batch.x), batch.y)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        logits = self(batch.x)
        accuracy = (self.decide(logits) == batch.y).float().mean()
        metrics = {"val/loss": self.loss(logits, batch.y), "val/accuracy": accuracy}
        self.log_dict(metrics, prog_bar=True, batch_size=len(batch.x), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), self.lr, self.betas)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["class_path"] = class_path(self)
