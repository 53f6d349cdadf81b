"""CFClassifier: a trained classifier fine-tuned to judge an image and its counterfactual alike (Eq. 7, Appendix N)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cfgen.batch import Batch
from cfgen.checkpoints import module_of, spec_of
from cfgen.errors import UnfitRun, UserError
from lightning_modules.classifier import Classifier
from lightning_modules.frozen import expect_evaluation_mode
from lightning_modules.image_mechanism import ImageMechanismModule
from lightning_modules.residual_kept import ResidualKept

__all__ = ["CFClassifier"]


class CFClassifier(Classifier):
    """Eq. 7: BCE(y, f(x)) + weight * MSE(logits(x_r), logits(x_c)).

    Each image meets one of the interventions, drawn anew every time: on average that is Eq. 7's second term over all of
    them, at the price of one.  An image that is so already has x_c = x_r and adds nothing.

    Both terms are taken of the classifier as it will be used, without dropout and with the statistics that batch norm has
    learned: two dropout masks would differ where the images do not, and statistics of a batch of counterfactuals would hide
    what they have in common, which is the bias.  Were only the second term taken so, fine-tuning would make one function of
    the two modes into two: on drawn faces, one that tells faces apart in training and answers all alike in use.

    The mechanism only makes images for training.  It is no part of the checkpoint, which therefore loads as a classifier
    without any earlier run.

    Args:
        image_shape: (channels, height, width); comes from the data.
        classifier: the trained binary classifier: a run, or a config whose run is used where it is finished and trained first
            where it is not.
        mechanism: the trained image mechanism that makes x_r and x_c; likewise a run or a config, or a model that comes with
            cfgen.  The data must be its data.
        do: the interventions under which the answer should stay, e.g. [{Black_Hair: 1, Pale_Skin: 1}].
        weight: the paper's lambda; its value is 1.
        keep_residual: give every image back what its reconstruction lost (`ResidualKept`), so that x_r is x.  Otherwise the
            classifier can learn to judge reconstructions alike and images as before: with a generator that blurs, bias fell
            and accuracy with it.
        lr: Adam's learning rate; the paper's is 1e-4.
        betas: Adam's decay rates; the paper's beta1 is 0.5.
    """

    earlier_runs: ClassVar[tuple[str, ...]] = ("classifier", "mechanism")
    mechanism: ImageMechanismModule | None

    def __init__(
        self,
        image_shape: Sequence[int],
        classifier: str | Mapping[str, Any],
        mechanism: str | None,
        do: list[dict[str, Any]],
        weight: float = 1.0,
        keep_residual: bool = False,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.5, 0.999),
    ) -> None:
        super(Classifier, self).__init__()  # not Classifier's own: the network is an earlier run's
        self.classifier = module_of(classifier, Classifier).eval()  # Lightning trains modules in the mode they are in
        self.save_hyperparameters(ignore=["classifier", "mechanism"])
        # what a checkpoint of this module needs of the earlier runs
        self.hparams.update(classifier=spec_of(self.classifier), mechanism=None)
        self.image_shape = tuple(image_shape)
        self.classes, self.do, self.weight, self.lr, self.betas = self.classifier.classes, do, weight, lr, betas
        self.keep_residual = keep_residual
        if self.classes != 2:
            raise UserError(f"bias is that of a binary classifier; {classifier} tells {self.classes} classes apart")
        if self.classifier.image_shape != self.image_shape:
            raise UnfitRun(f"{classifier} {not_for(self.classifier.image_shape, self.image_shape)}", "classifier")
        # around nn.Module's registration: it is not to be trained, saved or counted
        object.__setattr__(self, "mechanism", None if mechanism is None else self.made_ready(mechanism))

    def made_ready(self, path: str) -> ImageMechanismModule:
        """The trained mechanism, which stays as it is; refuses one that cannot do what is asked."""
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
        x_r, x_c = self.base_and_counterfactual(batch)
        images = [batch.x, x_c] if self.keep_residual else [batch.x, x_r, x_c]
        logits = self(torch.cat(images)).split(len(batch.x))
        bce, gap = self.loss(logits[0], batch.y), nn.functional.mse_loss(logits[-1], logits[-2])
        self.log_dict({"train/bce": bce.detach(), "train/logit_gap": gap.detach()}, prog_bar=True)
        return bce + self.weight * gap

    @torch.no_grad()
    def base_and_counterfactual(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """x_r and x_c (Eq. 3 and 1), each image under an intervention of its own draw."""
        assert self.mechanism is not None
        a = batch.a
        vectors = [self.mechanism.scm.counterfactual_vector(a, do, torch.default_generator) for do in self.do]
        drawn = torch.randint(len(vectors), (len(a),), device=a.device)
        a_c = torch.stack(vectors)[drawn, torch.arange(len(a), device=a.device)]
        z = self.mechanism.abduct(batch.x, a)
        return batch.x if self.keep_residual else self.mechanism.decode(z, a), self.mechanism.decode(z, a_c)

    def on_fit_start(self) -> None:
        if self.mechanism is None:
            raise UserError("this CFClassifier was loaded for prediction: give it a mechanism to train it further")
        self.place_mechanism()
        expect_evaluation_mode()

    def on_validation_start(self) -> None:
        self.place_mechanism()

    def place_mechanism(self) -> None:
        """To the device and precision of this module, which Lightning has set by now; refuses data that is not its own."""
        if self.mechanism is None:
            return
        self.mechanism.to(device=self.device, dtype=self.dtype)
        data: Any = getattr(self.trainer, "datamodule", None)
        if data is None:
            return
        difference = self.mechanism.scm.schema.difference(data.schema)
        if difference:
            raise UserError(
                f"the mechanism was trained with other attributes: {difference}. Use the same data settings"
            )


def not_for(theirs: Sequence[int], ours: Sequence[int]) -> str:
    theirs_text, ours_text = ("x".join(map(str, shape)) for shape in (theirs, ours))
    return f"is for images of {theirs_text} (channels, height, width), the data has {ours_text}"
