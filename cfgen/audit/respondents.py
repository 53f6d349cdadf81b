"""Who is asked: one or more classifiers, and of each one or more classes, as p(yes | image)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.audit.classifiers.external import ExternalClassifier
from cfgen.audit.classifiers.load import load_network
from cfgen.audit.label import ANY, question
from cfgen.contracts import ImageData
from cfgen.errors import UserError

__all__ = ["Classifiers", "Respondent", "as_list", "check_on", "respondents", "with_labels"]

Classifiers = str | Path | nn.Module | Sequence[str | Path | nn.Module]


@dataclass(frozen=True)
class Respondent:
    """A classifier and the class that counts as yes; `labels` are the data's own answers, None where it has none."""

    name: str
    given: str | Path | None
    classifier: ExternalClassifier
    label: str = ANY
    labels: Tensor | None = None


def as_list(value: Any) -> list[Any]:
    """One or several, as a list.

    >>> as_list("a"), as_list(["a", "b"]), as_list(None)
    (['a'], ['a', 'b'], [None])
    """
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def respondents(
    classifiers: Classifiers,
    positive: int | Sequence[int] | None,
    *,
    trusted: bool,
    resize: tuple[int, int] | None,
    mean: Sequence[float],
    std: Sequence[float],
    layout: str,
    output: str,
) -> list[Respondent]:
    """Each classifier with each class; a name says which it is among several.  What yes means is not known yet."""
    several, classes = as_list(classifiers), as_list(positive)
    if not several:
        raise UserError("expected at least one classifier", argument="classifier")
    if not classes or len(set(classes)) < len(classes):
        raise UserError("expected one or more different classes", argument="positive")
    found: list[Respondent] = []
    for given in several:
        network = given if isinstance(given, nn.Module) else load_network(given, trusted)
        path = None if isinstance(given, nn.Module) else given
        for number in classes:
            external = ExternalClassifier(network, resize, mean, std, layout, output, number)
            base = type(network).__name__ if path is None else str(path)
            parts = [base] if len(several) > 1 or len(classes) == 1 else []
            name = ", ".join([*parts, *([f"class {number}"] if len(classes) > 1 else [])])
            same = sum(one.name.split(" #")[0] == name for one in found)
            found.append(Respondent(f"{name} #{same + 1}" if same else name, path, external))
    return found


def with_labels(
    asked: Sequence[Respondent], data: ImageData, split: str, count: int, label: str | None, trusted: bool
) -> list[Respondent]:
    """The same, with what yes means and the data's own answers for the first `count` images."""
    found = []
    for one in asked:
        meaning, labels = question(data, split, one.given, label, one.classifier.positive, trusted)
        found.append(replace(one, label=meaning, labels=None if labels is None else labels[:count]))
    return found


def check_on(images: Tensor, asked: Sequence[Respondent], device: torch.device) -> None:
    """Refuses a classifier whose answers for these images are none."""
    for one in asked:
        one.classifier.to(device).check(images.to(device))
