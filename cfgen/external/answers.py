"""Networks that tell more than two classes apart, as the probability of each, and networks that predict a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.errors import UserError
from cfgen.external.classifier import ExternalClassifier, not_finite

__all__ = ["EveryClass", "Regressor"]

SUMS = 0.02  # how far the probabilities of all classes may be from 1 together


class EveryClass(ExternalClassifier):
    """Images (N, C, H, W) in [0, 1] -> the probability of each class, (N, classes).

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> EveryClass(network, ["cat", "dog", "hen"])(torch.rand(2, 1, 2, 2)).shape
    torch.Size([2, 3])

    Args:
        network: the classifier, as `ExternalClassifier` takes it.
        classes: what its classes are called, in their order.
        tables: what tables of the answers about each class are called; by default as the classes.
        options: resize, mean, std, layout and output, as there.
    """

    def __init__(self, network: nn.Module, classes: Sequence[str], tables: Sequence[str] = (), **options: Any) -> None:
        super().__init__(network, **options)
        self.classes, self.tables = tuple(classes), tuple(tables or classes)
        if self.output == "multilabel":
            raise UserError(
                "several labels may be true at once, so that none is the answer; choose one with positive", "output"
            )

    def probability(self, output: Tensor) -> Tensor:
        count = len(self.classes)
        if self.output == "class":
            super().probability(output)  # refuses what is no class at all
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
            return super().probability(output)  # which refuses it
        return output.float().softmax(dim=1) if self.output == "logit" else output.float()

    def check_kind(self, output: Tensor) -> None:
        super().check_kind(output)
        if self.output == "probability" and output.ndim == 2:
            sums = output.float().sum(dim=1)
            if not ((sums - 1).abs() < SUMS).all():
                raise UserError(
                    f"the probabilities of all classes of an image add up to {sums[0]:.3g}. If several can be true at once, "
                    "choose one with positive",
                    argument="output",
                )


class Regressor(ExternalClassifier):
    """Images (N, C, H, W) in [0, 1] -> the value that a network predicts for each, (N,), in its own units.

    >>> brightness = nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(1))
    >>> Regressor(brightness, output="value")(torch.tensor([0.25, 0.75]).reshape(2, 1, 1, 1))
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
        return values

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
                f"the network predicts {p[0]:.4g} for every image, so that nothing can change it", "classifier"
            )
        again = self(x.roll(1, 0)).roll(-1, 0)
        if (difference := (again - p).abs().max().item()) > 1e-2 * spread:
            raise UserError(
                f"the network answers differently for the same images, by {difference:.2g}. It may have been exported in "
                "training mode; call .eval() before exporting",
                argument="classifier",
            )
