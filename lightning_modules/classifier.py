"""The paper's classifiers in Lightning: Appendix G (digits) and Appendix M (a binary attribute of a face)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.batch import Batch
from cfgen.checkpoints import class_path
from cfgen.errors import UserError
from cfgen.networks.classifiers import classifier_for

__all__ = ["Classifier"]


class Classifier(pl.LightningModule):
    """Predicts y from x; returns logits, (N, classes) or, for a binary target, (N,); for a continuous one its value, (N,).

    Args:
        image_shape: (channels, height, width); comes from the data.
        classes: how many values y has; 2 gives one logit and binary cross-entropy.  By default as many as the data's target
            has, and none where that is continuous: then y itself is predicted, by least squares.
        width: multiplies the filter counts of the convolutions; 0.25 trains 64x64 images on a laptop.
        lr: Adam's learning rate; the paper's is 1e-4.
        betas: Adam's decay rates; the paper's beta1 is 0.5.
        target: what y is, {name, kind, values}; comes from the data.
    """

    returns_logits = True
    continuous = False
    target: Mapping[str, Any] | None = None
    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        image_shape: Sequence[int],
        classes: int | None = None,
        width: float = 1.0,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.5, 0.999),
        target: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.image_shape, self.target = tuple(image_shape), target
        self.classes, self.lr, self.betas = classes_of(classes, target), lr, betas
        self.continuous = self.classes == 1
        self.network = classifier_for(image_shape, self.classes if self.classes > 2 else 1, width)
        if self.continuous:
            # the network predicts standard deviations from the mean: values in any unit are learned alike
            self.register_buffer("centre", torch.zeros(()))
            self.register_buffer("scale", torch.ones(()))
        self.to(memory_format=torch.channels_last)  # a quarter less time on a CPU

    def setup(self, stage: str) -> None:
        data: Any = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and self.continuous and data is not None:
            y = data.targets("train").double()
            if not y.std() > 0:
                raise UserError(f"the target is {y[0]:g} for all training images: there is nothing to learn")
            self.centre.fill_(y.mean())
            self.scale.fill_(y.std())

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.network(x)
        if self.continuous:
            return self.centre + self.scale * outputs[:, 0]
        return outputs if self.classes > 2 else outputs[:, 0]

    def predict(self, x: Tensor) -> Tensor:
        """The predicted class of each image, or its predicted value."""
        return self.decide(self(x))

    def decide(self, outputs: Tensor) -> Tensor:
        if self.continuous:
            return outputs
        return outputs.argmax(dim=1) if self.classes > 2 else (outputs > 0).long()

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        if self.continuous:
            return nn.functional.mse_loss((outputs - self.centre) / self.scale, (y - self.centre) / self.scale)
        if self.classes > 2:
            return nn.functional.cross_entropy(outputs, y.long())
        return nn.functional.binary_cross_entropy_with_logits(outputs, y.to(outputs.dtype))

    def training_step(self, batch: Batch, _: int) -> Tensor:
        loss = self.loss(self(batch.x), batch.y)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        outputs = self(batch.x)
        metrics = {"val/loss": self.loss(outputs, batch.y)}
        if self.continuous:
            metrics["val/mean_abs_error"] = (outputs - batch.y).abs().mean()
        else:
            metrics["val/accuracy"] = (self.decide(outputs) == batch.y).float().mean()
        self.log_dict(metrics, prog_bar=True, batch_size=len(batch.x), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), self.lr, self.betas)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["class_path"] = class_path(self)


def classes_of(classes: int | None, target: Mapping[str, Any] | None) -> int:
    """How many classes a classifier tells apart: those asked for, if the data's target has as many; 1 of a continuous target.

    >>> classes_of(None, {"name": "animal", "kind": "categorical", "values": ["cat", "dog", "hen"]})
    3
    """
    if target is None:
        if classes is None:
            raise UserError("expected the number of classes: the data does not say what its target is", "classes")
        return classes
    name, kind, values = target["name"], target["kind"], list(target["values"])
    if kind == "continuous":
        if classes is not None:
            raise UserError(f"the data's target {name} is continuous and has no classes; leave classes out", "classes")
        return 1
    if classes is not None and values and len(values) != classes:
        raise UserError(
            f"the data's target {name} has {len(values)} values, not {classes}; leave classes out", "classes"
        )
    return classes if classes is not None else len(values) or 2
