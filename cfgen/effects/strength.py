"""`Strength`: how strongly a model draws what an intervention sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import stats

from cfgen.effects.estimate import CONFIDENCE, Array
from cfgen.interventions import Mask

__all__ = ["Strength", "graded_strength", "plain_values", "slope_strength", "strength"]

TELLS_APART = 0.5  # of the images: a predictor that sees it by so much more often where it is can judge
FOLLOWS = 0.7  # the correlation of a continuous attribute with its reading from which on a predictor can judge

KINDS: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "str": (str,), "bool": (bool,)}


def plain_values(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass from a file; raises TypeError where a value has the wrong type."""
    for field in fields(kind):
        value = values[field.name]
        if not isinstance(value, KINDS.get(str(field.type), object)) or (value is True and field.type != "bool"):
            raise TypeError(f"{field.name} is a {field.type}, not {value!r}")
    return dict(values)


@dataclass(frozen=True)
class Strength:
    """How strongly a model draws what an intervention sets, by a predictor: 1 as in real images that have it, 0 as in others.

    Attributes:
        value, low, high: (seen - seen_without) / (seen_real - seen_without) with a 95 % confidence interval; of log-odds where
            the predictor has them (`graded_strength`); NaN where the predictor cannot tell.
        seen, seen_real, seen_without: the share of counterfactuals, of real images that have the values, and of the images before
            the intervention, in which the predictor sees the values.  For a continuous attribute they are slopes of the reading
            over the value that is set (`seen`) and over the value of real images (`seen_real`), and 0.
        judged: whether the predictor can tell.
    """

    value: float
    low: float
    high: float
    seen: float
    seen_real: float
    seen_without: float
    judged: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, with None in place of NaN."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Strength:
        """The inverse of `to_dict`.

        >>> found = Strength(0.7, 0.6, 0.8, 0.66, 0.9, 0.1, True)
        >>> Strength.from_dict(found.to_dict()) == found
        True
        """
        numbers: dict[str, Any] = {name: math.nan if value is None else value for name, value in values.items()}
        return cls(**plain_values(cls, numbers))


def strength(seen: Array, read: Array, changed: Mask, near: Mask, weights: Array | None = None) -> Strength:
    """The strength from yes/no readings of n images.

    Args:
        seen, read: 1 where the predictor sees the values, in counterfactuals (NaN where there is none) and in images.
        changed, near: the images that the intervention changes, and those that have the values.
        weights: make the latter like the former (`cfgen.effects.RealImages.weights`); equal by default.

    The interval is by the delta method with independent images; weights and predictor are taken as known.

    >>> asked, has = np.array([True] * 100 + [False] * 100), np.array([False] * 100 + [True] * 100)
    >>> drawn = np.array([1.0] * 68 + [0.0] * 32 + [np.nan] * 100)
    >>> found = strength(drawn, has.astype(float), asked, has)
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2), found.judged
    (0.68, 0.58, 0.78, True)
    """
    asked = changed & ~np.isnan(seen)
    w = np.where(near, 1.0 if weights is None else weights, 0.0)
    n_asked, total = int(asked.sum()), float(w.sum())
    made = float(seen[asked].mean()) if n_asked else math.nan
    without = float(read[asked].mean()) if n_asked else math.nan
    real = float(w @ np.where(near, read, 0.0)) / total if total > 0 else math.nan
    apart = real - without
    if not apart >= TELLS_APART:  # NaN too
        return Strength(math.nan, math.nan, math.nan, made, real, without, False)
    value = (made - without) / apart
    n_real = total**2 / float(w @ w)
    of_asked = np.where(asked, (seen - made) - (1 - value) * (read - without), 0.0) / n_asked
    of_real = np.where(near, -value * w * (read - real), 0.0) / total
    # one answer more than was seen (after Agresti and Coull): where all answers are the same, their spread is 0 by chance
    more = (1 + (1 - value) ** 2) / n_asked**2 + value**2 / n_real**2
    se = math.sqrt(float(((of_asked + of_real) ** 2).sum()) + more) / apart
    half = half_width(se, min(n_asked, n_real))
    return Strength(value, value - half, value + half, made, real, without, True)


def graded_strength(
    shares: Strength, seen: Array, read: Array, changed: Mask, near: Mask, weights: Array | None = None
) -> Strength:
    """The strength from log-odds of the values, in counterfactuals (`seen`) and images (`read`), with the `shares` of `strength`.

    A good predictor says yes to faint glasses too; its log-odds tell that they are faint.
    """
    if not shares.judged:
        return shares
    graded = strength(seen, read, changed, near, weights)
    return replace(shares, value=graded.value, low=graded.low, high=graded.high) if graded.judged else shares


def slope_strength(
    seen: Array, read: Array, wanted: Array | float, own: Array, features: Array | None = None
) -> Strength:
    """The strength from readings of one continuous attribute.

    Args:
        seen, read: the readings of counterfactuals (NaN where there is none) and of images.
        wanted, own: the values that are set, and those of the images.
        features: (n, k), the slope over real images is adjusted for them (`cfgen.effects.RealImages.features`): real images that
            differ in the attribute differ in its causes too, which the predictor may read it from.

    The value is sum((seen - read)(wanted - own)) / sum((wanted - own)^2), divided by the slope of `read` over `own`.  The
    interval is by the delta method with independent images; the predictor is taken as known.

    >>> own = np.linspace(0, 1, 50)
    >>> found = slope_strength(own + 0.8 * (2 - own), own, 2.0, own)
    >>> round(found.value, 2), found.judged
    (0.8, True)
    """
    asked = ~np.isnan(seen)
    ones = np.ones((len(own), 1))
    adjusted = ones if features is None else np.concatenate([ones, features], axis=1)
    own_left, read_left = left_over(adjusted, own), left_over(adjusted, read)
    spread, read_spread = float(own_left @ own_left), float(read_left @ read_left)
    varies = len(own) > 2 and spread > 1e-9 * float(own @ own) and read_spread > 1e-9 * float(read @ read)
    follows = float(own_left @ read_left) / math.sqrt(spread * read_spread) if varies else math.nan
    real = float(own_left @ read_left) / spread if varies else math.nan
    distance = np.where(asked, wanted - own, 0.0)
    moved = np.where(asked, seen - read, 0.0)
    squares = float(distance @ distance)
    made = float(distance @ moved) / squares if squares > 0 else math.nan
    if not follows >= FOLLOWS or math.isnan(made):
        return Strength(math.nan, math.nan, math.nan, made, real, 0.0, False)
    value = made / real
    of_asked = distance * (moved - made * distance) / squares
    of_real = own_left * (read_left - real * own_left) / spread
    se = math.sqrt(float(((of_asked - value * of_real) ** 2).sum())) / real
    half = half_width(se, int(asked.sum()))
    return Strength(value, value - half, value + half, made, real, 0.0, True)


def left_over(design: Array, values: Array) -> Array:
    """The residuals of least squares on the columns of `design`."""
    return values - design @ np.linalg.lstsq(design, values, rcond=1e-10)[0]


def half_width(se: float, images: float) -> float:
    """Half the width of a 95 % confidence interval with `images` as the effective sample size."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, max(images - 1, 1))) * se
