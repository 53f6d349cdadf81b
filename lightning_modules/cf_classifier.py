"""CFClassifier: a trained classifier fine-tuned to judge an image and its counterfactual alike (Eq. 7, Appendix N)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn
from safetensors.torch import save_file
from torch import Tensor, nn

from cfgen.batch import Batch
from cfgen.checkpoints import module_of, spec_of
from cfgen.classifiers import names_function
from cfgen.classifiers.spec import Layout, Output
from cfgen.counterfactual import as_unit_float
from cfgen.effects import Sample
from cfgen.errors import UnfitRun, UserError
from cfgen.interventions import Set
from lightning_modules.classifier import Classifier
from lightning_modules.decay import decaying
from lightning_modules.frozen import expect_evaluation_mode
from lightning_modules.image_mechanism import ImageMechanismModule
from lightning_modules.own_network import OwnNetwork
from lightning_modules.residual_kept import ResidualKept
from lightning_modules.weighted_gap import WeightedGap

__all__ = ["REPAIRED", "CFClassifier"]

REPAIRED = "repaired.safetensors"  # the weights of a network of the user's own, beside the checkpoints
CHECKED = 64  # images that such a network is tried on before training


class CFClassifier(Classifier):
    """Eq. 7, and by wish the same aim on real images: BCE(y, f(x)) + weight * MSE(logits(x_r), logits(x_c)) + gap_weight * gap^2.

    Of more than two classes, the first term is the cross-entropy, and the others are of every class.

    Each image meets one of the interventions, as one of the mechanisms draws it, both drawn anew every time: on average that is
    Eq. 7's second term over all of them, at the price of one.  An image that is so already has x_c = x_r and adds nothing.

    What a mechanism does not draw, the second term does not see.  The third needs no mechanism: it is the gap between the
    answers for real images that have an intervention's values and for those without, weighted to be alike in all attributes
    that the intervention does not cause (`WeightedGap`), summed over interventions.

    All terms are taken of the classifier as it will be used, without dropout and with the statistics that batch norm has
    learned: two dropout masks would differ where the images do not, and statistics of a batch of counterfactuals would hide
    what they have in common, which is the bias.  Were only the second term taken so, fine-tuning would make one function of
    the two modes into two: on drawn faces, one that tells faces apart in training and answers all alike in use.

    The mechanisms only make images for training.  They are no part of the checkpoint, which therefore loads as a classifier
    without any earlier run.  Of a network of the user's own, the weights that are chosen are also written to
    `repaired.safetensors` under its own names, so that the user's code loads them.

    Args:
        image_shape: (channels, height, width); comes from the data.
        classifier: the trained classifier: a run, a config whose run is used where it is finished and trained first where it is
            not, or MODULE:FUNCTION, a function of your own that returns a network with its weights.
        mechanism: the trained image mechanism that makes x_r and x_c; likewise a run or a config, or a model that comes with
            cfgen.  The data must be its data.  Of several, given as a list, each image meets one.
        do: the interventions under which the answer should stay, e.g. [{Black_Hair: 1, Pale_Skin: 1}].
        weight: the paper's lambda; its value is 1.  With 0 no counterfactuals are made.
        keep_residual: give every image back what its reconstruction lost (`ResidualKept`), so that x_r is x.  Otherwise the
            classifier can learn to judge reconstructions alike and images as before: with a generator that blurs, bias fell
            and accuracy with it.
        gap_weight: of the gap between real images; 0 leaves it out, as the paper does.  An intervention whose values too few
            training images have is left out with a warning.
        lr: Adam's learning rate; the paper's is 1e-4.
        betas: Adam's decay rates; the paper's beta1 is 0.5.
        lr_decay: lower the learning rate to 0 along a cosine until training ends: bias and accuracy settle.
        resize: height and width that a network of your own takes; by default those of the data's images.
        mean, std: of each channel (or one for all), subtracted from its pixels in 0..1 and divided by.
        layout: nchw, or nhwc for a network that takes channels last.
        output: what it returns: logit, multilabel or probability, as in an audit.
        positive: the class or label that is yes; by default 1 of two, and all of more than two.
    """

    earlier_runs: ClassVar[tuple[str, ...]] = ("classifier", "mechanism")
    gap: WeightedGap | None

    def __init__(
        self,
        image_shape: Sequence[int],
        classifier: str | Mapping[str, Any],
        mechanism: list[str] | str | None,
        do: list[dict[str, Any]],
        weight: float = 1.0,
        keep_residual: bool = False,
        gap_weight: float = 0.0,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.5, 0.999),
        lr_decay: bool = False,
        resize: list[int] | None = None,
        mean: list[float] | None = None,
        std: list[float] | None = None,
        layout: Layout | None = None,
        output: Output | None = None,
        positive: int | None = None,
    ) -> None:
        super(Classifier, self).__init__()  # not Classifier's own: the network is an earlier run's
        taken = {"resize": resize, "mean": mean, "std": std, "layout": layout, "output": output, "positive": positive}
        given = {name: value for name, value in taken.items() if value is not None}
        # Lightning trains modules in the mode they are in
        self.classifier = trained_classifier(classifier, image_shape, given).eval()
        self.save_hyperparameters(ignore=["classifier", "mechanism", *taken])
        # what a checkpoint of this module needs of the earlier runs
        self.hparams.update(classifier=spec_of(self.classifier), mechanism=None)
        self.image_shape = tuple(image_shape)
        self.classes, self.target, self.do = self.classifier.classes, self.classifier.target, do
        self.lr, self.betas, self.lr_decay = lr, betas, lr_decay
        self.weight, self.gap_weight, self.keep_residual = weight, gap_weight, keep_residual
        if self.classifier.continuous:
            raise UserError(f"answers of classes can be repaired; {classifier} predicts a value", "classifier")
        if self.classifier.image_shape != self.image_shape:
            raise UnfitRun(f"{classifier} {not_for(self.classifier.image_shape, self.image_shape)}", "classifier")
        if mechanism == []:
            raise UserError("names no model: give one or more", "mechanism")
        paths = [] if mechanism is None else [mechanism] if isinstance(mechanism, str) else mechanism
        # in a list, which nn.Module does not look into: they are not to be trained, saved or counted
        self.mechanisms: list[ImageMechanismModule] = [self.made_ready(path) for path in paths]
        self.gap = None

    def made_ready(self, path: str) -> ImageMechanismModule:
        """A trained mechanism, which stays as it is; refuses one that cannot do what is asked."""
        mechanism: ImageMechanismModule = module_of(path, ImageMechanismModule)  # type: ignore[type-abstract]  # only a bound
        if mechanism.image_shape != self.image_shape:
            raise UnfitRun(f"{path} {not_for(mechanism.image_shape, self.image_shape)}", "mechanism")
        if not self.do:
            raise UserError("do names no intervention: give one or more, e.g. [{Black_Hair: 1, Pale_Skin: 1}]")
        for do in self.do:
            mechanism.scm.schema.check_do(do)
        mechanism = ResidualKept(mechanism) if self.keep_residual else mechanism
        return mechanism.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> CFClassifier:
        """The classifier itself stays as it is in use."""
        super().train(mode)
        self.classifier.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(x)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        x_r, x_c = self.base_and_counterfactual(batch) if self.weight else (batch.x, batch.x[:0])
        images = [batch.x, x_c] if x_r is batch.x else [batch.x, x_r, x_c]
        logits = self(torch.cat(images)).split([len(part) for part in images])
        bce = loss = self.loss(logits[0], batch.y)
        logged = {"train/bce": bce.detach()}
        if self.weight:
            apart = nn.functional.mse_loss(logits[-1], logits[-2])
            loss = loss + self.weight * apart
            logged["train/logit_gap"] = apart.detach()
        if self.gap is not None:
            gaps = self.gap(logits[0], batch.a)
            loss = loss + self.gap_weight * gaps.square().sum()
            logged["train/weighted_gap"] = gaps.detach().abs().max()
        self.log_dict(logged, prog_bar=True)
        return loss

    @torch.no_grad()
    def base_and_counterfactual(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """x_r and x_c (Eq. 3 and 1), each image under an intervention and by a mechanism of its own draw."""
        x, a = batch.x, batch.a
        vectors = [self.mechanisms[0].scm.counterfactual_vector(a, do, torch.default_generator) for do in self.do]
        drawn = torch.randint(len(vectors), (len(a),), device=a.device)
        a_c = torch.stack(vectors)[drawn, torch.arange(len(a), device=a.device)]
        if len(self.mechanisms) == 1:
            return self.drawn_by(self.mechanisms[0], x, a, a_c)
        by = torch.randint(len(self.mechanisms), (len(a),), device=a.device)
        x_r, x_c = torch.empty_like(x), torch.empty_like(x)
        for number, mechanism in enumerate(self.mechanisms):
            of = by == number
            if of.any():
                x_r[of], x_c[of] = self.drawn_by(mechanism, x[of], a[of], a_c[of])
        return x if self.keep_residual else x_r, x_c

    def drawn_by(self, mechanism: ImageMechanismModule, x: Tensor, a: Tensor, a_c: Tensor) -> tuple[Tensor, Tensor]:
        z = mechanism.abduct(x, a)
        return x if self.keep_residual else mechanism.decode(z, a), mechanism.decode(z, a_c)

    def configure_optimizers(self) -> Any:
        optimiser = super().configure_optimizers()
        return decaying(self, optimiser) if self.lr_decay else optimiser

    def setup(self, stage: str) -> None:
        data: Any = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and data is not None:
            self.require_fit_for(data)
        if stage != "fit" or not self.gap_weight or not self.mechanisms:
            return
        if data is None:
            raise UserError("needs the attributes of the training images: train with a datamodule", "gap_weight")
        self.require_data_of_mechanisms(data)
        sample = Sample(data.schema, self.mechanisms[0].scm.graph, data.train_columns)
        compared = []
        for intervention in (Set.from_values(data.schema, do) for do in self.do):
            comparison = sample.comparison(intervention)
            if problem := comparison.problem if comparison.n_target else "it changes no training image":
                rank_zero_warn(
                    f"gap_weight: {intervention.describe()} is left out, because real images cannot answer: {problem}"
                )
            else:
                compared.append(intervention)
        outputs = self.classes if self.classes > 2 else 1
        self.gap = WeightedGap(sample, compared, outputs=outputs) if compared else None

    def require_fit_for(self, data: Any) -> None:
        """Refuses data whose classes are others than the classifier's, and a network that does not answer for its images."""
        most = int(data.targets("train").max())
        if most >= self.classes:
            raise UserError(
                f"tells {self.classes} classes apart, numbered 0 to {self.classes - 1}, and the data's target goes up to {most}",
                "classifier",
            )
        if isinstance(self.classifier, OwnNetwork):
            self.classifier.check(as_unit_float(data.images("val")[:CHECKED]).to(self.device))

    def on_train_end(self) -> None:
        """Writes the weights that are chosen of a network of the user's own, under its own names."""
        keeper: Any = self.trainer.checkpoint_callback
        folder = getattr(keeper, "dirpath", None)
        if not isinstance(self.classifier, OwnNetwork) or folder is None or not self.trainer.is_global_zero:
            return
        best = getattr(keeper, "best_model_path", "")
        whole = torch.load(best, map_location="cpu", weights_only=True)["state_dict"] if best else self.state_dict()
        state = self.classifier.own_state(whole, prefix="classifier.")
        path = Path(folder) / REPAIRED
        save_file(state, unfinished := path.with_suffix(".tmp"))
        unfinished.replace(path)  # whole or not at all
        rank_zero_info(f"the repaired network's own weights: {path}")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if self.gap is not None:
            checkpoint["gap_sums"] = self.gap.sums

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.gap is not None and "gap_sums" in checkpoint:
            self.gap.sums = checkpoint["gap_sums"].to(self.gap.sums)

    def on_fit_start(self) -> None:
        if not self.mechanisms:
            raise UserError("this CFClassifier was loaded for prediction: give it a mechanism to train it further")
        self.place_mechanisms()
        expect_evaluation_mode()

    def on_validation_start(self) -> None:
        self.place_mechanisms()

    def place_mechanisms(self) -> None:
        """To the device and precision of this module, which Lightning has set by now; refuses data that is not their own."""
        for mechanism in self.mechanisms:
            mechanism.to(device=self.device, dtype=self.dtype)
        data: Any = getattr(self.trainer, "datamodule", None)
        if data is not None:
            self.require_data_of_mechanisms(data)

    def require_data_of_mechanisms(self, data: Any) -> None:
        for mechanism in self.mechanisms:
            difference = mechanism.scm.schema.difference(data.schema)
            if difference:
                raise UserError(
                    f"the mechanism was trained with other attributes: {difference}. Use the same data settings"
                )


def trained_classifier(
    what: str | Mapping[str, Any], image_shape: Sequence[int], options: Mapping[str, Any]
) -> Classifier:
    """An earlier run's classifier, or the network that a function of the user's own returns; `options` are for the second."""
    if isinstance(what, str) and names_function(what):
        return OwnNetwork(what, list(image_shape), **options)
    if options:
        name = next(iter(options))
        raise UserError(f"is for a network of your own (MODULE:FUNCTION), and {what} is a run: leave it out", name)
    return module_of(what, Classifier)


def not_for(theirs: Sequence[int], ours: Sequence[int]) -> str:
    theirs_text, ours_text = ("x".join(map(str, shape)) for shape in (theirs, ours))
    return f"is for images of {theirs_text} (channels, height, width), the data has {ours_text}"
