"""Bias of a classifier under interventions, during training (Eq. 4, Appendix N)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor

from callbacks.every_n_epochs import EveryNEpochs
from cfgen.attributes import Schema
from cfgen.checkpoints import load_module, located, packaged_models
from cfgen.counterfactual import asked_of, sweep
from cfgen.errors import UserError
from cfgen.metrics import CounterfactualBias
from lightning_modules import Classifier, ImageMechanismModule, ResidualKept

__all__ = ["Bias"]

AT_ONCE = 100  # images


class Pairs(NamedTuple):
    """A batch of base images; by intervention, which of them it changes and the counterfactuals of those."""

    x_r: Tensor
    changed: dict[str, Tensor]
    x_c: dict[str, Tensor]


class Bias(EveryNEpochs):
    """Measures `val/bias/Black_Hair+Pale_Skin` and so on: Eq. 4 on the validation images that are not so already.

    The images come from `mechanism`, or from the model's own where it has one, as a CFClassifier does.  They do not change while
    the classifier learns, so they are made once and kept in half precision (out by a sixteenth of a grey level at most): 25 kB
    for each image of 64x64 and intervention.

    `val/bias/max_abs` is the largest |bias|.  `val/bias/where_accurate` is what Appendix N chooses a checkpoint by: that
    same number where `val/accuracy` reaches `accuracy`, and 2 - val/accuracy, worse than any bias, where it does not.  Its
    lowest value is the fairest of the accurate models, and until there is one the most accurate.

    Args:
        mechanism: a trained image mechanism: a run, a checkpoint, an exported folder or a model that comes with cfgen, trained
            on the classifier's data; by default the model's own.
        do: the interventions, e.g. [{Black_Hair: 1, Pale_Skin: 1}]; by default those the model is trained with.
        keep_residual: give every image back what the reconstruction of `mechanism` lost (`ResidualKept`).
        accuracy: below it a model is not chosen; the paper's is 0.8.
        images: how many validation images are used.
        every_n_epochs: measure at the first validation and then at this distance.
        seed: of the noise abducted.
    """

    def __init__(
        self,
        mechanism: str | None = None,
        do: Sequence[Mapping[str, Any]] | None = None,
        keep_residual: bool = False,
        accuracy: float = 0.8,
        images: int = 1000,
        every_n_epochs: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__(every_n_epochs)
        if keep_residual and mechanism is None:
            raise ValueError("Bias: keep_residual is for a mechanism given here; the model's own has its own setting")
        self.mechanism, self.keep_residual = mechanism, keep_residual
        self.do = None if do is None else [dict(values) for values in do]
        self.accuracy, self.images, self.seed = accuracy, images, seed
        self.interventions: dict[str, dict[str, Any]] = {}
        self.maker: ImageMechanismModule | None = None
        self.pairs: list[Pairs] | None = None

    def check(self, data: Any) -> None:
        """Refuses names and values that the data does not have, and a mechanism that is not there."""
        schema = Schema(data.scm_spec["attributes"])
        for do in self.do or []:
            schema.check_do(do)
        if self.mechanism is not None:
            located(self.mechanism)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuses what cannot be measured, before training starts."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        self.maker, self.pairs = self.found_mechanism(pl_module, data), None
        do = getattr(pl_module, "do", None) if self.do is None else self.do
        if not do:
            raise UserError("Bias: do names no intervention: give one or more, e.g. [{Black_Hair: 1, Pale_Skin: 1}]")
        self.interventions = {intervention_name(values): values for values in do}
        columns = data.columns("val")
        for name, values in self.interventions.items():
            try:
                wanted = self.maker.scm.schema.check_do(values)
            except ValueError as error:
                raise UserError(str(error)) from error
            if not any((columns[key][: self.images] != value.cpu()).any() for key, value in wanted.items()):
                raise UserError(f"Bias: {name} changes none of the {self.images} validation images used")

    def found_mechanism(self, model: pl.LightningModule, data: Any) -> ImageMechanismModule:
        """The mechanism given, else the model's own; refuses a model that is none to measure, and a mechanism unfit for it."""
        if not isinstance(model, Classifier) or model.classes != 2:
            what = f"one of {model.classes} classes" if isinstance(model, Classifier) else f"a {type(model).__name__}"
            raise UserError(f"Bias is that of a binary classifier, not of {what}")
        if self.mechanism is None:
            own = getattr(model, "mechanism", None)
            if not isinstance(own, ImageMechanismModule):
                raise UserError(
                    f"Bias: a {type(model).__name__} has no mechanism of its own. Give Bias one, and do: mechanism is a run, "
                    f"or a model that comes with cfgen ({', '.join(packaged_models())})"
                )
            return own
        given: ImageMechanismModule = load_module(self.mechanism, ImageMechanismModule)  # type: ignore[type-abstract]  # only a bound
        given.require_fit_for(data.scm_spec, data.image_shape, "mechanism", self.mechanism)
        given = ResidualKept(given) if self.keep_residual else given
        return given.eval().requires_grad_(False)

    @torch.inference_mode()
    def act(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        model: Any = pl_module
        if self.pairs is None:
            assert self.maker is not None
            self.pairs = list(self.make_pairs(trainer, self.maker.to(device=model.device, dtype=model.dtype)))
            self.maker = None  # it has done its work, and takes memory
        metrics = {name: CounterfactualBias(resamples=0).to(model.device) for name in self.interventions}
        for x_r, changed, x_c in self.pairs:
            y_r = model.predict(x_r.to(model.dtype))
            for name, metric in metrics.items():
                if changed[name].any():
                    metric.update(y_r[changed[name]], model.predict(x_c[name].to(model.dtype)))
        # each is reduced over all processes here, once, and then the same on every one
        values = {name: metric.compute()["bias"] for name, metric in metrics.items()}
        values["max_abs"] = torch.stack(list(values.values())).abs().max()
        accuracy = trainer.callback_metrics["val/accuracy"]
        values["where_accurate"] = values["max_abs"] if accuracy >= self.accuracy else 2 - accuracy
        model.log_dict({f"val/bias/{name}": value for name, value in values.items()})

    def make_pairs(self, trainer: pl.Trainer, mechanism: ImageMechanismModule) -> Iterator[Pairs]:
        """This process's share: every n-th image."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        x = data.images("val")[: self.images]
        columns = {name: column[: self.images] for name, column in data.columns("val").items()}
        asked = {
            name: asked_of(mechanism, columns, do, self.seed, changed_only=True)
            for name, do in self.interventions.items()
        }
        share = (trainer.global_rank, trainer.world_size)
        for batch in sweep(mechanism, x, columns, asked, seed=self.seed, batch_size=AT_ONCE, share=share):
            changed = {name: batch.of(name).to(mechanism.device) for name in asked}
            yield Pairs(batch.x_r.half(), changed, {name: batch.x_c(name).half() for name in asked})


def intervention_name(do: Mapping[str, Any]) -> str:
    """`Black_Hair+Pale_Skin` for values of 1, and `Young=0` for any other."""
    return "+".join(name if value == 1 else f"{name}={value}" for name, value in do.items())
