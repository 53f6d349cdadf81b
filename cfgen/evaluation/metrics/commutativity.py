"""Commutativity: two interventions in either order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from torch import Tensor

from cfgen.counterfactual import Swept
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import LEVELS, OTHER, Cell, Description, Metric, Values, levels_apart
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import do_name

__all__ = ["Commutativity", "intervention_pairs"]

ALL_PAIRS = 6  # attributes, up to which every pair is tried
SHOWN = 6  # pairs that the terminal shows one by one


def intervention_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair of at most six attributes; of more, each with the next one, the last with the first.

    >>> intervention_pairs("abc")
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    if len(names) <= ALL_PAIRS:
        return list(combinations(names, 2))
    return list(zip(names, [*names[1:], names[0]], strict=True))


class Commutativity(Metric):
    """For each image and pair of attributes, `commutativity_l1/do(k),do(j)`: mean |x_kj - x_jk| of pixels in 0..255, where

        x_k  = G(E(x, a), a_k),         a_k under do(k = the value asked),
        x_kj = G(E(x_k, a_k), a_kj),    a_kj under both: the first intervention stays in force,

    and x_jk is made in the other order.  Both end with the same attributes, so exact counterfactuals are the same image.
    """

    name = "commutativity"
    title = "Commutativity: what the order of two interventions changes, 0 to 255"
    unit = LEVELS
    place = 70

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        self.pairs = intervention_pairs(self.schema.names)

    def descriptions(self) -> dict[str, Description]:
        many = len(self.pairs) > SHOWN
        cell = Cell(row=f"commutativity_l1, mean of {len(self.pairs)} pairs", error=False) if many else OTHER
        return {
            f"commutativity_l1/{both_name(k, j)}": self.describe(direction=-1, attribute=f"{k},{j}", cell=cell)
            for k, j in self.pairs
        }

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        both = {both_name(k, j): {k: self.asked[k], j: self.asked[j]} for k, j in self.pairs}
        return self.do_each(name for pair in self.pairs for name in pair) | both

    def update(self, batch: Swept) -> Values:
        found = {}
        for k, j in self.pairs:
            a_kj = batch.a_c(both_name(k, j))
            x_kj, x_jk = (self.mechanism.decode(batch.z_c(do_name(first)), a_kj) for first in (k, j))
            found[f"commutativity_l1/{both_name(k, j)}"] = levels_apart(x_kj, x_jk)
        return found


def both_name(k: str, j: str) -> str:
    return f"{do_name(k)},{do_name(j)}"
