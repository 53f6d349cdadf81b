"""Bias of a classifier under interventions, during training and on test images after it (Eq. 4 and 5, Appendix N)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn

from callbacks.bias_split import BiasEstimate, BiasSplit, Pictures
from callbacks.every_n_epochs import EveryNEpochs
from cfgen.attributes import Schema
from cfgen.checkpoints import load_module, located, packaged_models
from cfgen.effects import Effect
from cfgen.errors import UserError
from lightning_modules import Classifier, ImageMechanismModule, ResidualKept

__all__ = ["Bias"]


class Bias(EveryNEpochs):
    """Measures `val/bias/Black_Hair+Pale_Skin` and so on: Eq. 5 for the validation images that the intervention changes.

    The number is the one that an audit reports (`cfgen.effects.estimate_effect`): the combined estimate from all validation
    images and from a model's counterfactuals.  Where only a part of the images has overlap with exposed images, the estimate is
    about that part.  Where there is no combined estimate, the number is the model-only estimate.  A warning tells of both.  The
    model-only estimate (Eq. 4) is also `val/bias_generator/NAME`.

    The counterfactuals come from `mechanism`, or from the model's own where it has some, as a CFClassifier does; the estimates of
    several are pooled.  They do not change while the classifier learns, so they are made once and kept in half precision (out by
    a sixteenth of a grey level at most): 25 kB for each image of 64x64, intervention and mechanism.

    Of more than two classes, each has a bias, that of the class against the rest: `val/bias/NAME/CLASS`, by its number.

    `val/bias/max_abs` is the largest |bias|.  `val/bias/where_accurate` is what Appendix N chooses a checkpoint by: that
    same number where `val/accuracy` reaches `accuracy`, and 2 - val/accuracy, worse than any bias, where it does not.  Its
    lowest value is the fairest of the accurate models, and until there is one the most accurate.

    A number that chose a checkpoint flatters it.  So at the end of training the checkpoint that was chosen, or the last one where
    nothing chooses, is measured on the test split, which chose nothing: `test/accuracy` and `test/bias/NAME`, each with the ends
    of its 95 % interval as `.../low` and `.../high`.

    Args:
        mechanism: a trained image mechanism: a run, a checkpoint, an exported folder or a model that comes with cfgen, trained
            on the classifier's data; by default the model's own.
        do: the interventions, e.g. [{Black_Hair: 1, Pale_Skin: 1}]; by default those the model is trained with.
        keep_residual: give every image back what the reconstruction of `mechanism` lost (`ResidualKept`).
        accuracy: below it a model is not chosen; the paper's is 0.8.
        images: for how many images of a split counterfactuals are made; the answers to real images are those of all.
        every_n_epochs: measure at the first validation and then at this distance.
        seed: of the noise that is abducted, and of the cross-fitting folds, as in an audit.
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
        self.makers: list[ImageMechanismModule] = []
        self.watched: tuple[BiasSplit, list[Pictures]] | None = None

    def check(self, data: Any) -> None:
        """Refuses names and values that the data does not have, and a mechanism that is not there."""
        for do in self.do or []:
            Schema(data.scm_spec["attributes"]).check_do(do)
        if self.mechanism is not None:
            located(self.mechanism)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuses what cannot be measured, before training starts."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        self.makers, self.watched = self.load_mechanisms(pl_module, data), None
        do = getattr(pl_module, "do", None) if self.do is None else self.do
        if not do:
            raise UserError("Bias: do names no intervention: give one or more, e.g. [{Black_Hair: 1, Pale_Skin: 1}]")
        self.interventions = {intervention_name(values): values for values in do}
        columns = data.columns("val")
        for name, values in self.interventions.items():
            try:
                wanted = self.makers[0].scm.schema.check_do(values)
            except ValueError as error:
                raise UserError(str(error)) from error
            if not any((columns[key][: self.images] != value.cpu()).any() for key, value in wanted.items()):
                raise UserError(f"Bias: {name} changes none of the {self.images} validation images used")

    def load_mechanisms(self, model: pl.LightningModule, data: Any) -> list[ImageMechanismModule]:
        """The mechanism given, else the model's own; refuses a model that is none to measure, and a mechanism unfit for it."""
        if not isinstance(model, Classifier) or model.continuous:
            what = "one that predicts a value" if isinstance(model, Classifier) else f"a {type(model).__name__}"
            raise UserError(f"Bias is that of a classifier, not of {what}")
        if self.mechanism is None:
            own = getattr(model, "mechanisms", None)
            if not own:
                raise UserError(
                    f"Bias: a {type(model).__name__} has no mechanism of its own. Give Bias one, and do: mechanism is a run, "
                    f"or a model that comes with cfgen ({', '.join(packaged_models())})"
                )
            return list(own)
        given: ImageMechanismModule = load_module(self.mechanism, ImageMechanismModule)  # type: ignore[type-abstract]  # only a bound
        given.require_fit_for(data.scm_spec, data.image_shape, "mechanism", self.mechanism)
        given = ResidualKept(given) if self.keep_residual else given
        return [given.eval().requires_grad_(False)]

    def split(self, trainer: pl.Trainer, model: pl.LightningModule, name: str) -> BiasSplit:
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        makers = [maker.to(device=model.device, dtype=model.dtype) for maker in self.makers]
        return BiasSplit(data, name, makers, self.interventions, self.images, self.seed)

    @torch.inference_mode()
    def act(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        first = self.watched is None
        if self.watched is None:
            split = self.split(trainer, pl_module, "val")
            self.watched = split, list(split.pictures((trainer.global_rank, trainer.world_size)))
        split, pictures = self.watched
        estimate = split.estimate(trainer, pl_module, pictures)
        if first:
            self.warn(split, estimate)  # once
        values = {name: effect.headline.value for name, effect in estimate.effects.items()}
        values["max_abs"] = max(map(abs, values.values()), default=math.nan)
        accuracy = float(trainer.callback_metrics["val/accuracy"])
        values["where_accurate"] = values["max_abs"] if accuracy >= self.accuracy else 2 - accuracy
        pl_module.log_dict({f"val/bias/{name}": value for name, value in values.items()})
        model_only = {name: effect.model_only.value for name, effect in estimate.effects.items()}
        pl_module.log_dict({f"val/bias_generator/{name}": value for name, value in model_only.items()})

    def warn(self, split: BiasSplit, estimate: BiasEstimate) -> None:
        """Warns about interventions without a combined estimate for all images that they change."""
        for name in self.interventions:
            effect = estimate.effects.get(name, estimate.effects.get(f"{name}/0"))  # classes share the images
            if effect is None:
                reason = f"none of the first {split.n_drawn:,} images that would change has overlap"
                rank_zero_warn(f"Bias: {name} is not measured, because {reason}")
            elif limitation(effect):
                reason = effect.problem or "the others lack overlap"
                rank_zero_warn(f"Bias: {name} has {limitation(effect)}, because {reason}")

    @torch.inference_mode()
    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measures the checkpoint that was chosen on images that chose nothing."""
        if self.acted_at is None or trainer.fast_dev_run:  # type: ignore[attr-defined]  # set in Trainer.__init__
            return
        with chosen_weights(trainer, pl_module) as epoch:
            split = self.split(trainer, pl_module, "test")
            pictures = split.pictures((trainer.global_rank, trainer.world_size))
            estimate = split.estimate(trainer, pl_module, pictures)
        for logger in trainer.loggers:
            logger.log_metrics({"epoch": epoch} | scalars(estimate), step=trainer.global_step)
        rank_zero_info(sentence(estimate))


@contextmanager
def chosen_weights(trainer: pl.Trainer, model: pl.LightningModule) -> Iterator[int]:
    """The model as it is used after training, with weights of the checkpoint that was chosen, if there is one; their epoch."""
    best = getattr(trainer.checkpoint_callback, "best_model_path", "")
    training, last, epoch = model.training, None, trainer.current_epoch - 1
    if best:
        chosen = torch.load(best, map_location="cpu", weights_only=True)
        last = {name: value.clone() for name, value in model.state_dict().items()}
        epoch = int(chosen["epoch"])
        model.load_state_dict(chosen["state_dict"])
    model.eval()
    try:
        yield epoch
    finally:
        model.train(training)
        if last is not None:
            model.load_state_dict(last)


def scalars(estimate: BiasEstimate) -> dict[str, float]:
    """What is logged of a test split."""
    values = dict(zip(("test/accuracy", "test/accuracy/low", "test/accuracy/high"), estimate.accuracy, strict=True))
    for name, effect in estimate.effects.items():
        key, bias = f"test/bias/{name}", effect.headline
        values |= {key: bias.value, f"{key}/low": bias.low, f"{key}/high": bias.high}
        values[f"test/bias_generator/{name}"] = effect.model_only.value
    return values


def limitation(effect: Effect) -> str:
    """What an effect has instead of a combined estimate for all images that would change; empty where it has that."""
    if effect.combined is None:
        return "a model-only estimate"
    if effect.share_compared < 1:
        return f"an estimate for {100 * effect.share_compared:.0f} % of the images that would change"
    return ""


def sentence(estimate: BiasEstimate) -> str:
    """What is printed about a test split."""
    accuracy, low, high = (f"{100 * value:.1f}" for value in estimate.accuracy)
    biases = []
    for name, effect in estimate.effects.items():
        bias, note = effect.headline, limitation(effect)
        biases.append(f"{name} {bias.value:+.3f} ({bias.low:+.3f} to {bias.high:+.3f}{note and f'; {note}'})")
    measured = f"accuracy {accuracy} % ({low} to {high} %), bias {', '.join(biases) or 'of no intervention'}"
    return f"on {estimate.n_images:,} test images, which chose nothing: {measured}"


def intervention_name(do: Mapping[str, Any]) -> str:
    """`Black_Hair+Pale_Skin` for values of 1, and `Young=0` for any other."""
    return "+".join(name if value == 1 else f"{name}={value}" for name, value in do.items())
