"""CFClassifier: a trained classifier fine-tuned to judge an image and its counterfactual alike (Eq. 7, Appendix N)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor, nn

from cfgen.batch import Batch
from cfgen.checkpoints import module_of, spec_of
from cfgen.errors import UnfitRun, UserError
from lightning_modules.classifier import Classifier
from lightning_modules.decay import decaying
from lightning_modules.frozen import expect_evaluation_mode
from lightning_modules.image_mechanism import ImageMechanismModule
from lightning_modules.residual_kept import ResidualKept
from lightning_modules.weighted_gap import WeightedGap, comparable_images

__all__ = ["CFClassifier"]


class CFClassifier(Classifier):
    """Eq. 7, and by wish the same aim on real images: BCE(y, f(x)) + weight * MSE(logits(x_r), logits(x_c)) + gap_weight * gap^2.

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
    without any earlier run.

    Args:
        image_shape: (channels, height, width); comes from the data.
        classifier: the trained binary classifier: a run, or a config whose run is used where it is finished and trained first
            where it is not.
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
    ) -> None:
        super(Classifier, self).__init__()  # not Classifier's own: the network is an earlier run's
        self.classifier = module_of(classifier, Classifier).eval()  # Lightning trains modules in the mode they are in
        self.save_hyperparameters(ignore=["classifier", "mechanism"])
        # what a checkpoint of this module needs of the earlier runs
        self.hparams.update(classifier=spec_of(self.classifier), mechanism=None)
        self.image_shape = tuple(image_shape)
        self.classes, self.do = self.classifier.classes, do
        self.lr, self.betas, self.lr_decay = lr, betas, lr_decay
        self.weight, self.gap_weight, self.keep_residual = weight, gap_weight, keep_residual
        if self.classes != 2:
            raise UserError(f"bias is that of a binary classifier; {classifier} tells {self.classes} classes apart")
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
        if stage != "fit" or not self.gap_weight or not self.mechanisms:
            return
        data: Any = getattr(self.trainer, "datamodule", None)
        if data is None:
            raise UserError("needs the attributes of the training images: train with a datamodule", "gap_weight")
        self.require_data_of_mechanisms(data)
        schema, graph, columns = data.schema, self.mechanisms[0].scm.graph, data.train_columns
        lacking = [comparable_images(schema, graph, columns, do)[1] for do in self.do]
        for do, why in zip(self.do, lacking, strict=True):
            if why:
                rank_zero_warn(f"gap_weight: {do} is left out, since real images cannot say what it does: {why}")
        compared = [do for do, why in zip(self.do, lacking, strict=True) if not why]
        self.gap = WeightedGap(schema, graph, columns, compared) if compared else None

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


def not_for(theirs: Sequence[int], ours: Sequence[int]) -> str:
    theirs_text, ours_text = ("x".join(map(str, shape)) for shape in (theirs, ours))
    return f"is for images of {theirs_text} (channels, height, width), the data has {ours_text}"
