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

    @property
    def class_path(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["class_path"] = self.class_path  # so that a checkpoint alone says what it is of

    def setup(self, stage: str) -> None:
        if stage == "fit" and not self.scm.fitted and self._data is not None:
            self.scm.fit(self._data.train_columns)

    def on_fit_start(self) -> None:
        self._require_same_attributes()

    def on_validation_start(self) -> None:
        self._require_same_attributes()

    @property
    def _data(self) -> Any:
        """The DataModule, where one was passed to the Trainer."""
        return getattr(self.trainer, "datamodule", None)

    def _require_same_attributes(self) -> None:
        """Refuses data other than that of the checkpoint, which is loaded by now: its ranges would mean something else."""
        if self._data is None:
            return
        theirs, ours = self._data.schema.spec, self.scm.schema.spec
        if theirs != ours:
            differing = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
            raise UserError(
                f"the model was trained with other data: {', '.join(differing)} differ, e.g. {ours.get(differing[0])} in the "
                f"model and {theirs.get(differing[0])} in the data. Use the same data settings"
            )
