"""Shares of right answers, their intervals and tests, where answers of one participant are not independent.

`right` and `asked` are counts of each participant, (..., participants): whole simulated studies are computed at once.

Participants are the units that vary: one with good eyes is right more often in all of their answers.  The share is
p = sum(right) / sum(asked), a ratio, and its variance is the cluster-robust one (linearised, with n / (n - 1)); where all
participants answer equally many questions it is s^2 / n of their scores.  Where all
scores are equal that is 0, and the variance of independent answers takes its place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

__all__ = ["Power", "chance_test", "clustered_interval", "equivalence_test", "exact_test", "power", "share", "wilson"]

STUDIES = 4000  # simulated for a power: its standard error is below 0.008


def share(right: ArrayLike, asked: ArrayLike) -> Any:
    """The share of right answers of all participants."""
    return np.sum(right, axis=-1) / np.sum(asked, axis=-1)


def standard_error(right: ArrayLike, asked: ArrayLike, at: float | None = None) -> Any:
    """Of the share, with participants as clusters; where they do not vary, that of independent answers (`at` another share)."""
    right, asked = np.asarray(right, float), np.asarray(asked, float)
    p, total, n = share(right, asked), asked.sum(axis=-1), right.shape[-1]
    residual = right - p[..., None] * asked
    between = np.square(residual).sum(axis=-1) / total**2 * (n / (n - 1) if n > 1 else np.nan)
    assumed = p if at is None else np.float64(at)
    return np.sqrt(np.where(between == 0, assumed * (1 - assumed) / total, between))


def wilson(right: ArrayLike, asked: ArrayLike, z: ArrayLike) -> tuple[Any, Any]:
    """Wilson's interval of a share; counts need not be whole numbers."""
    right, asked, z = (np.asarray(values, float) for values in (right, asked, z))
    p = right / asked
    middle = (p + z**2 / (2 * asked)) / (1 + z**2 / asked)
    half = z / (1 + z**2 / asked) * np.sqrt(p * (1 - p) / asked + z**2 / (4 * asked**2))
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def clustered_interval(right: ArrayLike, asked: ArrayLike, confidence: float = 0.95) -> tuple[Any, Any]:
    """Wilson's interval at the number of independent answers that are worth as much as these, with Student's quantile.

    Unlike p +- t x s.e. it stays within 0 and 1, and has a width where everybody is right (Korn and Graubard 1998).  It is NaN
    for a single participant.
    """
    right, asked = np.asarray(right, float), np.asarray(asked, float)
    n, total = right.shape[-1], asked.sum(axis=-1)
    if n < 2:
        return np.full(total.shape, np.nan)[()], np.full(total.shape, np.nan)[()]
    p, error = share(right, asked), standard_error(right, asked)
    worth = np.where(error > 0, p * (1 - p) / np.where(error > 0, error, 1) ** 2, total)
    low, high = wilson(p * worth, worth, stats.t.ppf((1 + confidence) / 2, n - 1))
    return low[()], high[()]


def exact_test(right: int, asked: int) -> float:
    """Binomial test against guessing, two-sided: exact where nobody sees anything, for then all answers are independent."""
    return float(stats.binomtest(right, asked, 0.5).pvalue)


def chance_test(right: ArrayLike, asked: ArrayLike) -> Any:
    """Against a mean share of one half, two-sided, where participants may differ: Student's t with n - 1 degrees of freedom."""
    n = np.shape(right)[-1]
    t = (share(right, asked) - 0.5) / standard_error(right, asked, 0.5)
    return 2 * stats.t.sf(np.abs(t), n - 1) if n > 1 else np.full(np.shape(t), np.nan)[()]


def equivalence_test(right: ArrayLike, asked: ArrayLike, margin: float) -> Any:
    """Two one-sided tests (TOST): a small value says that the share is within one half +- margin."""
    n, p = np.shape(right)[-1], share(right, asked)
    above = (p - (0.5 - margin)) / standard_error(right, asked, 0.5 - margin)
    below = ((0.5 + margin) - p) / standard_error(right, asked, 0.5 + margin)
    return stats.t.sf(np.minimum(above, below), n - 1) if n > 1 else np.full(np.shape(p), np.nan)[()]


class Power(NamedTuple):
    """How often a study of so many participants would find what is so, if participants vary with this standard deviation."""

    participants: int
    spread: float
    detects: float  # a share of one half + margin is found to differ from chance
    equivalent: float  # a share of one half is found to be within the margin


def power(
    participants: int, each: int, margin: float, level: float = 0.05, spread: float = 0.0, seed: int = 0
) -> Power:
    """Of both tests, by simulated studies: participants' own shares are drawn from a beta distribution."""
    random = np.random.default_rng(seed)
    asked = np.full(participants, each)

    def scores(mean: float) -> Any:
        return random.binomial(each, drawn_shares(random, mean, spread, (STUDIES, participants)))

    detects = chance_test(scores(0.5 + margin), asked) < level
    equivalent = equivalence_test(scores(0.5), asked, margin) < level
    return Power(participants, spread, float(detects.mean()), float(equivalent.mean()))


def drawn_shares(random: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...]) -> Any:
    """Participants' own chances to be right: of a beta distribution with this mean and standard deviation."""
    if spread == 0:
        return np.full(shape, mean)
    total = mean * (1 - mean) / spread**2 - 1
    return random.beta(mean * total, (1 - mean) * total, shape)
