"""Counterfactual importance of attributes for a classifier (Eq. 6): local scores, their mean over images, its ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from cfgen.attributes import unknown_name

__all__ = ["CounterfactualImportance", "local_importance", "ranking"]


def local_importance(p_r: Tensor, p_c: Tensor, a: Tensor) -> Tensor:
    """Eq. 6 for each image: the classifier's output had the attribute been 1, less its output had it been 0.

    `a` is the image's own value of the binary attribute, `p_r` the output for its base image and `p_c` that for the
    counterfactual under do(attribute = 1 - a).  One of the two interventions of Eq. 6 changes nothing: its image is the base.
    """
    return torch.where(a == 1, p_r - p_c, p_c - p_r)


def ranking(scores: Mapping[str, Any], k: int = 4) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The k attributes that raise the output most and the k that lower it most, the strongest first."""
    ordered = sorted(((name, float(score)) for name, score in scores.items()), key=lambda pair: -abs(pair[1]))
    return [pair for pair in ordered if pair[1] > 0][:k], [pair for pair in ordered if pair[1] < 0][:k]


class CounterfactualImportance(Metric):
    """Global importance: the mean of the local scores over all images, for each of several binary attributes.

    The output may be the probability, as in the paper's plots, or the class.  `compute` gives a score in [-1, 1] for each
    name, NaN for one without images.
    """

    full_state_update = False
    sums: Tensor
    counts: Tensor

    def __init__(self, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = list(names)
        self.add_state("sums", default=torch.zeros(len(self.names)), dist_reduce_fx="sum")
        self.add_state("counts", default=torch.zeros(len(self.names), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, name: str, p_r: Tensor, p_c: Tensor, a: Tensor) -> None:
        """Adds images to the score of `name`; see `local_importance`."""
        if name not in self.names:
            raise ValueError(unknown_name("attribute", name, self.names))
        index = self.names.index(name)
        self.sums[index] += local_importance(p_r.float(), p_c.float(), a).sum()
        self.counts[index] += len(p_r)

    def compute(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.sums / self.counts, strict=True))
