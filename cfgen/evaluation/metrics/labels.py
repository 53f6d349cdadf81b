"""How often a classifier sees the label that was asked for (Appendix G)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Schema
from cfgen.counterfactual import Swept
from cfgen.errors import UserError
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Again, Description, Metric, Missing, Values
from cfgen.evaluation.subject import Subject
from cfgen.figures import misclassified_labels
from cfgen.metrics.asked import do_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LabelAccuracy", "label_name"]

SHOWN = 24  # images of the figure
REAL = "accuracy/real images"


class LabelAccuracy(Metric):
    """For each image, asked for another label than its own: 1 where the classifier sees the label asked for on x_c, else 0.

    `accuracy/do(label)` is that; `accuracy/real images` the same of x and its own label: what the classifier itself can do.
    """

    name = "labels"
    title = "Label counterfactuals: share in which a classifier sees the label (Appendix G)"
    unit = "share right"
    place = 30

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        assert judges.classifier is not None
        self.classifier = judges.classifier
        self.label = label_name(self.schema, self.classifier.classes)
        self.score = f"accuracy/{do_name(self.label)}"

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        if judges.classifier is None or judges.classifier.classes <= 2:
            return Missing("classifier", "a classifier of more than two labels")
        label_name(subject.mechanism.scm.schema, judges.classifier.classes)
        return None

    def descriptions(self) -> dict[str, Description]:
        return {
            self.score: self.describe(direction=1, attribute=self.label),
            REAL: self.describe(attribute=self.label, baseline=True),
        }

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each([self.label])

    def update(self, batch: Swept) -> Values:
        seen = {self.score: batch.x_c(do_name(self.label)), REAL: batch.x}
        wanted = {self.score: self.asked, REAL: self.subject.columns}
        return {
            name: (self.classifier.predict(images).cpu() == wanted[name][self.label][batch.rows].cpu()).float()
            for name, images in seen.items()
        }

    def figures(self, values: Mapping[str, Tensor], again: Again) -> dict[str, Figure]:
        """The first counterfactuals in which the classifier does not see the label asked for."""
        rows = (values[self.score] == 0).nonzero()[:SHOWN, 0]
        if not len(rows):
            return {}
        batch = again(rows)
        with torch.inference_mode():
            x_c = batch.x_c(do_name(self.label))
            read = self.classifier.predict(x_c)
        own, asked = (columns[self.label][rows] for columns in (self.subject.columns, self.asked))
        figure = misclassified_labels(batch.x, x_c, self.words(own), self.words(asked), self.words(read))
        return {"misclassified_labels": figure}

    def words(self, positions: Tensor) -> list[int | str]:
        label = self.schema[self.label]
        assert isinstance(label, Categorical)
        return [label.values[int(position)] for position in positions.tolist()]


def label_name(schema: Schema, classes: int) -> str:
    """The one categorical attribute, which a classifier of so many classes judges."""
    names = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Categorical)]
    if len(names) != 1:
        raise UserError(
            f"it has {classes} classes, which are those of a model's one categorical attribute; this model has "
            f"{len(names) or 'none'} ({', '.join(schema.names)})",
            argument="classifier",
        )
    if schema[names[0]].size != classes:
        raise UserError(
            f"it has {classes} classes, and {names[0]} has {schema[names[0]].size} values", argument="classifier"
        )
    return names[0]
