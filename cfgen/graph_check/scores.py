"""What stands for an attribute in a test: numbers whose covariance with another's tells whether the two depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from cfgen.attributes import Attribute, Binary, Continuous
from cfgen.effects.estimate import Array

__all__ = ["FEWEST", "Scores", "scores_of"]

FEWEST = 20  # rows a value needs; rarer values are counted together
MOST_LEVELS = 20  # values of an attribute that are told apart; beyond them the rarest are counted together


@dataclass(frozen=True)
class Scores:
    """Columns (n, d) of an attribute; `discrete` ones are 0 or 1 and say which value it has, the most frequent one left out.

    `ordered` attributes have a low and a high end, so that a dependence on them has a sign.
    """

    values: Array
    discrete: bool
    ordered: bool

    @property
    def testable(self) -> bool:
        return self.values.shape[1] > 0


def scores_of(attribute: Attribute, column: Array) -> Scores:
    """Of a continuous attribute its rank and the square of that, as Legendre polynomials: bounded, whatever the tails are.

    >>> scores_of(Binary(), np.array([0.0, 0.0, 1.0] * 20)).values[:3, 0].tolist()
    [0.0, 0.0, 1.0]
    """
    if isinstance(attribute, Continuous):
        if np.ptp(column) == 0:
            return Scores(np.zeros((len(column), 0)), discrete=False, ordered=True)
        rank = uniform_ranks(column)
        return Scores(np.stack([rank, 1.5 * rank**2 - 0.5], axis=1), discrete=False, ordered=True)
    binary = isinstance(attribute, Binary)
    groups = frequent_groups(column)
    kept = [[1.0]] if binary and len(groups) == 2 else groups[1:]
    values = [np.isin(column, group) for group in kept]
    return Scores(np.array(values, dtype=np.float64).reshape(len(kept), len(column)).T, discrete=True, ordered=binary)


def uniform_ranks(column: Array) -> Array:
    """Ranks spread over (-1, 1); ties share one."""
    return np.asarray(2 * (stats.rankdata(column) - 0.5) / len(column) - 1, dtype=np.float64)


def frequent_groups(column: Array) -> list[list[float]]:
    """The values of a discrete column, each alone or together with other rare ones, the largest group first.

    >>> frequent_groups(np.array([0.0] * 50 + [1.0] * 30 + [2.0] * 15 + [3.0] * 9))
    [[0.0], [1.0], [2.0, 3.0]]
    """
    values, counts = np.unique(column, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    groups: list[list[float]] = []
    rare: list[float] = []
    for position in order:
        alone = counts[position] >= FEWEST and len(groups) < MOST_LEVELS - 1
        if alone:
            groups.append([float(values[position])])
        else:
            rare.append(float(values[position]))
    if rare:
        many = int(counts[np.isin(values, rare)].sum())
        if many >= FEWEST or not groups:
            groups.append(rare)
        else:
            groups[-1] += rare
    return groups
