"""A classifier of several classes: from which class to which its answers flip, its accuracy and its calibration error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfgen.audit.answers import REAL, Answers, Picture
from cfgen.audit.questions import AuditedClassifier, Group, Questions
from cfgen.effects import CONFIDENCE, OneOfClasses
from cfgen.interventions import Intervention
from cfgen.metrics.counterfactual_bias import wilson

BINS = 10  # of equally many images, for the calibration error


@dataclass(frozen=True)
class FlipMatrix:
    """How many of the target images in a cohort go from each class (row) to each class (column).

    The bias of a class is its column's sum less its row's sum, over all images: the share that turns into it minus the share
    that leaves it, which is Eq. 5 of that class against the rest.

    >>> matrix = FlipMatrix("everyone", "Young=0", ("cat", "dog"), np.array([[3, 1], [0, 6]]))
    >>> matrix.n, matrix.bias.tolist()
    (10, [-0.1, 0.1])
    """

    cohort: str
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
                "among": self.cohort,
                "change": self.change,
                "from": self.classes[i],
                "to": self.classes[j],
                "count": count,
                "share": count / self.n if self.n else math.nan,
                "share_of_from": count / int(before[i]) if before[i] else math.nan,
            }


@dataclass(frozen=True)
class ClassFindings:
    """The results of one classifier over all its classes; `accuracy` and `calibration` are NaN where the data has no labels.

    `calibration` is the expected calibration error: the mean distance between confidence and accuracy.
    """

    name: str
    classes: tuple[str, ...]
    matrices: list[FlipMatrix]
    accuracy: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    calibration: float = math.nan

    def matrix(self, cohort: str, change: str) -> FlipMatrix:
        return next(one for one in self.matrices if (one.cohort, one.change) == (cohort, change))

    def to_dict(self) -> dict[str, Any]:
        """As audit.json has it."""
        return {
            "classifier": self.name,
            "classes": list(self.classes),
            "accuracy": dict(zip(("value", "low", "high"), self.accuracy, strict=True)),
            "calibration_error": self.calibration,
            "flips": [
                {"among": one.cohort, "do": one.change, "flipped": one.flipped, "counts": one.counts.tolist()}
                for one in self.matrices
            ],
        }


def class_findings(questions: Questions, answers: Answers, classifier: AuditedClassifier) -> ClassFindings:
    """From a classifier's probabilities of all classes."""
    outcome = classifier.outcome
    assert isinstance(outcome, OneOfClasses)
    name, classes = classifier.name, outcome.classes
    matrices = [
        flip_matrix(questions, answers, classifier.name, classes, intervention, cohort)
        for cohort in questions.cohorts
        for intervention in questions.interventions
    ]
    if classifier.labels is None:
        return ClassFindings(name, classes, matrices)
    real = answers[name, Picture(REAL)]
    right = real.argmax(axis=1) == classifier.labels.numpy()
    count, n = int(right.sum()), len(right)
    sure = real.max(axis=1)
    graded = bool(((sure > 0) & (sure < 1)).any())  # a classifier that only names its class has no confidence
    error = calibration_error(sure.astype(np.float64), right) if graded else math.nan
    return ClassFindings(name, classes, matrices, (count / n, *wilson(count, n, CONFIDENCE)), error)


def flip_matrix(
    questions: Questions,
    answers: Answers,
    name: str,
    classes: tuple[str, ...],
    intervention: Intervention,
    cohort: Group,
) -> FlipMatrix:
    before, after = (answers[name, picture] for picture in questions.compared(intervention))
    counted = cohort.members.numpy() & ~np.isnan(after[:, 0])
    places = len(classes) * before[counted].argmax(axis=1) + after[counted].argmax(axis=1)
    counts = np.bincount(places, minlength=len(classes) ** 2).reshape(len(classes), len(classes))
    return FlipMatrix(cohort.name, intervention.name, classes, counts)


def calibration_error(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The expected calibration error over bins of equally many images: mean |confidence - share that is right|.

    >>> calibration_error(np.full(100, 0.9), np.arange(100) % 10 < 9) < 1e-9
    True
    """
    parts = [part for part in np.array_split(np.argsort(sure, kind="stable"), BINS) if len(part)]
    return float(sum(abs(sure[part].mean() - right[part].mean()) * len(part) for part in parts) / len(sure))
