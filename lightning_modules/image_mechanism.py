"""What every LightningModule that is an image mechanism has: an Attribute-SCM fitted on the training split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
from torch import Tensor

from cfgen.counterfactual import State
from cfgen.errors import UserError
from cfgen.scm import AttributeSCM

__all__ = ["ImageMechanismModule"]


class ImageMechanismModule(pl.LightningModule):
    """x := g(z, a) and the Attribute-SCM over a, trained and saved as one.

    `scm` and `image_shape` come from the DataModule; the ranges and mechanisms are fitted when training starts and travel
    in the checkpoint, so a loaded model needs no data.
    """

    def __init__(self, scm: dict[str, Any], image_shape: Sequence[int]) -> None:
        super().__init__()
        self.scm = AttributeSCM(**scm)
        self.image_shape = tuple(image_shape)

    @abstractmethod
    def abduct(self, x: Tensor, a: Tensor) -> State:
        """The exogenous state of images x (N, C, H, W) in [0, 1] with attributes a."""

    @abstractmethod
    def decode(self, z: State, a: Tensor) -> Tensor:
        """The images of state z under attributes a, in [0, 1]."""

    def setup(self, stage: str) -> None:
        # `trainer.datamodule` exists only when a DataModule was passed to the Trainer
        data = getattr(self.trainer, "datamodule", None)
        if data is None:
            return
        if stage == "fit" and not self.scm.fitted:
            self.scm.fit(data.train_columns)
        theirs, ours = data.schema.spec, self.scm.schema.spec
        if theirs != ours:
            raise UserError(
                f"the model was trained with attributes {ours}, but this data has {theirs}: use the same data settings"
            )
