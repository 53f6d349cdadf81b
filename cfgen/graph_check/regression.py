"""What is left of columns once others are known: residuals of a smooth regression of any kinds of attributes on any kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist

from cfgen.attributes import Attribute, Continuous
from cfgen.effects.estimate import Array
from cfgen.graph_check.scores import scores_of, uniform_ranks

__all__ = ["Residuals", "Smoother"]

CENTRES = 100  # of the kernel for each column that is held fixed: rows that the curves are hung on
WIDTH = 0.45  # of the kernel for each column that is held fixed, in standard deviations
PENALTIES = np.logspace(-5, 3, 17)  # of the curves, as shares of the largest eigenvalue


@dataclass(frozen=True)
class Residuals:
    """What is left of columns, (n, d), what was fitted, and how much of a row's own noise is left in it.

    `shrinkage` is the weight of every direction of the regression in the fit, `leverage2` the diagonal of the squared hat matrix
    and `kept` that of (1 - hat)^2.
    """

    left: Array
    fitted: Array
    shrinkage: Array
    leverage2: Array
    kept: Array


class Smoother:
    """Regression on the columns that are held fixed: a line of each, and a kernel for curves and interactions.

    The line is free and the curves have a ridge penalty, chosen for each attribute by leave-one-out errors, which have a closed
    form; so one decomposition serves all attributes that are regressed on the same columns.
    """

    def __init__(self, given: Sequence[tuple[Attribute, Array]], rows: int, seed: int = 0) -> None:
        lines, places = [np.ones((rows, 1))], []
        for attribute, column in given:
            if isinstance(attribute, Continuous):
                normal = stats.norm.ppf((uniform_ranks(column) + 1) / 2)[:, None]
                lines.append(normal)
                places.append(normal)
            else:
                values = scores_of(attribute, column).values
                lines.append(values)
                places.append(values * np.sqrt(2))  # two values are as far apart as two deviations of a continuous one
        self.line = orthonormal(np.concatenate(lines, axis=1))
        self.curves, self.eigenvalues = self._curves(places, len(given), rows, seed)

    def _curves(self, places: Sequence[Array], number: int, rows: int, seed: int) -> tuple[Array, Array]:
        """Orthonormal directions (n, m) beside the line, by Nystrom's approximation of a Gaussian kernel, and eigenvalues."""
        if not places:
            return np.zeros((rows, 0)), np.zeros(0)
        place = np.concatenate(places, axis=1) / (WIDTH * number)
        chosen = np.random.default_rng(seed).permutation(rows)[: CENTRES * number]
        centres = np.unique(place[chosen], axis=0)
        among = np.exp(-0.5 * cdist(centres, centres, "sqeuclidean"))
        size, directions = np.linalg.eigh(among)
        good = size > 1e-8 * size[-1]
        features = np.exp(-0.5 * cdist(place, centres, "sqeuclidean")) @ (directions[:, good] / np.sqrt(size[good]))
        features -= self.line @ (self.line.T @ features)
        size, directions = np.linalg.eigh(features.T @ features)
        good = size > 1e-8 * max(float(size[-1]), rows * 1e-6)
        return features @ (directions[:, good] / np.sqrt(size[good])), size[good]

    def residuals(self, values: Array) -> Residuals:
        """Of the columns (n, d) of one attribute, with the penalty whose leave-one-out errors are smallest."""
        straight = self.line @ (self.line.T @ values)
        own = (self.line**2).sum(axis=1)
        if not len(self.eigenvalues):
            return Residuals(values - straight, straight, np.zeros(0), own, 1 - own)
        along = self.curves.T @ values
        squares = self.curves**2
        best: tuple[float, Array] | None = None
        for penalty in PENALTIES:
            weights = self.eigenvalues / (self.eigenvalues + penalty * self.eigenvalues[-1])
            fitted = straight + self.curves @ (weights[:, None] * along)
            left_out = (values - fitted) / np.maximum(1 - own - squares @ weights, 1e-3)[:, None]
            error = float((left_out**2).sum())
            if best is None or error < best[0]:
                best = error, weights
        assert best is not None
        weights = best[1]
        fitted = straight + self.curves @ (weights[:, None] * along)
        leverage, leverage2 = own + squares @ weights, own + squares @ weights**2
        return Residuals(values - fitted, fitted, weights, leverage2, 1 - 2 * leverage + leverage2)

    def noise_left(self, one: Residuals, other: Residuals) -> float:
        """The trace of (1 - hat)^2 of the one times that of the other."""
        kept = (1 - one.shrinkage) ** 2 * (1 - other.shrinkage) ** 2
        return float(kept.sum()) + len(self.line) - self.line.shape[1] - len(kept)

    def freedom(self, *found: Residuals) -> float:
        """Rows that are left to judge by, after what the regressions took."""
        return len(self.line) - self.line.shape[1] - max(float(one.shrinkage.sum()) for one in found)


def orthonormal(columns: Array) -> Array:
    """An orthonormal basis of the space of columns, (n, rank)."""
    basis, size, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(basis[:, size > 1e-9 * size[0]], dtype=np.float64)
