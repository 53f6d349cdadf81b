"""What every LightningModule that is an image mechanism has: an Attribute-SCM fitted on the training split."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from cfgen.checkpoints import class_path
from cfgen.contracts import Noise, State
from cfgen.errors import UnfitRun, UserError
from cfgen.scm import AttributeSCM

__all__ = ["ImageMechanismModule"]


class ImageMechanismModule(pl.LightningModule, ABC):
    """x := g(z, a) and the Attribute-SCM over a, trained and saved as one.

    `scm` and `image_shape` come from the DataModule; the ranges and mechanisms are fitted when training starts and travel
    in the checkpoint, so a loaded model needs no data.
    """

    def __init__(self, scm: dict[str, Any], image_shape: Sequence[int]) -> None:
        super().__init__()
        self.scm = AttributeSCM(**scm)
        self.image_shape = tuple(image_shape)
        if len(self.image_shape) != 3 or not all(isinstance(n, int) and n > 0 for n in self.image_shape):
            raise ValueError(f"image_shape is (channels, height, width), not {self.image_shape}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuses a mechanism whose methods callers could not call: it would come out only after training."""
        super().__init_subclass__(**kwargs)
        for name, form in (("abduct", "x, a, noise=None"), ("prior", "a, noise=None")):
            parameters = inspect.signature(getattr(cls, name)).parameters
            if "noise" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                raise UserError(
                    f"{cls.__name__}.{name} takes ({', '.join(list(parameters)[1:])}), and ({form}) is expected: `noise` has "
                    "the random numbers of each image, for a mechanism that draws any"
                )

    @abstractmethod
    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> State:
        """The exogenous state of images x (N, C, H, W) in [0, 1] with attributes a.

        What has to be drawn is drawn from `noise`, or in training, where none is given, from torch's generator.
        """

    @abstractmethod
    def decode(self, z: State, a: Tensor) -> Tensor:
        """The images of state z under attributes a, in [0, 1]."""

    @abstractmethod
    def prior(self, a: Tensor, noise: Noise | None = None) -> State:
        """States drawn for attributes a (N, size), on their device: `decode` makes images of them that nobody has seen."""

    def own_reconstruction(self, z: State, a: Tensor) -> Tensor:
        """x_r as the network draws it; another than `decode(z, a)` only where the state keeps what the network lost."""
        return self.decode(z, a)

    def keep_inference_only(self) -> None:  # most models have nothing to forget
        """Forgets what only training needs, for an export or for a module that builds on this one."""

    def gaussian(self, *shape: int, noise: Noise | None = None) -> Tensor:
        """N(0, 1) on the module's device, in its precision; with `noise`, each row's own numbers."""
        drawn = torch.randn(shape, device=self.device) if noise is None else noise.normal(*shape[1:])
        return drawn.to(self.device).to(self.dtype)

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
                f"{run} makes images of {theirs} (channels, height, width), and the data has {ours}", argument
            )
        theirs_scm = self.hparams["scm"]
        if theirs_scm != scm:
            differing = sorted(set(theirs_scm["attributes"]) ^ set(scm["attributes"]))
            what = f"attributes ({', '.join(differing)})" if differing else "causal graph or mechanisms"
            raise UnfitRun(f"{run} was trained with other {what} than the data has", argument)

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
