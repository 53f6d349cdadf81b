"""Predictor: reads all attributes of an image, to judge counterfactuals it had no part in making."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen import losses
from cfgen.attributes import Binary, Continuous, Schema
from cfgen.batch import Batch
from cfgen.checkpoints import class_path
from cfgen.errors import UserError
from cfgen.networks import AttributePredictor, tables_for
from cfgen.networks.augmentation import augmented
from cfgen.networks.judges import judge_network
from lightning_modules.decay import decaying

__all__ = ["Predictor"]


class Predictor(pl.LightningModule):
    """One output for each entry of a: the scaled value of a continuous attribute, a logit for the others.

    Trained on real images alone.  Effectiveness measured with it is that of Monteiro et al. (2023), "Measuring axiomatic
    soundness of counterfactual image models": how far what is read off a counterfactual is from what was asked for.

    Args:
        scm: the attributes and their causal graph, of which only the attributes matter; comes from the data.
        image_shape: (channels, height, width); comes from the data.
        width: multiplies the filter counts of the network.
        lr: Adam's learning rate.
        betas: Adam's decay rates.
        lr_decay: lower the learning rate to 0 along a cosine until training ends.
        network: table, the encoder's table, which CondALI trains against too; or one that no mechanism has any part of, for a
            judge: residual, a residual convolutional network, or patches, an MLP-Mixer.
        augment: how heavily training images are augmented, from 0 (not at all) to 1; see `cfgen.networks.augmentation`.
    """

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        width: float = 1.0,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        lr_decay: bool = False,
        network: Literal["table", "residual", "patches"] = "table",
        augment: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= augment <= 1:
            raise UserError(f"augment is from 0 to 1, not {augment}")
        self.save_hyperparameters()
        self.image_shape = tuple(image_shape)
        self.schema = Schema(scm["attributes"])  # its ranges, fitted in `setup`, travel in the checkpoint
        self.lr, self.betas, self.lr_decay = lr, (betas[0], betas[1]), lr_decay
        self.augment = augment
        self.network: nn.Module
        if network == "table":
            self.network = AttributePredictor(tables_for(image_shape), self.image_shape[0], self.schema.size, width)
        else:
            self.network = judge_network(network, self.image_shape, self.schema.size, width)
        self.to(memory_format=torch.channels_last)  # faster on a CPU

    def setup(self, stage: str) -> None:
        data = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and data is not None:
            self.schema.fit_ranges(data.train_columns)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    @torch.no_grad()
    def read(self, x: Tensor) -> dict[str, Tensor]:
        """The attributes of images x (N, C, H, W) in [0, 1] as columns in real units."""
        return self.decide(self(x))

    def decide(self, outputs: Tensor) -> dict[str, Tensor]:
        """The network's outputs in real units; a continuous value may lie outside of the range that was seen."""
        vector = outputs.clone()
        for name, attribute in self.schema.attributes.items():
            if isinstance(attribute, Binary):
                part = self.schema.slices[name]
                vector[:, part] = (outputs[:, part] > 0).to(outputs.dtype)
        return self.schema.decode(vector)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        x = augmented(batch.x, self.schema, self.augment)
        loss = losses.attributes(self(x), batch.a, self.schema)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        outputs = self(batch.x)
        read, true = self.decide(outputs), self.schema.decode(batch.a)
        metrics = {"val/loss": losses.attributes(outputs, batch.a, self.schema)}
        for name, attribute in self.schema.attributes.items():
            if isinstance(attribute, Continuous):
                metrics[f"val/mean_abs_error/{name}"] = (read[name] - true[name]).abs().mean()
            else:
                metrics[f"val/accuracy/{name}"] = (read[name] == true[name]).float().mean()
        self.log_dict(metrics, prog_bar=True, batch_size=len(batch.x), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam(self.parameters(), self.lr, self.betas)
        return decaying(self, optimiser) if self.lr_decay else optimiser

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["class_path"] = class_path(self)
