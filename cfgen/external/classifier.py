"""Any image classifier as p(positive class | image)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cfgen.attributes import unknown_name
from cfgen.errors import UserError
from cfgen.external.kinds import LAYOUTS, OUTPUTS

__all__ = ["ExternalClassifier", "not_finite"]


class ExternalClassifier(nn.Module):
    """Images (N, C, H, W) in [0, 1] -> the probability of the positive class, (N,).

    >>> brightness = nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(1))
    >>> ExternalClassifier(brightness, output="probability")(torch.tensor([0.25, 0.75]).reshape(2, 1, 1, 1))
    tensor([0.2500, 0.7500])

    Args:
        network: the classifier; it is put into evaluation mode.
        resize: height and width that it takes, or None for the images' own.
        mean, std: of each channel (or one for all), subtracted and divided by after resizing.
        layout: "nchw", or "nhwc" for channels last.
        output: what the network returns.  "logit" and "probability" are (N,), (N, 1) or one for each class, (N, classes), of
            which one is true; "multilabel" is a logit for each label, (N, labels), of which any may be true; "class" is the
            number of the class, (N,).  From "class" the probability is 0 or 1.  "value" is for a `Regressor`.
        positive: the class or label whose probability is returned; by default 1 of two classes, and the only label.
    """

    def __init__(
        self,
        network: nn.Module,
        resize: tuple[int, int] | None = None,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        layout: str = "nchw",
        output: str = "logit",
        positive: int | None = None,
    ) -> None:
        super().__init__()
        for kind, name, valid in (("layout", layout, LAYOUTS), ("output", output, OUTPUTS)):
            if name not in valid:
                raise UserError(unknown_name(kind, name, valid), argument=kind)
        if not all(deviation > 0 for deviation in std):
            raise UserError("expected numbers above 0, one for each channel or one for all", argument="std")
        self.network = network.eval()
        self.resize, self.layout, self.output, self.positive = resize, layout, output, positive
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.ask(x))

    def ask(self, x: Tensor) -> Tensor:
        """What the network returns for images: (N,), or (N, columns) where there are several."""
        count = len(x)
        if count == 1:  # as a pair: of one image alone, a network that ends in squeeze() drops the batch as well
            x = torch.cat([x, x])
        output = self.network(self.prepare(x))
        if isinstance(output, (tuple, list)) and output:
            output = output[0]
        if not isinstance(output, Tensor) or output.shape[:1] != (len(x),) or output.ndim > 2:
            what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise UserError(
                f"the classifier returns {what} for {len(x)} images; (N,) or (N, classes) is expected",
                argument="classifier",
            )
        output = output[:count]
        return output[:, 0] if output.ndim == 2 and output.shape[1] == 1 else output

    def prepare(self, x: Tensor) -> Tensor:
        """Images as the network takes them."""
        if self.resize is not None and x.shape[2:] != self.resize:
            x = nn.functional.interpolate(x, self.resize, mode="bilinear", antialias=True, align_corners=False)
        mean, std = self.get_buffer("mean"), self.get_buffer("std")
        for argument, numbers in (("mean", mean), ("std", std)):
            if numbers.shape[1] not in (1, x.shape[1]):
                raise UserError(
                    f"expected one number, or one for each of the {x.shape[1]} channels, not {numbers.shape[1]}",
                    argument,
                )
        x = (x - mean) / std
        return x.permute(0, 2, 3, 1) if self.layout == "nhwc" else x

    def read(self, output: Tensor) -> Tensor:
        """p(positive class) of each image from what the network returned."""
        p = self.probability(output)
        valid = (p >= 0) & (p <= 1)  # not so for NaN
        if not valid.all():
            wrong = (output if output.ndim == 1 else p)[~valid][0].item()
            if self.output == "class":
                raise UserError(
                    f"the classifier returns {wrong:.4g}, and a class is a whole number. Its output may be logit or "
                    "probability",
                    argument="output",
                )
            if not math.isfinite(wrong):
                raise not_finite(wrong)
            raise UserError(
                f"the classifier returns {wrong:.4g}, which is not a probability. Its output may be logit",
                argument="output",
            )
        return p

    def probability(self, output: Tensor) -> Tensor:
        """What the network returned as p(positive class); NaN where it is no class."""
        if self.output == "class":
            if output.ndim != 1:
                hint = ". Its output may be logit" if output.is_floating_point() else ""
                raise UserError(
                    f"one class for each image, (N,), is expected, not {tuple(output.shape)}{hint}", argument="output"
                )
            p = (output == (1 if self.positive is None else self.positive)).float()
            return p.masked_fill(output % 1 != 0, torch.nan) if output.is_floating_point() else p
        if not output.is_floating_point():
            raise UserError(
                f"the classifier returns whole numbers ({output.dtype}), and a {self.output} has a fraction. Its output may be "
                "class",
                argument="output",
            )
        output = output.float()
        if self.output == "multilabel":
            columns = output.reshape(len(output), -1)
            return columns[:, self.column(columns.shape[1], needless=1)].sigmoid()
        if output.ndim == 1:
            if self.positive not in (None, 0, 1):
                raise UserError(
                    f"the classifier has two classes; expected 0 or 1, not {self.positive}", argument="positive"
                )
            p = output.sigmoid() if self.output == "logit" else output
            return 1 - p if self.positive == 0 else p
        column = self.column(output.shape[1], needless=2)
        return (output.softmax(dim=1) if self.output == "logit" else output)[:, column]

    def column(self, columns: int, needless: int) -> int:
        """The column of the positive class: with as many as `needless` it is the last by default."""
        positive = columns - 1 if self.positive is None and columns == needless else self.positive
        if positive is None or not 0 <= positive < columns:
            what = "labels" if self.output == "multilabel" else "classes"
            also = ". If these can be true at once, its output is multilabel" if self.output == "logit" else ""
            raise UserError(
                f"the classifier has {columns} {what}; say which counts as yes, from 0 to {columns - 1}{also}",
                argument="positive",
            )
        return positive

    @torch.inference_mode()
    def check(self, x: Tensor) -> None:
        """Tries the classifier on some images (64 tell enough): refuses what does not fit before the work starts."""
        try:
            output = self.ask(x)
            p = self.read(output)
            self.check_kind(output)
            self.check_repeats(x, p)
        except UserError:
            raise
        except Exception as error:
            shape = tuple(self.prepare(x).shape)
            reason = " ".join(str(error).split())
            raise UserError(
                f"the classifier fails on images of shape {shape} ({type(error).__name__}: {reason}). resize, layout, mean "
                "and std say what it takes",
                argument="classifier",
            ) from error

    def check_kind(self, output: Tensor) -> None:
        """Refuses what is not of the kind said: a sigmoid makes something like a probability of any number."""
        if self.output == "class":
            return
        exclusive = self.output == "logit" and output.ndim == 2
        unusable = output[~(output.isfinite() | (output == -torch.inf) & exclusive)]  # -inf is how a class is left out
        if len(unusable):
            raise not_finite(unusable[0].item())
        low, high = output.min().item(), output.max().item()
        within = low >= 0 and high <= 1
        if self.output == "probability" and not within:
            raise UserError(
                f"the classifier returns {low:.4g} to {high:.4g}, which are not probabilities. Its output may be logit",
                argument="output",
            )
        # cfgen's own return logits, which are near 0 where they are hardly trained
        if self.output == "probability" or getattr(self.network, "returns_logits", False) or not within or low == high:
            return
        sums_to_one = exclusive and bool(((output.sum(dim=1) - 1).abs() < 0.02).all())
        # logits such as (0, logit) may lie there; one alone would always say yes, and of many none ever
        if sums_to_one or (len(output) >= 8 and not (exclusive and output.shape[1] == 2)):
            raise UserError(
                f"what the classifier returns for {len(output)} images lies in 0..1 ({low:.3g} to {high:.3g}). Its output may "
                "be probability. If these are logits, return the pair (0, logit) from a function of your own",
                argument="output",
            )

    def check_repeats(self, x: Tensor, p: Tensor) -> None:
        """Refuses answers that are not the images' own: by chance, or by the images of the same batch."""
        few = max(1, len(x) // 8)
        # rolled, as a network for so many images at a time would group the first ones as before; the second tolerance is
        # for networks in whole numbers that round by the largest number of the batch
        for images, before, when, tolerance in (
            (x, p, "the second time", 1e-3),
            (x.roll(1, 0)[:few], p.roll(1, 0)[:few], "beside other images", 1e-2),
        ):
            difference = (self(images) - before).abs().max().item()
            if difference > tolerance:
                raise UserError(
                    f"the classifier answers differently for the same images {when}, by {difference:.2g} in probability. It "
                    "may have been exported in training mode; call .eval() before exporting",
                    argument="classifier",
                )


def not_finite(value: float) -> UserError:
    return UserError(f"the classifier returns {value}. mean and std may not be what it takes", argument="mean")
