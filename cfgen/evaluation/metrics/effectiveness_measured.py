"""Effectiveness as the data measures it (Table 1): how far the attributes of a counterfactual are from what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.contracts import measured_names
from cfgen.counterfactual import Swept, asked_of
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Again, Cell, Description, Metric, Missing, Values
from cfgen.evaluation.subject import Subject
from cfgen.figures import target_against_measured
from cfgen.metrics.asked import asked_values, do_name
from cfgen.metrics.effectiveness import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EffectivenessMeasured"]

TABLE = "Median absolute error"


class Round(NamedTuple):
    """Values asked for, and by attribute the counterfactual vectors of all images; None where they are the sweep's own."""

    values: Columns
    vectors: Mapping[str, Tensor] | None


class EffectivenessMeasured(Metric):
    """For each image, `median_abs_error/do(k)/j`: |measured - target| of attribute j under do(k = the value asked).

    With several `values`, each image is asked for as many of every k, and has a row of them.  Beside it stand `floor` (real
    images against their own values: the measure's own error) and `untouched` (real images against the value asked of j: what
    doing nothing scores).  An image on which nothing can be measured is infinitely wrong.
    """

    name = "effectiveness"
    title = "Effectiveness, measured: median absolute error (Table 1)"
    unit = "the attribute's units"
    reduction = "median"
    place = 10

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        self.names = measured_names(self.data, self.schema)
        self.rounds: list[Round] = []

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        if measured_names(subject.data, subject.mechanism.scm.schema):
            return None
        return Missing(None, "data that can measure attributes on an image, such as MorphoMNIST")

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        return {"values"}

    def descriptions(self) -> dict[str, Description]:
        found = {}
        for k, j in ((k, j) for k in self.names for j in self.names):
            cell = Cell(TABLE, do_name(k), j, error=False)
            found[score_name(do_name(k), j)] = self.describe(direction=-1, attribute=k, cell=cell, width=self.values)
        for kind, j in ((kind, j) for kind in ("untouched", "floor") for j in self.names):
            cell = Cell(TABLE, kind, j, error=False)
            found[score_name(kind, j)] = self.describe(attribute=j, baseline=True, cell=cell)
        return found

    def start(self, seed: int, asked: Columns) -> None:
        super().start(seed, asked)
        self.rounds = [self.round(seed * self.values + number) for number in range(self.values)]

    def round(self, seed: int) -> Round:
        if seed == self.seed:
            return Round(self.asked, None)
        values = asked_values(self.subject.columns, self.schema, seed)
        device = self.schema.low.device
        do = {k: {k: values[k].to(device)} for k in self.names}
        vectors = {k: asked_of(self.mechanism, self.subject.columns, do[k], self.seed).a_c for k in self.names}
        return Round(values, vectors)

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.names)

    def extra_columns(self) -> dict[str, int]:
        own = {f"{kind}/{k}": self.values for kind in ("measured", "target") for k in self.names}
        return own | {f"measured/floor/{j}": 1 for j in self.names}

    def update(self, batch: Swept) -> Values:
        found: Values = {}
        real = self.data.measure(batch.x, self.names)
        for kind, values in (("floor", self.subject.columns), ("untouched", self.rounds[0].values)):
            for j in self.names:
                found[score_name(kind, j)] = wrong_by(real[j], values[j][batch.rows].to(batch.x.device))
        found |= {f"measured/floor/{j}": real[j] for j in self.names}
        for k in self.names:
            pairs = list(self.measured(batch, k))
            for j in self.names:
                measured, target = (
                    torch.stack([columns[j] for columns in part], dim=1) for part in zip(*pairs, strict=True)
                )
                found[score_name(do_name(k), j)] = wrong_by(measured, target)
                if j == k:
                    found |= {f"measured/{k}": measured, f"target/{k}": target}
        return found

    def measured(self, batch: Swept, k: str) -> Iterator[tuple[Columns, Columns]]:
        """In each round, what is measured on the counterfactuals under do(k), and what should be."""
        for _, vectors in self.rounds:
            a_c = batch.a_c(do_name(k)) if vectors is None else vectors[k][batch.rows]
            x_c = batch.x_c(do_name(k)) if vectors is None else batch.decode(a_c)
            yield self.data.measure(x_c, self.names), self.schema.decode(a_c)

    def figures(self, values: Mapping[str, Tensor], again: Again) -> dict[str, Figure]:
        """Fig. 4."""
        own = self.subject.columns
        pairs = [Comparison("floor", j, values[f"measured/floor/{j}"], own[j].cpu()) for j in self.names]
        pairs += [
            Comparison(do_name(k), k, values[f"measured/{k}"].flatten(), values[f"target/{k}"].flatten())
            for k in self.names
        ]
        return {"target_against_measured": target_against_measured(pairs)}


def score_name(kind: str, attribute: str) -> str:
    return f"median_abs_error/{kind}/{attribute}"


def wrong_by(measured: Tensor, target: Tensor) -> Tensor:
    return (measured - target).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
