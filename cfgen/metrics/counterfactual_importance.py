"""Counterfactual importance of attributes for a classifier (Eq. 6): local scores, their mean over images, its ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from cfgen.attributes import unknown_name

__all__ = ["CounterfactualImportance", "local_importance", "ranking"]

Z95 = 1.959964  # of the normal distribution: a 95 % interval


def local_importance(p_r: Tensor, p_c: Tensor, a: Tensor) -> Tensor:
    """Eq. 6 for each image: the classifier's output had the attribute been 1, less its output had it been 0.

    `a` is the image's own value of the binary attribute, `p_r` the output for its base image and `p_c` that for the
    counterfactual under do(attribute = 1 - a).  One of the two interventions of Eq. 6 changes nothing: its image is the base.

    >>> p_r, p_c, a = torch.tensor([0.75, 0.5]), torch.tensor([0.25, 0.5]), torch.tensor([1, 0])
    >>> local_importance(p_r, p_c, a)
    tensor([0.5000, 0.0000])
    """
    return torch.where(a == 1, p_r - p_c, p_c - p_r)


def ranking(scores: Mapping[str, Any], k: int = 4) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The k attributes that raise the output most and the k that lower it most, the strongest first, of scores by name.

    >>> ranking({"Bald": -0.3, "Smiling": 0.1, "Young": 0.2}, k=1)
    ([('Young', 0.2)], [('Bald', -0.3)])
    """
    ordered = sorted(((name, float(score)) for name, score in scores.items()), key=lambda pair: -abs(pair[1]))
    return [pair for pair in ordered if pair[1] > 0][:k], [pair for pair in ordered if pair[1] < 0][:k]


class CounterfactualImportance(Metric):
    """Global importance: the mean of the local scores over all images, for each of several binary attributes.

    The output may be the probability, as in the paper's plots, or the class.  For each name `compute` gives

        NAME                  the score, in [-1, 1]; NaN without images
        NAME/low, NAME/high   the ends of a 95 % interval of that mean, by the normal distribution; NaN with fewer than two
        NAME/n                images seen

    >>> importance = CounterfactualImportance(["Young"])
    >>> importance.update("Young", torch.tensor([0.75]), torch.tensor([0.25]), torch.tensor([1]))
    >>> importance.compute()["Young"]
    tensor(0.5000)
    """

    full_state_update = False
    sums: Tensor
    squares: Tensor
    counts: Tensor

    def __init__(self, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = list(names)
        # in double precision: the spread is a small difference of large sums
        nothing = torch.zeros(len(self.names), dtype=torch.double)
        self.add_state("sums", default=nothing.clone(), dist_reduce_fx="sum")
        self.add_state("squares", default=nothing.clone(), dist_reduce_fx="sum")
        self.add_state("counts", default=nothing.long(), dist_reduce_fx="sum")

    def update(self, name: str, p_r: Tensor, p_c: Tensor, a: Tensor) -> None:
        """Adds images to the score of `name`; see `local_importance`."""
        if name not in self.names:
            raise ValueError(unknown_name("attribute", name, self.names))
        index = self.names.index(name)
        local = local_importance(p_r.double(), p_c.double(), a)
        self.sums[index] += local.sum()
        self.squares[index] += local.square().sum()
        self.counts[index] += len(local)

    def compute(self) -> dict[str, Tensor]:
        n = self.counts
        mean = self.sums / n
        # with one image 0 / 0: a single score says nothing of the spread
        variance = (self.squares - n * mean.square()).clamp(min=0) * (n > 1) / (n - 1)
        half = Z95 * (variance / n).sqrt()
        values = {"": mean.float(), "/low": (mean - half).float(), "/high": (mean + half).float(), "/n": n}
        return {f"{name}{key}": value[i] for i, name in enumerate(self.names) for key, value in values.items()}
