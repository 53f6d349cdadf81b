"""How often a classifier, or judges, see the label that was asked for (Appendix G)."""

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
from cfgen.evaluation.packaged import known_names
from cfgen.evaluation.subject import Subject
from cfgen.figures import misclassified_labels
from cfgen.metrics.asked import do_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightning_modules import Classifier

__all__ = ["LabelAccuracy", "label_name"]

SHOWN = 24  # images of the figure
REAL = "accuracy/real images"


class LabelAccuracy(Metric):
    """For each image, asked for another label than its own: 1 where the classifier sees the label asked for on x_c, else 0.

    `accuracy/do(label)` is that; `accuracy/real images` the same of x and its own label: what the classifier itself can do.
    Without a classifier, the judges that read the label each say it, and the score is the mean over them.
    """

    name = "labels"
    title = "Label counterfactuals: share in which the label is seen (Appendix G)"
    unit = "share right"
    place = 30

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        self.classifier = of_labels(judges)
        self.readers: tuple[str, ...] = ()
        if self.classifier is not None:
            self.label = label_name(self.schema, self.classifier.classes)
        else:
            self.label, self.readers = label_readers(self.schema, judges)
        self.score = f"accuracy/{do_name(self.label)}"

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        schema, classifier = subject.mechanism.scm.schema, of_labels(judges)
        if classifier is not None:
            label_name(schema, classifier.classes)
        elif not label_readers(schema, judges)[1]:
            return Missing("classifier", "a classifier of more than two labels")
        return None

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        return {"predictor"} if of_labels(judges) is None else {"classifier"}

    def descriptions(self) -> dict[str, Description]:
        return {
            self.score: self.describe(direction=1, attribute=self.label, judges=self.readers),
            REAL: self.describe(attribute=self.label, baseline=True, judges=self.readers),
        }

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each([self.label])

    def update(self, batch: Swept) -> Values:
        seen = {self.score: batch.x_c(do_name(self.label)), REAL: batch.x}
        wanted = {self.score: self.asked, REAL: self.subject.columns}
        return {
            name: (self.read(images).cpu() == wanted[name][self.label][batch.rows, None].cpu()).float()
            for name, images in seen.items()
        }

    def read(self, x: Tensor) -> Tensor:
        """The labels that the classifier, or each judge, sees: (N, 1 or judges)."""
        if self.classifier is not None:
            return self.classifier.predict(x)[:, None]
        labels = [self.judges.predictors[name].read(x)[self.label] for name in self.readers]
        return torch.stack(labels, dim=1).round().long()

    def figures(self, values: Mapping[str, Tensor], again: Again) -> dict[str, Figure]:
        """The first counterfactuals in which the classifier, or half of the judges, do not see the label asked for."""
        right = values[self.score]
        rows = ((right if right.ndim == 1 else right.mean(dim=1)) <= 0.5).nonzero()[:SHOWN, 0]
        if not len(rows):
            return {}
        batch = again(rows)
        with torch.inference_mode():
            x_c = batch.x_c(do_name(self.label))
            read = self.read(x_c).cpu()
        own, asked = (columns[self.label][rows].cpu() for columns in (self.subject.columns, self.asked))
        seen = torch.stack([most_seen(labels, label) for labels, label in zip(read, asked, strict=True)])
        figure = misclassified_labels(batch.x, x_c, self.words(own), self.words(asked), self.words(seen))
        return {"misclassified_labels": figure}

    def words(self, positions: Tensor) -> list[int | str]:
        label = self.schema[self.label]
        assert isinstance(label, Categorical)
        return [label.values[int(position)] for position in positions.tolist()]


def most_seen(labels: Tensor, asked: Tensor) -> Tensor:
    """What most judges see in place of the label asked for.

    >>> most_seen(torch.tensor([3, 2, 8, 8]), torch.tensor(2))
    tensor(8)
    """
    others = labels[labels != asked]
    return (others if len(others) else labels).mode().values


def of_labels(judges: Judges) -> Classifier | None:
    """The classifier, if it is one of more than yes and no."""
    return judges.classifier if judges.classifier is not None and judges.classifier.classes > 2 else None


def label_readers(schema: Schema, judges: Judges) -> tuple[str, tuple[str, ...]]:
    """A model's one categorical attribute, and the judges that read it; none where there is no such attribute."""
    names = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Categorical)]
    if len(names) != 1:
        return "", ()
    known = judges.predictors.items()
    return names[0], tuple(name for name, judge in known if names[0] in known_names(schema, judge.schema))


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
