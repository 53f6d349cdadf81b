"""Importance of attributes (Eq. 6): how much more of an attribute raises a classifier's answer, on average and for one image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cfgen.interventions import Mask, Toggle
from cfgen.metrics import CounterfactualImportance

__all__ = ["Importance", "LocalScore", "importances", "local_scores"]

Probabilities = NDArray[np.float32]
Line = tuple[Toggle, Mask, Probabilities]  # a toggle, where it raises its attribute, and p afterwards


@dataclass(frozen=True)
class Importance:
    """Mean of Eq. 6 over images, with its 95 % confidence interval: how much more of the attribute raises the answer.

    `attribute` may be a value, as "label=7"; `meaning` says what more of it is.
    """

    attribute: str
    score: float
    low: float
    high: float
    n: int
    meaning: str = "present"


@dataclass(frozen=True)
class LocalScore:
    """Eq. 6 for one image; `p` is the answer to its base image."""

    image: int
    p: float
    attribute: str
    score: float


def importances(base: Probabilities, lines: Sequence[Line]) -> list[Importance]:
    """The ranking, the largest score first; `base` is p of the base images."""
    metric = CounterfactualImportance([toggle.label for toggle, _, _ in lines], sync_on_compute=False)
    for toggle, raises, after in lines:
        counted = ~np.isnan(after)
        before, later, lowers = (torch.from_numpy(part[counted]) for part in (base, after, ~raises))
        metric.update(toggle.label, before, later, lowers.long())
    values = {key: value.item() for key, value in metric.compute().items()} if lines else {}
    found = [
        Importance(
            toggle.label,
            values[toggle.label],
            values[f"{toggle.label}/low"],
            values[f"{toggle.label}/high"],
            int(values[f"{toggle.label}/n"]),
            toggle.meaning,
        )
        for toggle, _, _ in lines
    ]
    return sorted(found, key=lambda one: -one.score)


def local_scores(base: Probabilities, lines: Sequence[Line], image: int) -> list[LocalScore]:
    """Eq. 6 of one image, the strongest line first; lines that do not change the image are left out."""
    scores: Mapping[str, float] = {
        toggle.label: float(after[image] - base[image]) * (1 if raises[image] else -1)
        for toggle, raises, after in lines
        if not np.isnan(after[image])
    }
    ordered = sorted(scores.items(), key=lambda pair: -abs(pair[1]))
    return [LocalScore(image, float(base[image]), name, score) for name, score in ordered]
