"""Do two attributes depend on each other, given others?  One test and one measure for continuous, binary and categorical ones.

The test is the generalised covariance measure (Shah and Peters, 2020).  If X and Y are independent given Z, then what is left of
any function of X once Z is known is uncorrelated with what is left of any function of Y; the covariance of the two, over its
standard error, is asymptotically normal, and its squared length over several functions is chi-squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from cfgen.effects.estimate import Array
from cfgen.graph_check.regression import Residuals, Smoother
from cfgen.graph_check.scores import Scores

__all__ = ["Dependence", "dependence"]


@dataclass(frozen=True)
class Dependence:
    """The test of two attributes: `statistic` is chi-squared with `freedom` under independence.

    `strength` is from 0 to 1: the root of the mean squared canonical correlation of what is left.  With nothing held fixed it is
    Cramér's V of two discrete attributes (phi of two binary ones), Spearman's correlation of two continuous ones, and the
    correlation ratio eta of the ranks of a continuous within the values of a discrete one.  It has a sign where neither is
    categorical.
    """

    statistic: float
    freedom: int
    p_value: float
    strength: float


def dependence(
    smoother: Smoother, x: Scores, y: Scores, found: tuple[Residuals, Residuals] | None = None
) -> Dependence:
    """Tests x against y, given what the smoother holds fixed; `found` are their residuals, where they are known already."""
    one, other = found or (smoother.residuals(x.values), smoother.residuals(y.values))
    n = len(one.left)
    covariance = one.left.T @ other.left / n
    spread_x, spread_y = spread(one, x.discrete), spread(other, y.discrete)
    (a, b), products = covariance.shape, spread_x.reshape(n, -1).T @ spread_y.reshape(n, -1) / n
    sigma = products.reshape(a, a, b, b).transpose(0, 2, 1, 3).reshape(a * b, a * b)
    length, freedom = squared_length(covariance.ravel(), sigma)
    # the regressions took some of the noise, and of its products' spread more than of their sum's
    expected_x, expected_y = (1 - r.leverage2 if s.discrete else r.kept for r, s in ((one, x), (other, y)))
    statistic = n * length * float(expected_x @ expected_y) / smoother.noise_left(one, other)
    rows = max(smoother.freedom(one, other) - freedom, 1.0)
    p_value = float(stats.f.sf(statistic / max(freedom, 1), max(freedom, 1), rows)) if freedom else 1.0
    return Dependence(statistic, freedom, p_value, strength(covariance, spread_x.mean(0), spread_y.mean(0), x, y))


def spread(found: Residuals, discrete: bool) -> Array:
    """The covariance of each row's residuals, (n, d, d): of a discrete attribute by its fitted probabilities p,
    diag(p) - p p^T, for rare values may not show theirs; of a continuous one by the residuals themselves."""
    if not discrete:
        return np.einsum("ia,ib->iab", found.left, found.left)
    p = np.clip(found.fitted, 0, 1)
    p = p / np.maximum(p.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.einsum("ia,ab->iab", p, np.eye(p.shape[1])) - np.einsum("ia,ib->iab", p, p))


def squared_length(vector: Array, covariance: Array) -> tuple[float, int]:
    """Mahalanobis' squared length of a vector, and in how many directions it can vary."""
    size, directions = np.linalg.eigh(covariance)
    good = size > 1e-9 * max(float(size[-1]), 1e-300)
    along = directions[:, good].T @ vector
    return float((along**2 / size[good]).sum()), int(good.sum())


def strength(covariance: Array, spread_x: Array, spread_y: Array, x: Scores, y: Scores) -> float:
    """The root of the mean squared canonical correlation; of continuous attributes by their ranks alone."""
    a, b = (slice(None) if s.discrete else slice(0, 1) for s in (x, y))
    c, sx, sy = covariance[a, b], spread_x[a, a], spread_y[b, b]
    share = float(np.trace(np.linalg.pinv(sx) @ c @ np.linalg.pinv(sy) @ c.T)) / min(c.shape)
    found = math.sqrt(min(max(share, 0.0), 1.0))
    return math.copysign(found, c[0, 0]) if x.ordered and y.ordered else found
