"""What a classifier's yes means, and the data's own answers, from which its accuracy is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Continuous
from cfgen.classifiers import LoadedClassifier
from cfgen.contracts import ImageData
from cfgen.effects.outcome import OneOfClasses, Value
from cfgen.errors import UserError
from cfgen.runs.targets import ANY, target_name, trained_target


class Labels(NamedTuple):
    """What yes means, and the data's own answers, (N,): bool for yes or no, the number of the class for several classes.

    `meaning` is empty for several classes, whose names say it.  `answers` is None if the data does not have them.
    """

    meaning: str
    answers: Tensor | None


def labels_of(classifier: LoadedClassifier, data: ImageData, split: str, count: int) -> Labels:
    """The labels of the first `count` images."""
    match classifier.outcome:
        case Value():
            return Labels(classifier.label or ANY, None)
        case OneOfClasses(classes):
            labels = Labels("", class_labels(data, split, classes, classifier.label))
        case _:
            labels = yes_labels(classifier, data, split)
    return labels if labels.answers is None else labels._replace(answers=labels.answers[:count])


def yes_labels(classifier: LoadedClassifier, data: ImageData, split: str) -> Labels:
    """The user's label says what yes means; without it, a run of cfgen answers its target.  Nothing is known of others.

    The data's answers are its target or its attribute of that name.  A run numbers its classes as its target does.  Other
    classifiers may number them otherwise, so there yes means that the attribute is present, whichever class says so.
    """
    label, positive = classifier.label, classifier.positive
    trained = trained_target(classifier.source, classifier.trusted)
    own = trained is not None and label in (None, trained)
    name = trained if own else label
    if name is None:
        return Labels(ANY if positive is None else f"class {positive}", None)
    values = known_values(data, split, name)
    binary = values is None or bool(((values == 0) | (values == 1)).all())
    yes = 1 if positive is None or (binary and not own) else positive
    if own:
        name = {0: f"not {name}", 1: name}.get(yes, f"class {yes}") if binary else f"class {yes}"
    answers = None if values is None else values == yes
    # a class that no image has is not one of the data's
    return Labels(name, answers if answers is not None and answers.any() else None)


def class_labels(data: ImageData, split: str, classes: Sequence[str], label: str | None) -> Tensor | None:
    """For each image, the position in `classes` of its value of the target, or of the attribute that `label` names.

    None if the names of the values are not those of the classes.
    """
    target = getattr(data, "target_kind", None)
    if target is not None and target.kind == "categorical" and label in (None, target.name):
        names, column = list(target.values), data.targets(split)
    elif label is not None and isinstance(attribute := data.schema.attributes.get(label), Categorical):
        names, column = [str(value) for value in attribute.values], data.columns(split)[label]
    elif label is not None:
        raise UserError(f"the data has no target or categorical attribute {label}", argument="label")
    else:
        return None
    return torch.tensor([classes.index(name) for name in names])[column.long()] if set(names) == set(classes) else None


def known_values(data: ImageData, split: str, name: str) -> Tensor | None:
    """The data's target or attribute of that name, as classes."""
    if name == target_name(data):
        return data.targets(split)
    column = data.columns(split).get(name)
    return None if column is None or isinstance(data.schema[name], Continuous) else column
