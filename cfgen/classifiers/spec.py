"""`ExternalClassifier`: what a network is, which images it takes and what it returns.

Light to import, so that a command can offer these options before torch is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.classifiers._kinds import KINDS, LAYOUTS, OUTPUTS, Layout, Output
from cfgen.command_line import OpenUnitInterval, parse_names, parse_numbers, whole_number
from cfgen.errors import UserError, unknown_name
from cfgen.options import option

if TYPE_CHECKING:
    from torch import nn

    from cfgen.attributes import TargetKind
    from cfgen.classifiers._loaded import LoadedClassifier

__all__ = ["KINDS", "ExternalClassifier", "Layout", "Output", "load_classifiers"]

INPUTS = ("resize", "mean", "std", "layout", "output")


def parse_size(text: str) -> tuple[int, int]:
    """Height and width.

    >>> parse_size("224"), parse_size("218x178")
    ((224, 224), (218, 178))
    """
    height, cross, width = text.partition("x")
    pixels = whole_number(height), whole_number(width if cross else height)
    if not (pixels[0] and pixels[1]):
        raise UserError(f"expected a number of pixels such as 224 or 218x178, not {text!r}", argument="resize")
    return pixels[0], pixels[1]


def parse_class(text: str) -> int:
    """The number of a class."""
    if (number := whole_number(text)) is None:
        raise UserError(f"expected a whole number of 0 or more, not {text!r}", argument="positive")
    return number


GROUP = "classifier"


@dataclass(frozen=True)
class ExternalClassifier:
    """A classifier of the user: its network, the images that it takes and the output that it returns.

    The options about input and output do not apply to a run of cfgen, which knows them.

    >>> from torch import nn
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> (loaded,) = ExternalClassifier(network, classes=("cat", "dog", "hen")).load((1, 2, 2))
    >>> loaded.name, loaded.outcome
    ('Sequential', OneOfClasses(classes=('cat', 'dog', 'hen')))

    Args:
        network: an nn.Module, or what `load_network` takes: a run, a file or MODULE:FUNCTION.
        resize: height and width in pixels that the classifier takes (default: those of the model's images).
        mean: subtracted from pixels in 0..1; one number for each channel, or one for all (default: 0).
        std: pixels are divided by it after that; 0.003921569 gives pixels in 0..255 (default: 1).
        layout: order of the dimensions of a batch of images; nhwc has channels last.
        output: what the classifier returns. logit: of yes, or one for each of several classes of which one is true;
            multilabel: a logit for each of several labels of which any may be true; probability: of yes, or one for each class
            or label; class: the number of the class; value: a predicted number, whose mean change is measured.
        classes: the names of the classifier's classes, in its order. Each of them is audited; the answer is the most probable
            class (default: for more than two classes, the values of the data's target if there are as many, else numbers).
        positive: the number of the class that counts as yes, or of the label for multilabel, from 0. Can be repeated: each
            class is audited on its own (default: class 1 of two, the only label, every class of more than two).
        threshold: the answer is yes above this probability, between 0 and 1.
        label: what yes means. If the data has a target or an attribute of that name, the classifier's accuracy is measured
            (default: what a cfgen run was trained to answer).
        trusted: read a .pt2 file and import classes of your own that a classifier's run names. Both run code, so use it only
            for files whose source you trust (default: refuse such files).
    """

    network: Any  # str | Path | nn.Module; its type would need torch
    _: dataclasses.KW_ONLY
    resize: tuple[int, int] | None = option(None, group=GROUP, metavar="H[xW]", read=parse_size)
    mean: Sequence[float] = option((0.0,), group=GROUP, metavar="M[,...]", read=partial(parse_numbers, argument="mean"))
    std: Sequence[float] = option((1.0,), group=GROUP, metavar="S[,...]", read=partial(parse_numbers, argument="std"))
    layout: Layout = option("nchw", group=GROUP)
    output: Output = option("logit", group=GROUP)
    classes: Sequence[str] = option((), group=GROUP, metavar="NAME[,...]", read=parse_names)
    positive: int | Sequence[int] | None = option(None, group=GROUP, metavar="CLASS", read=parse_class, repeat=True)
    threshold: float = option(0.5, group=GROUP, metavar="P", type=OpenUnitInterval)
    label: str | None = option(None, group=GROUP, metavar="NAME")
    trusted: bool = option(False, group=GROUP)

    def __post_init__(self) -> None:
        # as tuples, so that a list and a tuple make the same classifier
        for name in ("resize", "mean", "std", "classes", "positive"):
            value = getattr(self, name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(value))
        for kind, name, valid in (("layout", self.layout, LAYOUTS), ("output", self.output, OUTPUTS)):
            if name not in valid:
                raise UserError(unknown_name(kind, name, valid), argument=kind)
        if not all(deviation > 0 for deviation in self.std):
            raise UserError("expected numbers above 0, one for each channel or one for all", argument="std")
        if not 0 < self.threshold < 1:
            raise UserError(f"expected a probability between 0 and 1, not {self.threshold}", argument="threshold")
        if self.output == "class" and self.threshold != 0.5:
            raise UserError("a classifier that returns classes has no probabilities; leave it out", "threshold")
        if not self.positives or len(set(self.positives)) < len(self.positives):
            raise UserError("expected one or more different classes", argument="positive")
        names = self.classes
        if names and (isinstance(names, str) or len(names) < 2 or len(set(names)) < len(names) or not all(names)):
            raise UserError("expected two or more different names, in the classifier's order", argument="classes")
        if names and self.positive is not None:
            raise UserError(
                "either every class is audited, or positive says which is yes; give one", argument="classes"
            )
        for argument, value in (("classes", names), ("positive", self.positive)):
            if self.output == "value" and value not in ((), None):
                raise UserError("a network that predicts a value has no classes; leave it out", argument)

    @property
    def name(self) -> str:
        """The path as it was typed, or the class of a module."""
        return str(self.network) if isinstance(self.network, str | Path) else type(self.network).__name__

    @property
    def positives(self) -> tuple[int | None, ...]:
        """The positive classes, one after the other; None stands for the default."""
        return tuple(self.positive) if isinstance(self.positive, Sequence) else (self.positive,)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that are not at their defaults, without the network."""
        fields = dataclasses.fields(self)[1:]
        return {one.name: value for one in fields if (value := getattr(self, one.name)) != one.default}

    @property
    def inputs(self) -> dict[str, Any]:
        """What the network takes and returns, as `YesProbability` takes it."""
        return {name: getattr(self, name) for name in INPUTS}

    def inputs_for(self, network: Any) -> dict[str, Any]:
        """The inputs that apply to a network.

        A run of cfgen takes pixels in 0..1 and returns logits or values.  Images can be resized to its own size.
        """
        from cfgen.contracts import AnswersImages

        if not isinstance(network, AnswersImages):
            return self.inputs
        if network.continuous and self.output != "value":
            raise UserError("this run predicts a continuous value; say so with value", argument="output")
        if not network.continuous and self.output == "value":
            raise UserError("this run tells classes apart and predicts no value; leave it out", argument="output")
        fitting = {"resize": self.resize} if self.resize == tuple(network.image_shape[1:]) else {}
        return {"output": "value" if network.continuous else "logit", **fitting}

    def load(self, image_shape: Sequence[int], target: TargetKind | None = None) -> list[LoadedClassifier]:
        """Loads the network; the result has one entry per positive class.

        Args:
            image_shape: (channels, height, width) of the data's images.
            target: the data's target; its values name the classes of a network that does not name them itself.
        """
        from cfgen.classifiers._answers import ClassProbabilities, PredictedValue, YesProbability
        from cfgen.classifiers._loaded import LoadedClassifier, class_names
        from cfgen.classifiers._network import load_network
        from cfgen.contracts import AnswersImages
        from cfgen.effects.outcome import OneOfClasses, Value, YesNo

        source = self.network if isinstance(self.network, str | Path) else None
        network = self.network if source is None else load_network(source, self.trusted)
        inputs = self.inputs_for(network)
        loaded = partial(
            LoadedClassifier, self.name, source,
            label=self.label, own=isinstance(network, AnswersImages), trusted=self.trusted,
        )  # fmt: skip
        if inputs["output"] == "value":
            return [loaded(PredictedValue(network, **inputs), Value())]
        classes, from_data = tuple(self.classes), False
        if not classes and self.positive is None:
            classes, from_data = class_names(network, inputs, image_shape, target)
        if classes:
            answers = ClassProbabilities(network, classes, **inputs)
            return [loaded(answers, OneOfClasses(classes), classes_from_data=from_data)]
        found = [
            loaded(YesProbability(network, number, **inputs), YesNo(self.threshold), positive=number)
            for number in self.positives
        ]
        return found if len(found) == 1 else [replace(one, name=f"{one.name}, class {one.positive}") for one in found]


def load_classifiers(
    specs: Sequence[ExternalClassifier | str | Path | nn.Module],
    image_shape: Sequence[int],
    target: TargetKind | None = None,
) -> list[LoadedClassifier]:
    """Loads classifiers under unique names.

    Raises if an option about input or output applies to none of them because all are runs of cfgen.

    >>> from torch import nn
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
    >>> [one.name for one in load_classifiers([network, network], (1, 2, 2))]
    ['Sequential', 'Sequential #2']
    """
    described = [spec if isinstance(spec, ExternalClassifier) else ExternalClassifier(spec) for spec in specs]
    if not described:
        raise UserError("expected at least one classifier", argument="classifier")
    loaded = [spec.load(image_shape, target) for spec in described]
    if all(one.own for several in loaded for one in several):
        check_own_inputs(described, [several[0].network.network for several in loaded])
    if len(loaded) == 1 < len(loaded[0]):  # one classifier: its classes are name enough
        return [replace(one, name=f"class {one.positive}") for one in loaded[0]]
    names: list[str] = []
    found = []
    for one in (one for several in loaded for one in several):
        same = names.count(one.name)
        names.append(one.name)
        found.append(replace(one, name=f"{one.name} #{same + 1}") if same else one)
    return found


def check_own_inputs(specs: Sequence[ExternalClassifier], networks: Sequence[Any]) -> None:
    """Raise if an option about input or output applies to none of these networks, which are runs of cfgen."""
    applied = [spec.inputs_for(network) for spec, network in zip(specs, networks, strict=True)]
    for spec in specs:
        for name, value in spec.settings.items():
            if name in INPUTS and not any(one.get(name) == value for one in applied):
                height, width = networks[0].image_shape[1:]
                known = f"images of {height}x{width} pixels in 0..1, nchw, and returns logits or values"
                raise UserError(f"a classifier of cfgen takes {known}, as it was trained. Leave it out", argument=name)
