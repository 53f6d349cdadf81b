"""How strongly a model draws what an intervention asks for: 1 as in real images that have it, 0 as in images without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import stats

from cfgen.effects import CONFIDENCE, Array, Mask

__all__ = ["Strength", "graded_strength", "plain_values", "slope_strength", "strength"]

TELLS_APART = 0.5  # of the images: a predictor that sees it by so much more often where it is can judge
FOLLOWS = 0.7  # the correlation of a continuous attribute with its reading from which on a predictor can judge

KINDS: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "str": (str,), "bool": (bool,)}


def plain_values(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of a dataclass's fields; refuses a number or a text that is none, by TypeError."""
    for field in fields(kind):
        value = values[field.name]
        if not isinstance(value, KINDS.get(str(field.type), object)) or (value is True and field.type != "bool"):
            raise TypeError(f"{field.name} is a {field.type}, not {value!r}")
    return dict(values)


@dataclass(frozen=True)
class Strength:
    """How strongly a model draws what an intervention asks for, by a predictor: 1 as in real images that have it, 0 as in
    images without it.

    `value` = (seen - seen_without) / (seen_real - seen_without), with a 95 % confidence interval from `low` to `high`; of
    log-odds, where the predictor has them (`graded_strength`), and of the shares beside it otherwise.  `seen` is
    the share of counterfactuals in which the predictor sees what was asked for, `seen_real` that of real images that have it,
    and `seen_without` that of the images as they were.  For a continuous attribute they are slopes: by how much the reading moves
    for each unit that is asked for (`seen`), that real images differ by (`seen_real`), and 0.  Where the predictor itself cannot
    tell, `judged` is False and value and interval are NaN.
    """

    value: float
    low: float
    high: float
    seen: float
    seen_real: float
    seen_without: float
    judged: bool

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON: None where there is no number."""
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
    """Of a predictor's readings of n images: `seen` is 1 where it sees the values asked for in the counterfactual, else 0, NaN
    where nothing was asked; `read` is 1 where it sees them in the image itself.

    `changed` and `near` are the images that the intervention changes, and those that have the values (`cfgen.effects.Exposure`).
    `weights` make these like the changed ones (`cfgen.effects.RealImages.weights`); equal by default.  The interval is by the
    delta method: images are independent, weights and predictor are taken as known, and that `seen` and `seen_without` are of the
    same images is allowed for.

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
    """The same by how much speaks for what was asked, a predictor's log-odds in counterfactuals (`seen`) and images (`read`).

    `shares` are by its answers of yes and no (`strength`), and stay as they are: a good predictor says yes to faint glasses too,
    while its log-odds tell that they are faint.
    """
    if not shares.judged:
        return shares
    graded = strength(seen, read, changed, near, weights)
    return replace(shares, value=graded.value, low=graded.low, high=graded.high) if graded.judged else shares


def slope_strength(
    seen: Array, read: Array, wanted: Array | float, own: Array, features: Array | None = None
) -> Strength:
    """Of one continuous attribute: `seen` and `read` are a predictor's readings of counterfactuals and of the images themselves,
    `wanted` the values asked for and `own` those of the images; `seen` is NaN where nothing was asked.

    How far readings move for what was asked, sum((seen - read)(wanted - own)) / sum((wanted - own)^2), by the slope of readings
    over the real images' own values.  With `features` (n, k), that slope is at equal values of these: real images that differ in
    the attribute differ in its causes too, which a predictor may read it from, and counterfactuals do not
    (`cfgen.effects.RealImages.features`).  The interval is by the delta method: images are independent, nothing is assumed of
    the spread of readings, and the predictor is taken as known.

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
    """What least squares on the columns of `design` leaves of values."""
    return values - design @ np.linalg.lstsq(design, values, rcond=1e-10)[0]


def half_width(se: float, images: float) -> float:
    """Half a 95 % confidence interval of an estimate that so many images carry."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, max(images - 1, 1))) * se
