"""Who is asked: one or more classifiers, and of each one or more classes, as p(yes | image), or what a network predicts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.attributes import TargetKind
from cfgen.audit.classifiers.load import load_network
from cfgen.audit.label import ANY, class_labels, question
from cfgen.contracts import ImageData
from cfgen.errors import UserError, unknown_name
from cfgen.external.answers import EveryClass, Regressor
from cfgen.external.classifier import ExternalClassifier
from lightning_modules import Classifier

__all__ = ["Classifiers", "Respondent", "as_list", "check_on", "class_notes", "respondents", "with_labels"]

Classifiers = str | Path | nn.Module | Sequence[str | Path | nn.Module]


@dataclass(frozen=True)
class Respondent:
    """A classifier and the class that counts as yes; `labels` are the data's own answers, None where it has none.

    Of a classifier that is asked about every class, `of_class` is the one, and `class_labels` are the numbers of the data's own.
    """

    name: str
    given: str | Path | None
    classifier: ExternalClassifier
    label: str = ANY
    labels: Tensor | None = None
    network: str = ""
    of_class: str = ""
    class_labels: Tensor | None = None


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
    classes: Sequence[str] = (),
    focus: Sequence[str] = (),
    target: TargetKind | None = None,
    image_shape: Sequence[int] = (),
    **settings: Any,
) -> list[Respondent]:
    """Each classifier with each class; a name says which it is among several.  What yes means is not known yet.

    Without a positive class, a classifier of more than two `classes` (these are their names) is asked about each of them, or
    those in `focus`.  `target` is the data's own, of images of `image_shape`; `settings` are those of `ExternalClassifier`.
    """
    several, numbers = as_list(classifiers), as_list(positive)
    if not several:
        raise UserError("expected at least one classifier", argument="classifier")
    if not numbers or len(set(numbers)) < len(numbers):
        raise UserError("expected one or more different classes", argument="positive")
    check_classes(classes, focus, numbers, settings["output"])
    networks = [given if isinstance(given, nn.Module) else load_network(given, trusted) for given in several]
    if all(isinstance(network, Classifier) for network in networks):
        check_own_settings(networks, settings)
    found: list[Respondent] = []
    for given, network in zip(several, networks, strict=True):
        path = None if isinstance(given, nn.Module) else given
        base = type(network).__name__ if path is None else str(path)
        check_own(network, settings["output"])
        options = own_settings(network, settings) if isinstance(network, Classifier) else settings
        if options["output"] == "value":
            name = unused(base, found)
            found.append(Respondent(name, path, Regressor(network, **options), network=name))
            continue
        names = list(classes)
        if not names and numbers == [None]:
            names = class_names(network, target, image_shape, options)
        if names:
            found += of_every_class(network, names, focus, unused(base, found), path, len(several) > 1, options)
            continue
        if focus:
            raise UserError(f"{base} has two classes, yes and no; choosing one is for more", argument="class")
        for number in numbers:
            external = ExternalClassifier(network, positive=number, **options)
            parts = [base] if len(several) > 1 or len(numbers) == 1 else []
            name = unused(", ".join([*parts, *([f"class {number}"] if len(numbers) > 1 else [])]), found)
            found.append(Respondent(name, path, external, network=name))
    return found


def unused(name: str, found: Sequence[Respondent]) -> str:
    """The name, numbered where it is taken."""
    networks = dict.fromkeys(one.network for one in found)
    same = sum(other.split(" #")[0] == name for other in networks)
    return f"{name} #{same + 1}" if same else name


def check_classes(classes: Sequence[str], focus: Sequence[str], positive: Sequence[int | None], output: str) -> None:
    """Refuses what cannot be meant together."""
    if classes and (len(classes) < 2 or len(set(classes)) < len(classes) or not all(classes)):
        raise UserError("expected two or more different names joined by commas, in the classifier's order", "classes")
    if positive != [None]:
        for argument, given in (("classes", classes), ("class", focus)):
            if given:
                raise UserError("either every class is asked about, or positive says which is yes; give one", argument)
    if output == "value":
        for argument, there in (("classes", bool(classes)), ("class", bool(focus)), ("positive", positive != [None])):
            if there:
                raise UserError("a network that predicts a value has no classes; leave it out", argument)


def check_own(network: nn.Module, output: str) -> None:
    """A run of cfgen says itself what it returns."""
    continuous = getattr(network, "continuous", None)
    if continuous is True and output != "value":
        raise UserError("this run predicts a continuous value; say so with value", argument="output")
    if continuous is False and output == "value":
        raise UserError("this run tells classes apart and predicts no value; leave it out", argument="output")


def class_names(
    network: nn.Module, target: TargetKind | None, image_shape: Sequence[int], options: dict[str, Any]
) -> list[str]:
    """The names of the classes of a network that has more than two; none of any other.

    They are those that a run of cfgen was trained with, else those of the data's target, if it has as many, else numbers.
    """
    if options["output"] not in ("logit", "probability") or not len(image_shape):
        return []
    try:
        with torch.inference_mode():
            tried = ExternalClassifier(network, **options).ask(torch.rand(2, *image_shape))
    except Exception:  # whatever it cannot take, it is refused for on the images themselves
        return []
    count = tried.shape[1] if tried.ndim == 2 else 1
    own = (getattr(network, "target", None) or {}).get("values") or ()
    for names in (own, target.values if target is not None else ()):
        if len(names) == count > 2:
            return [str(name) for name in names]
    return [f"class {number}" for number in range(count)] if count > 2 else []


def of_every_class(
    network: nn.Module,
    classes: Sequence[str],
    focus: Sequence[str],
    base: str,
    path: str | Path | None,
    several: bool,
    options: dict[str, Any],
) -> list[Respondent]:
    """A respondent for each class, or those in `focus`; they share the network, which is asked once."""
    for name in focus:
        if name not in classes:
            raise UserError(unknown_name("class", name, classes), argument="class")
    tables = [f"{base}, {name}" if several else name for name in classes]
    external = EveryClass(network, classes, tables, **options)
    return [
        Respondent(table, path, external, label=name, network=base, of_class=name)
        for table, name in zip(tables, classes, strict=True)
        if name in (focus or classes)
    ]


def own_settings(network: Classifier, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of these settings, what applies to a classifier of cfgen's: it takes pixels in 0..1 and returns logits, or values, and
    images can be brought to the size that it was trained on."""
    size = settings["resize"]
    fitting = {"output": "value" if settings["output"] == "value" else "logit"}  # `check_own` has refused the wrong one
    return fitting | ({"resize": size} if size is not None and tuple(size) == network.image_shape[1:] else {})


def check_own_settings(networks: Sequence[Any], settings: Mapping[str, Any]) -> None:
    """Refuses settings that apply to none of these classifiers, which are all cfgen's."""
    defaults = inspect.signature(ExternalClassifier).parameters
    for name, value in settings.items():
        plain = tuple(value) if isinstance(value, list | tuple) else value
        if plain != defaults[name].default and not any(
            own_settings(network, settings).get(name) == value for network in networks
        ):
            height, width = networks[0].image_shape[1:]
            known = f"images of {height}x{width} pixels in 0..1, nchw, and returns logits or values"
            raise UserError(f"a classifier of cfgen takes {known}, as it was trained. Leave it out", argument=name)


def with_labels(
    asked: Sequence[Respondent], data: ImageData, split: str, count: int, label: str | None, trusted: bool
) -> list[Respondent]:
    """The same, with what yes means and the data's own answers for the first `count` images."""
    found = []
    for one in asked:
        if isinstance(one.classifier, EveryClass):
            known = class_labels(data, split, one.classifier.classes, label)
            if known is not None:
                mine = known[:count] == one.classifier.classes.index(one.of_class)
                one = replace(one, labels=mine, class_labels=known[:count])
            found.append(one)
            continue
        if isinstance(one.classifier, Regressor):
            found.append(replace(one, label=label or ANY))
            continue
        meaning, labels = question(data, split, one.given, label, one.classifier.positive, trusted)
        found.append(replace(one, label=meaning, labels=None if labels is None else labels[:count]))
    return found


def check_on(images: Tensor, asked: Sequence[Respondent], device: torch.device) -> None:
    """Refuses a classifier whose answers for these images are none."""
    for classifier in {id(one.classifier): one.classifier for one in asked}.values():
        classifier.to(device).check(images.to(device))


def class_notes(answering: Sequence[Respondent], classes: Sequence[str], target: TargetKind | None) -> list[str]:
    """Says where the names of classes come from the data's target and the classifier is not one of cfgen's."""
    names = () if target is None or classes else target.values
    return [
        f"the classes of {one.network} are numbered as the values of the data's target {target.name} are: {', '.join(names)}"
        for one in {one.network: one for one in answering}.values()
        if isinstance(one.classifier, EveryClass)
        and target is not None
        and one.classifier.classes == tuple(names)
        and not getattr(one.classifier.network, "target", None)
    ]
