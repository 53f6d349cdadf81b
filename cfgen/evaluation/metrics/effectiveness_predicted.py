"""Effectiveness as judges see it: do they read the attributes that a counterfactual should have?"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from cfgen.attributes import Continuous, Schema
from cfgen.counterfactual import Swept
from cfgen.errors import UserError
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Cell, Description, Metric, Missing, Values
from cfgen.evaluation.packaged import known_names
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import do_name

__all__ = ["EffectivenessPredicted", "common_attributes"]

ACROSS = 6  # attributes that a terminal has room for as columns
TABLE = "Read by the judges (continuous: mean absolute error; others: share right)"


class EffectivenessPredicted(Metric):
    """For each image, intervention, attribute j and judge that reads j:

    `predicted/do(k)/j`: under do(k = the value asked), |read - target| of a continuous j, or 1 where the value read is the
    target and 0 where it is not; the target is the SCM's counterfactual value of j;
    `predicted/floor/j`: the same of the real image against its own value, the judge's own error;
    `predicted/untouched/j`: of the real image against the value asked of j, what doing nothing scores.
    The score is the mean over images and judges.
    """

    name = "effectiveness"
    title = "Effectiveness, read by judges: mean absolute error, or share right"
    unit = "the attribute's units"
    place = 20

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        known = {name: common_attributes(self.schema, judge.schema) for name, judge in judges.predictors.items()}
        self.readers = {
            j: tuple(name for name, names in known.items() if j in names)
            for j in self.schema.names
            if any(j in names for names in known.values())
        }
        self.names = list(self.readers)

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        for judge in judges.predictors.values():
            common_attributes(subject.mechanism.scm.schema, judge.schema)
        return None if judges.predictors else Missing("predictor", "a predictor")

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        return {"predictor"}

    def descriptions(self) -> dict[str, Description]:
        found = {}
        for k in self.schema.names:
            for j in self.names:
                direction = -1 if self.continuous(j) else 1
                found[f"predicted/{do_name(k)}/{j}"] = self.described(j, do_name(k), attribute=k, direction=direction)
        for kind in ("untouched", "floor"):
            for j in self.names:
                found[f"predicted/{kind}/{j}"] = self.described(j, kind, attribute=j, baseline=True)
        return found

    def described(self, j: str, kind: str, attribute: str, direction: int = 0, baseline: bool = False) -> Description:
        """With few attributes the table has interventions by attributes; with many, of each its own intervention alone."""
        cell: Cell | None = Cell(TABLE, kind, j, error=False)
        if len(self.names) > ACROSS:
            column = "do(itself)" if kind == do_name(j) else kind
            cell = Cell(TABLE, j, column, error=False) if baseline or kind == do_name(j) else None
        unit = self.unit if self.continuous(j) else "share right"
        return self.describe(
            unit=unit, direction=direction, attribute=attribute, baseline=baseline, cell=cell, judges=self.readers[j]
        )

    def continuous(self, j: str) -> bool:
        return isinstance(self.schema[j], Continuous)

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.schema.names)

    def update(self, batch: Swept) -> Values:
        found = {}
        read = self.read(batch.x)
        for kind, target in (("floor", self.subject.columns), ("untouched", self.asked)):
            for j in self.names:
                found[f"predicted/{kind}/{j}"] = self.agreement(
                    j, read[j], target[j][batch.rows, None].to(batch.x.device)
                )
        for do in map(do_name, self.schema.names):
            read, wanted = self.read(batch.x_c(do)), self.schema.decode(batch.a_c(do))
            found |= {f"predicted/{do}/{j}": self.agreement(j, read[j], wanted[j][:, None]) for j in self.names}
        return found

    def read(self, x: Tensor) -> dict[str, Tensor]:
        """What each judge reads of every attribute: (N, its judges)."""
        read = {name: judge.read(x) for name, judge in self.judges.predictors.items()}
        return {j: torch.stack([read[name][j] for name in names], dim=1) for j, names in self.readers.items()}

    def agreement(self, j: str, read: Tensor, target: Tensor) -> Tensor:
        return (read - target).abs() if self.continuous(j) else (read.round() == target).float()


def common_attributes(schema: Schema, known: Schema) -> list[str]:
    """Those that a model and a judge both know; refuses a judge that knows none."""
    common = known_names(schema, known)
    if not common:
        raise UserError(
            f"it reads {', '.join(known.names)}, and the model has {', '.join(schema.names)}; nothing is in common. Give a "
            "predictor that was trained on the model's data",
            argument="predictor",
        )
    return common
