"""What every LightningModule that is an image mechanism has: an Attribute-SCM fitted on the training split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from cfgen.checkpoints import class_path
from cfgen.counterfactual import State
from cfgen.errors import UnfitRun, UserError
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

    @abstractmethod
    def prior(self, rows: int) -> State:
        """States drawn from the model's prior, on its device: `decode` makes images of them that nobody has seen."""

    def keep_inference_only(self) -> None:  # most models have nothing to forget
        """Forgets what only training needs, for an export or for a module that builds on this one."""

    def gaussian(self, *shape: int) -> Tensor:
        """N(0, 1) on the module's device, in its precision."""
        return torch.randn(shape, device=self.device).to(self.dtype)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["class_path"] = class_path(self)  # so that a checkpoint alone says what it is of

    def setup(self, stage: str) -> None:
        if stage == "fit":
            self._require_whole()
        if stage == "fit" and not self.scm.fitted and self._data is not None:
            self.scm.fit(self._data.train_columns)

    def on_fit_start(self) -> None:
        self._require_same_attributes()

    def on_validation_start(self) -> None:
        self._require_same_attributes()

    def require_fit_for(self, scm: dict[str, Any], image_shape: Sequence[int], argument: str, run: str) -> None:
        """Refuses this module, loaded from the earlier `run` that an `argument` names, for other images or attributes."""
        if self.image_shape != tuple(image_shape):
            theirs, ours = ("x".join(map(str, shape)) for shape in (self.image_shape, image_shape))
            raise UnfitRun(
                argument, f"{run} makes images of {theirs} (channels, height, width), and the data has {ours}"
            )
        theirs_scm = self.hparams["scm"]
        if theirs_scm != scm:
            differing = sorted(set(theirs_scm["attributes"]) ^ set(scm["attributes"]))
            what = f"attributes ({', '.join(differing)})" if differing else "causal graph or mechanisms"
            raise UnfitRun(argument, f"{run} was trained with other {what} than the data has")

    def _require_whole(self) -> None:
        """Refuses a subclass that could be trained and then not be loaded."""
        if not {"scm", "image_shape"} <= self.hparams.keys():
            raise UserError(
                f"{type(self).__name__} could not be loaded again: call self.save_hyperparameters() in its __init__"
            )

    @property
    def _data(self) -> Any:
        """The DataModule, where one was passed to the Trainer."""
        return getattr(self.trainer, "datamodule", None)

    def _require_same_attributes(self) -> None:
        """Refuses data other than that of the checkpoint, which is loaded by now: its ranges would mean something else."""
        if self._data is None:
            return
        difference = self.scm.schema.difference(self._data.schema)
        if difference:
            raise UserError(f"the model was trained with other attributes: {difference}. Use the same data settings")
