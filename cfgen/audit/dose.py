"""Bias at several strengths of an intervention, read off where the attribute is as strong as in real images."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from torch import Tensor

from cfgen.audit.effect import Effect
from cfgen.audit.plan import Plan, Scores

__all__ = ["Dose", "DosePoint", "dose_curve"]

NEAR = 0.05  # of the full strength


@dataclass(frozen=True)
class DosePoint:
    """The attributes set a share `asked` of the way; the strength that a predictor then sees, and the bias by the model."""

    asked: float
    strength: float
    bias: float
    n: int


@dataclass(frozen=True)
class Dose:
    """The curve, and the bias where the attribute is drawn at its full strength: model-based, and not corrected by real images.

    `full` is NaN where no predictor says how strong the attribute is, or where no strength tried comes near to it.
    """

    points: list[DosePoint]
    full: float

    def to_dict(self) -> dict[str, Any]:
        return {"points": [asdict(point) for point in self.points], "at_full_strength": self.full, "model_based": True}


def dose_curve(
    scores: Scores, change: str, plan: Plan, members: Tensor, threshold: float, effect: Effect | None
) -> Dose:
    """From the columns `dose/CHANGE/S` and `seen/CHANGE/S`, on the same images at every strength."""
    first = f"dose/{change}/{plan.strengths[0]:g}"
    counted = members & ~scores[first].isnan()
    base = scores.answers("base", threshold)[counted]
    drawn = None if effect is None else effect.strength
    points = [DosePoint(0.0, 0.0, 0.0, int(counted.sum()))]
    for asked in sorted({*plan.strengths, 1.0}):
        end = "" if asked == 1 else f"/{asked:g}"
        column = f"{'dose' if end else 'do'}/{change}{end}"
        bias = (scores.answers(column, threshold)[counted] - base).mean().item()
        strength = math.nan if drawn is None else drawn.value * moved(scores, change, end, counted)
        points.append(DosePoint(asked, strength, bias, int(counted.sum())))
    return Dose(points, at_full_strength(points))


def moved(scores: Scores, change: str, end: str, counted: Tensor) -> float:
    """How far a predictor's reading moves at a strength, as a share of how far it moves at 1; NaN where none was asked."""
    seen, read = ("drawn", "there") if f"drawn/{change}" in scores else ("seen", "read")
    if f"{seen}/{change}" not in scores:
        return math.nan
    own = scores[f"{read}/{change}"][counted]
    # a predictor looks at the first images only
    shift, full = ((scores[f"{seen}/{change}{at}"][counted] - own).nanmean().item() for at in (end, ""))
    return shift / full if full else math.nan


def at_full_strength(points: list[DosePoint]) -> float:
    """The bias where the strength seen is 1 (to 5 in a hundred), by straight lines between the points.

    >>> round(at_full_strength([DosePoint(0, 0, 0, 9), DosePoint(1, 0.8, 0.4, 9), DosePoint(1.5, 1.2, 0.6, 9)]), 6)
    0.5
    >>> at_full_strength([DosePoint(0, 0, 0, 9), DosePoint(1, 0.5, 0.4, 9)])
    nan
    """
    known = [point for point in points if not math.isnan(point.strength)]
    if full := [point for point in known if abs(point.strength - 1) <= NEAR]:
        return min(full, key=lambda point: abs(point.asked - 1)).bias  # a predictor may see half of it as all of it
    for one, other in pairwise(known):
        if one.strength <= 1 <= other.strength and other.strength > one.strength:
            share = (1 - one.strength) / (other.strength - one.strength)
            return one.bias + share * (other.bias - one.bias)
    return math.nan
