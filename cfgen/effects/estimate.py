"""An estimate with its influence function: intervals, differences and combinations of estimates from the same images.

The spread of the influence function over images is the standard error.  Two estimates from the same images are compared and
combined through the covariance of their influence functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["CONFIDENCE", "Array", "Estimate", "combine", "difference", "pool_models", "scaled", "subtract_controls"]

CONFIDENCE = 0.95
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number with a confidence interval.

    `influence` has one value per image, with mean 0; `elsewhere` is variance from other images.  `effective` is the effective
    sample size, the degrees of freedom of the interval.  `slack` widens the interval where answers do not vary, so that their
    spread understates the uncertainty.  `limit` bounds the interval: a difference of shares lies between -1 and 1.

    >>> mean = Estimate(0.5, np.array([-0.5, 0.5] * 50), effective=100)
    >>> round(mean.se, 3), [round(end, 3) for end in mean.interval]
    (0.05, [0.401, 0.599])
    """

    value: float
    influence: Array = field(repr=False)
    effective: float
    elsewhere: float = 0.0
    slack: float = 0.0
    limit: float = 1.0

    @property
    def variance(self) -> float:
        n = len(self.influence)
        return float(self.influence @ self.influence) / n**2 + self.elsewhere

    @property
    def se(self) -> float:
        return math.sqrt(self.variance)

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return self.half_at(CONFIDENCE)

    def half_at(self, confidence: float) -> float:
        freedom = max(self.effective - 1, 1)
        return float(stats.t.ppf((1 + confidence) / 2, freedom)) * self.se + self.slack

    @property
    def low(self) -> float:
        return self.interval[0]

    @property
    def high(self) -> float:
        return self.interval[1]

    @property
    def interval(self) -> tuple[float, float]:
        return self.interval_at(CONFIDENCE)

    def interval_at(self, confidence: float) -> tuple[float, float]:
        """At another confidence."""
        half = self.half_at(confidence)
        return max(self.value - half, -self.limit), min(self.value + half, self.limit)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def p_value(self) -> float:
        """Of the value being 0."""
        if self.se == 0:
            return float(abs(self.value) <= self.slack)
        away = max(abs(self.value) - self.slack, 0) / self.se
        return float(2 * stats.t.sf(away, max(self.effective - 1, 1)))

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high, "se": self.se, "effective": self.effective}


def difference(one: Estimate, other: Estimate) -> Estimate:
    """`one` minus `other`, from the same images: what both share cancels."""
    return Estimate(
        one.value - other.value,
        one.influence - other.influence,
        min(one.effective, other.effective),
        one.elsewhere + other.elsewhere,
        max(one.slack, other.slack),
        max(one.limit, other.limit),
    )


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """The same in another unit, in which `factor` is what was 1, and values have no limit.

    >>> scaled(Estimate(0.5, np.array([-0.5, 0.5]), 2), 10).value
    5.0
    """
    return Estimate(
        factor * estimate.value,
        factor * estimate.influence,
        estimate.effective,
        factor**2 * estimate.elsewhere,
        factor * estimate.slack,
        math.inf,
    )


def combine(estimates: Sequence[Estimate]) -> Estimate:
    """The weighted mean of unbiased estimates of one quantity whose variance is smallest; no weight is negative.

    Its interval is no wider than that of the first: where fewer images or their equal answers would make it so, the other is left
    out.

    >>> good, poor = Estimate(0.2, np.array([0.1, -0.1]), 2), Estimate(0.4, np.array([1.0, 1.0]), 2)
    >>> combine([good, poor]).se <= good.se
    True
    """
    best = estimates[0]
    for other in estimates[1:]:
        n = len(best.influence)
        apart = best.influence - other.influence
        spread = apart @ apart / n**2 + best.elsewhere + other.elsewhere
        towards = best.influence @ apart / n**2 + best.elsewhere
        weight = float(np.clip(towards / spread, 0, 1)) if spread > 0 else 0.0
        keep = 1 - weight
        mixed = Estimate(
            keep * best.value + weight * other.value,
            keep * best.influence + weight * other.influence,
            keep * best.effective + weight * other.effective,
            keep**2 * best.elsewhere + weight**2 * other.elsewhere,
            keep * best.slack + weight * other.slack,
        )
        # where answers do not vary, a variance says nothing of the doubt, and the weight rests on it
        best = min(best, mixed, *([other] if best.slack else []), key=lambda estimate: estimate.half)
    return best


def subtract_controls(values: Array, controls: Array) -> Array:
    """The coefficients with which controls of mean 0, (n, k), leave the smallest spread in `values - controls @ coefficients`."""
    if not controls.size:
        return np.zeros(controls.shape[1])
    return np.asarray(np.linalg.lstsq(controls, values, rcond=1e-10)[0], dtype=np.float64)


def pool_models(estimates: Sequence[Estimate]) -> Estimate:
    """Rubin's rule: the mean over several models, whose disagreement (1 + 1/M) B is added to the mean variance.

    Few models that disagree say little of how far models may disagree, so the degrees of freedom are fewer, too (Barnard and
    Rubin, 1999).

    >>> one, other = (Estimate(v, np.array([0.1, -0.1]), 2) for v in (0.1, 0.3))
    >>> round(pool_models([one, other]).variance - one.variance, 4)  # (1 + 1/2) * 0.02
    0.03
    """
    number = len(estimates)
    if number == 1:
        return estimates[0]
    values = np.array([estimate.value for estimate in estimates])
    between = float(values.var(ddof=1)) * (1 + 1 / number)
    within = float(np.mean([estimate.variance for estimate in estimates]))
    influence = np.mean([estimate.influence for estimate in estimates], axis=0)
    own = float(influence @ influence) / len(influence) ** 2
    freedom = max(float(np.mean([estimate.effective for estimate in estimates])) - 1, 1)
    if between > 0:
        freedom = 1 / (1 / freedom + 1 / ((number - 1) * (1 + within / between) ** 2))
    return Estimate(
        float(values.mean()),
        influence,
        1 + freedom,
        max(within - own, 0.0) + between,
        max(estimate.slack for estimate in estimates),
    )
