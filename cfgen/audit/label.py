"""What a classifier's yes means, and where the data itself says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Continuous
from cfgen.contracts import ImageData
from cfgen.errors import UserError
from cfgen.runs.data import run_data
from cfgen.io.files import exists

__all__ = ["ANY", "Question", "class_labels", "question", "trained_target"]

ANY = "yes"  # the label where nothing says what yes means


class Question(NamedTuple):
    """What yes means in words, and which images the data itself says it of, (N,); None where the data does not say."""

    label: str
    answers: Tensor | None


def question(
    data: ImageData,
    split: str,
    classifier: str | Path | None,
    label: str | None,
    positive: int | None,
    trusted: bool = False,
) -> Question:
    """`label` says what yes means; without it a run of cfgen answers its target.  Of others nothing is known.

    The data's answers are its target or its attribute of that name.  A run's classes are numbered as its target is; how
    somebody else's are numbered is theirs to know, so there yes is that the attribute is present, whichever class says so.
    """
    trained = trained_target(classifier, trusted)
    own = trained is not None and label in (None, trained)
    name = trained if own else label
    if name is None:
        return Question(ANY if positive is None else f"class {positive}", None)
    values = known_values(data, split, name)
    binary = values is None or bool(((values == 0) | (values == 1)).all())
    yes = 1 if positive is None or (binary and not own) else positive
    if own:
        name = {0: f"not {name}", 1: name}.get(yes, f"class {yes}") if binary else f"class {yes}"
    answers = None if values is None else values == yes
    # a class that no image has is not one of the data's
    return Question(name, answers if answers is not None and answers.any() else None)


def class_labels(data: ImageData, split: str, classes: Sequence[str], label: str | None) -> Tensor | None:
    """The numbers among `classes` of the data's own: of its target or of the attribute that `label` names, by the names of the
    values; None where these are others."""
    target = getattr(data, "target_kind", None)
    sources: dict[str, tuple[Sequence[str], Tensor]] = {}
    if target is not None and target.kind == "categorical" and label in (None, target.name):
        sources[target.name] = (target.values, data.targets(split))
    elif label is not None and isinstance(attribute := data.schema.attributes.get(label), Categorical):
        sources[label] = ([str(value) for value in attribute.values], data.columns(split)[label])
    if label is not None and not sources:
        raise UserError(f"the data has no target or categorical attribute {label}", argument="label")
    for names, column in sources.values():
        if set(names) == set(classes):
            return torch.tensor([classes.index(name) for name in names])[column.long()]
    return None


def trained_target(classifier: str | Path | None, trusted: bool = False) -> str | None:
    """What a run of cfgen was trained to answer, as the config beside it says; None of anything else."""
    if classifier is None:
        return None
    path = Path(classifier)
    if not exists(path) or not (path.is_dir() or path.suffix == ".ckpt"):
        return None
    try:
        return target_name(run_data(classifier, trusted))
    except UserError:  # a checkpoint alone, or one of data that is not to be had here
        return None


def target_name(data: object) -> str:
    return str(getattr(data, "target", None) or f"the target of {type(data).__name__}")


def known_values(data: ImageData, split: str, name: str) -> Tensor | None:
    """The data's target or attribute of that name, as classes."""
    if name == target_name(data):
        return data.targets(split)
    column = data.columns(split).get(name)
    return None if column is None or isinstance(data.schema[name], Continuous) else column
