"""A classifier of several classes: from which class to which its answers flip, how often it is right, and whether it knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfgen.audit.plan import Plan, Scores
from cfgen.effects import CONFIDENCE
from cfgen.metrics.counterfactual_bias import wilson

__all__ = ["ClassFindings", "FlipMatrix", "calibration_error", "class_findings", "flip_matrix"]

BINS = 10  # of equally many images, for the calibration error


@dataclass(frozen=True)
class FlipMatrix:
    """Of the images that an intervention changes in a cohort, how many go from each class (row) to each class (column).

    The bias of a class is its column's sum less its row's sum, over all images: the share that turns into it minus the share
    that leaves it, which is Eq. 5 of that class against the rest.

    >>> matrix = FlipMatrix("everyone", "Young=0", ("cat", "dog"), np.array([[3, 1], [0, 6]]))
    >>> matrix.n, matrix.bias.tolist()
    (10, [-0.1, 0.1])
    """

    among: str
    change: str
    classes: tuple[str, ...]
    counts: NDArray[np.int64] = field(repr=False)

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def flipped(self) -> float:
        """The share of images whose class changes; NaN without images."""
        return 1 - float(np.trace(self.counts)) / self.n if self.n else math.nan

    @property
    def bias(self) -> NDArray[np.float64]:
        """Of each class."""
        return (self.counts.sum(axis=0) - self.counts.sum(axis=1)) / max(self.n, 1)

    def records(self) -> Iterator[dict[str, Any]]:
        """As flips.csv has it: `share` is of all images, `share_of_from` of those that were in that class."""
        before = self.counts.sum(axis=1)
        for i, j in np.ndindex(self.counts.shape):
            count = int(self.counts[i, j])
            yield {
                "among": self.among,
                "change": self.change,
                "from": self.classes[i],
                "to": self.classes[j],
                "count": count,
                "share": count / self.n if self.n else math.nan,
                "share_of_from": count / int(before[i]) if before[i] else math.nan,
            }


@dataclass(frozen=True)
class ClassFindings:
    """What is known of one classifier over all its classes; `accuracy` and `calibration` are NaN where the data has no labels.

    `calibration` is the mean distance between how sure the classifier is of its answer and how often it is right.
    """

    name: str
    classes: tuple[str, ...]
    matrices: list[FlipMatrix]
    accuracy: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    calibration: float = math.nan

    def matrix(self, among: str, change: str) -> FlipMatrix:
        return next(one for one in self.matrices if (one.among, one.change) == (among, change))

    def to_dict(self) -> dict[str, Any]:
        """As audit.json has it."""
        return {
            "classifier": self.name,
            "classes": list(self.classes),
            "accuracy": dict(zip(("value", "low", "high"), self.accuracy, strict=True)),
            "calibration_error": self.calibration,
            "flips": [
                {"among": one.among, "do": one.change, "flipped": one.flipped, "counts": one.counts.tolist()}
                for one in self.matrices
            ],
        }


def class_findings(
    name: str,
    classes: Sequence[str],
    tables: Sequence[Scores],
    plan: Plan,
    cohorts: Mapping[str, Tensor],
    labels: Tensor | None,
) -> ClassFindings:
    """From the tables of all classes, in their order; `labels` are the numbers of the data's own classes, -1 where it is none."""
    matrices = [
        flip_matrix(tables, classes, change, among, members) for among, members in cohorts.items() for change in plan.do
    ]
    if labels is None:
        return ClassFindings(name, tuple(classes), matrices)
    right = chosen_class(tables, "real") == labels
    count, n = int(right.sum()), len(right)
    sure = torch.stack([table["real"] for table in tables]).amax(dim=0)
    graded = bool(((sure > 0) & (sure < 1)).any())  # a classifier that only names its class does not say how sure it is
    return ClassFindings(
        name,
        tuple(classes),
        matrices,
        (count / n, *wilson(count, n, CONFIDENCE)),
        calibration_error(sure.double().numpy(), right.numpy()) if graded else math.nan,
    )


def chosen_class(tables: Sequence[Scores], column: str) -> Tensor:
    """The number of the most probable class of each image."""
    return torch.stack([table.yes(column, 0.5) for table in tables]).long().argmax(dim=0)


def flip_matrix(
    tables: Sequence[Scores], classes: Sequence[str], change: str, among: str, members: Tensor
) -> FlipMatrix:
    column, count = f"do/{change}", len(classes)
    counted = members & ~tables[0][column].isnan()
    before, after = (chosen_class(tables, name)[counted] for name in (tables[0].base_of(change), column))
    counts = torch.bincount(count * before + after, minlength=count**2).reshape(count, count)
    return FlipMatrix(among, change, tuple(classes), counts.numpy())


def calibration_error(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The expected calibration error over bins of equally many images: mean |confidence - share that is right|.

    >>> calibration_error(np.full(100, 0.9), np.arange(100) % 10 < 9) < 1e-9
    True
    """
    parts = [part for part in np.array_split(np.argsort(sure, kind="stable"), BINS) if len(part)]
    return float(sum(abs(sure[part].mean() - right[part].mean()) * len(part) for part in parts) / len(sure))
