"""Networks of any kind as p(yes | image), p(class | image) or a predicted value; always (N, columns)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.errors import UserError

__all__ = ["ClassProbabilities", "PredictedValue", "YesProbability"]

SUM_TOLERANCE = 0.02  # how far the probabilities of all classes may be from 1 together


class YesProbability(nn.Module):
    """Images (N, C, H, W) in [0, 1] -> the probability of the positive class, (N, 1).

    >>> brightness = nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(1))
    >>> YesProbability(brightness, output="probability")(torch.tensor([0.25, 0.75]).reshape(2, 1, 1, 1))[:, 0]
    tensor([0.2500, 0.7500])

    Args:
        network: the classifier; it is put into evaluation mode.
        positive: the class or label that counts as yes.
        resize, mean, std, layout, output: what it takes and returns; `ExternalClassifier` checks and explains them.
    """

    def __init__(
        self, network: nn.Module, positive: int | None = None, *, resize: tuple[int, int] | None = None,
        mean: Sequence[float] = (0.0,), std: Sequence[float] = (1.0,), layout: str = "nchw", output: str = "logit",
    ) -> None:  # fmt: skip
        super().__init__()
        self.network = network.eval()
        self.resize, self.layout, self.output, self.positive = resize, layout, output, positive
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.ask(x))

    def ask(self, x: Tensor) -> Tensor:
        """The network's own output: (N,), or (N, columns) if there are several columns."""
        count = len(x)
        if count == 1:  # as a pair: for one image, a network that ends in squeeze() drops the batch dimension too
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
        """The answers, (N, columns), from the network's own output."""
        p = self.probability(output)
        valid = (p >= 0) & (p <= 1)  # False for NaN
        if not valid.all():
            wrong = (output if output.shape == p.shape else p)[~valid][0].item()
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
        return p if p.ndim == 2 else p[:, None]

    def probability(self, output: Tensor) -> Tensor:
        """p(positive class), (N,), from the network's own output; NaN if it is no class."""
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
        """The column of the positive class.  It need not be given if there are `needless` columns: then it is the last."""
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
        """Raise if the output for some images is invalid.  64 images are enough."""
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
        """Raise if the output is of another kind than `output` says: a sigmoid turns any number into a probability."""
        if self.output == "class":
            return
        exclusive = self.output == "logit" and output.ndim == 2
        unusable = output[~(output.isfinite() | (output == -torch.inf) & exclusive)]  # -inf excludes a class
        if len(unusable):
            raise not_finite(unusable[0].item())
        low, high = output.min().item(), output.max().item()
        within = low >= 0 and high <= 1
        if self.output == "probability" and not within:
            raise UserError(
                f"the classifier returns {low:.4g} to {high:.4g}, which are not probabilities. Its output may be logit",
                argument="output",
            )
        # cfgen's own classifiers return logits, which are near 0 before training
        if self.output == "probability" or getattr(self.network, "returns_logits", False) or not within or low == high:
            return
        sums_to_one = exclusive and bool(((output.sum(dim=1) - 1).abs() < SUM_TOLERANCE).all())
        # logits such as (0, logit) may lie there; a single one would always mean yes, and one of many never
        if sums_to_one or (len(output) >= 8 and not (exclusive and output.shape[1] == 2)):
            raise UserError(
                f"what the classifier returns for {len(output)} images lies in 0..1 ({low:.3g} to {high:.3g}). Its output may "
                "be probability. If these are logits, return the pair (0, logit) from a function of your own",
                argument="output",
            )

    def check_repeats(self, x: Tensor, p: Tensor) -> None:
        """Raise if an answer is random, or depends on the other images of the batch."""
        few = max(1, len(x) // 8)
        # rolled, because a network with a fixed batch size would group the first images as before; the second tolerance
        # is for quantised networks, which round by the largest number of the batch
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


class ClassProbabilities(YesProbability):
    """Images (N, C, H, W) in [0, 1] -> the probability of each class, (N, classes); `classes` are their names in order.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> ClassProbabilities(network, ["cat", "dog", "hen"])(torch.rand(2, 1, 2, 2)).shape
    torch.Size([2, 3])
    """

    def __init__(self, network: nn.Module, classes: Sequence[str], **inputs: Any) -> None:
        super().__init__(network, **inputs)
        self.classes = tuple(classes)
        if self.output == "multilabel":
            raise UserError(
                "several labels may be true at once, so that none is the answer; choose one with positive", "output"
            )

    def probability(self, output: Tensor) -> Tensor:
        count = len(self.classes)
        if self.output == "class":
            super().probability(output)  # raises if it is no class
            named = (output >= 0) & (output < count) & (output % 1 == 0)
            if not named.all():
                raise UserError(
                    f"the classifier returns {output[~named][0].item():.4g}, and its {count} classes are numbered 0 to "
                    f"{count - 1}",
                    argument="classes",
                )
            return nn.functional.one_hot(output.long(), count).float()
        if output.ndim == 1 and count == 2:
            p = super().probability(output)
            return torch.stack([1 - p, p], dim=1)
        columns = 2 if output.ndim == 1 else output.shape[1]
        if output.ndim == 1 or columns != count:
            raise UserError(
                f"the classifier tells {columns} classes apart, and {count} are named ({', '.join(self.classes)})",
                argument="classes",
            )
        if not output.is_floating_point():
            return super().probability(output)  # raises
        return output.float().softmax(dim=1) if self.output == "logit" else output.float()

    def check_kind(self, output: Tensor) -> None:
        super().check_kind(output)
        if self.output == "probability" and output.ndim == 2:
            sums = output.float().sum(dim=1)
            if not ((sums - 1).abs() < SUM_TOLERANCE).all():
                raise UserError(
                    f"the probabilities of all classes of an image add up to {sums[0]:.3g}. If several can be true at once, "
                    "choose one with positive",
                    argument="output",
                )


class PredictedValue(YesProbability):
    """Images (N, C, H, W) in [0, 1] -> the value that a network predicts for each, (N, 1), in its own units.

    >>> brightness = nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(1))
    >>> PredictedValue(brightness, output="value")(torch.tensor([0.25, 0.75]).reshape(2, 1, 1, 1))[:, 0]
    tensor([0.2500, 0.7500])
    """

    def read(self, output: Tensor) -> Tensor:
        if output.ndim != 1:
            raise UserError(
                f"the network returns {output.shape[1]} numbers for each image, and one value is expected",
                argument="output",
            )
        values = output.float()
        if not values.isfinite().all():
            raise not_finite(values[~values.isfinite()][0].item())
        return values[:, None]

    def check_kind(self, output: Tensor) -> None:
        if not output.is_floating_point():
            raise UserError(
                f"the network returns whole numbers ({output.dtype}), and a value has a fraction. Its output may be class",
                argument="output",
            )

    def check_repeats(self, x: Tensor, p: Tensor) -> None:
        spread = p.std(correction=0).item()
        if spread == 0:
            raise UserError(
                f"the network predicts {p[0].item():.4g} for every image, so that nothing can change it", "classifier"
            )
        again = self(x.roll(1, 0)).roll(-1, 0)
        if (difference := (again - p).abs().max().item()) > 1e-2 * spread:
            raise UserError(
                f"the network answers differently for the same images, by {difference:.2g}. It may have been exported in "
                "training mode; call .eval() before exporting",
                argument="classifier",
            )


def not_finite(value: float) -> UserError:
    return UserError(f"the classifier returns {value}. mean and std may not be what it takes", argument="mean")
