"""`AuditOptions`: what an audit measures, on which images and how; light to import.

What a classifier takes and returns is not part of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from cfgen.command_line import PositiveInt, Seed, parse_assignments, whole_number
from cfgen.errors import UserError, require_different
from cfgen.interventions import parse_intervention
from cfgen.options import option, require_at_least

if TYPE_CHECKING:
    from cfgen.contracts import ReadsAttributes

__all__ = ["AuditOptions", "names", "whole_numbers"]

Split = Literal["test", "val"]
Assignments = Sequence[Mapping[str, Any] | str]
EXPLAIN_COUNT = 1000


def names(text: str) -> list[str]:
    """Names joined by commas.

    >>> names("Young, Bangs")
    ['Young', 'Bangs']
    """
    return [name.strip() for name in text.split(",")]


def all_or_names(text: str) -> str | list[str]:
    """The word all, or names joined by commas; the word none stands for no names."""
    return text if text == "all" else [] if text == "none" else names(text)


def whole_numbers(texts: Sequence[str], argument: str) -> list[int]:
    """Numbers of images or classes, from 0.

    >>> whole_numbers(["0", "7"], "local")
    [0, 7]
    """
    numbers = []
    for text in texts:
        if (number := whole_number(text)) is None:
            raise UserError(f"expected a whole number of 0 or more, not {text!r}", argument)
        numbers.append(number)
    return numbers


def number_or_file(text: str) -> int | str:
    return text if (number := whole_number(text)) is None else number


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What an audit measures, on which images and how.

    >>> options = AuditOptions(do=["Young=0", {"Black_Hair": 1}], explain=["Bangs"], count=100)
    >>> options.to_dict()["do"]
    ['Young=0', {'Black_Hair': 1}]

    Args:
        do: an intervention in the units of the attribute, such as size=20 or colour=red; commas join simultaneous changes, and
            the option can be repeated. Images that already have the values are not counted. size=+2 (or +-2) and size=-0.5sd
            shift the value of each image, the second in standard deviations of the training images. size=10:20 compares all
            images at 20 with all images at 10.
        curves: a continuous attribute that is set to several values; the bias is drawn as a curve. Values are joined by commas,
            such as thickness=1,2,3 (default: 7 values over its range); the option can be repeated, and replaces an intervention.
        hold: an attribute that keeps its value although an intervention would change it, which measures a direct effect; the
            option can be repeated (default: everything that follows by the causal graph changes too, the total effect).
        focus: if there are more than two classes, the class to report; the option can be repeated (default: all).
        split: the split of the model's data that is audited.
        count: audit the first N images (default: all).
        among: measure the bias also among the images with these values; the option can be repeated (default: among all images
            only).
        subgroups: measure the bias also in the subgroups of these attributes, all or names joined by commas; the confidence
            intervals are corrected for multiple comparisons (default: no subgroups).
        adjust: a column of the data, unknown to the model, to adjust for as well. No intervention may cause it. This removes the
            bias of a hidden common cause; the option can be repeated (default: the attributes of the model only).
        pairs: correct the estimate with true counterfactuals, either of N images, if the data knows or can make them, or from a
            table of before and after pictures with the columns before, after, do and the attributes (default: correct it with
            real images only).
        keep_residual: add what the reconstruction lost to every counterfactual. The base image is then the image itself, which is
            more accurate if the model blurs (default: compare with reconstructions).
        predictor: what reads how strongly attributes are drawn, the run of a Predictor, none, or train. train uses the
            calibration of the model if there is one (cfgen calibrate), and otherwise trains a predictor, which takes one or two
            minutes, and keeps it beside the model.
        seed: seed of the noise, of the confidence intervals and of the choice of example images.
        explain: the attributes to rank by importance, all, none, or names joined by commas (default: all).
        explain_count: rank them on N images, chosen by their ids; each attribute costs one more counterfactual per image.
        local: explain single images, given by their numbers from 0, joined by commas (default: none).
        batch_size: number of images in a batch; larger batches need more memory, and the numbers stay the same.
    """

    do: Assignments = option((), group="questions", metavar="ATTRIBUTE=VALUE[,...]", repeat=True, web=True)
    curves: Sequence[str] = option((), group="questions", name="curve", metavar="ATTRIBUTE[=VALUES]", repeat=True)
    hold: Sequence[str] = option((), group="questions", metavar="ATTRIBUTE", repeat=True)
    focus: Sequence[str] = option((), group="questions", name="class", metavar="NAME", repeat=True, web=True)
    split: Split = option("test", group="images")
    count: int | None = option(None, group="images", metavar="N", type=PositiveInt, web=True)
    among: Assignments = option((), group="images", metavar="ATTRIBUTE=VALUE[,...]", repeat=True, web=True)
    subgroups: str | Sequence[str] = option((), group="images", metavar="ATTRIBUTES", read=all_or_names, web=True)
    adjust: Sequence[str] = option((), group="estimates", metavar="COLUMN", repeat=True)
    pairs: int | str | Path | None = option(None, group="estimates", metavar="N|FILE.csv", read=number_or_file)
    keep_residual: bool = option(False, group="estimates", web=True)
    predictor: str | Path | ReadsAttributes | None = option("train", group="estimates", metavar="RUN", type=str)
    seed: int = option(0, group="estimates", metavar="N", type=Seed)
    explain: str | Sequence[str] = option("all", group="importance", metavar="ATTRIBUTES", read=all_or_names)
    explain_count: int = option(EXPLAIN_COUNT, group="importance", metavar="N", type=PositiveInt)
    local: Sequence[int] = option(
        (), group="importance", metavar="N[,...]", read=lambda text: whole_numbers(names(text), "local")
    )
    batch_size: int = option(100, group="computing", metavar="N", type=PositiveInt)

    def __post_init__(self) -> None:
        for name in ("do", "curves", "hold", "focus", "among", "adjust", "subgroups", "explain"):
            object.__setattr__(self, name, as_several(getattr(self, name)))
        if not (self.do or self.curves):
            raise UserError("it is missing; give an intervention, such as Young=0", argument="do")
        for argument, given in (("do", self.do), ("among", self.among)):
            for assignment in given:
                check_assignment(assignment, argument)
        for argument, several in (
            ("curve", self.curves), ("hold", self.hold), ("class", self.focus), ("adjust", self.adjust), ("local", self.local),
            ("subgroups", self.subgroups), ("explain", self.explain),
        ):  # fmt: skip
            require_different(several if several != "all" else (), argument)
        if self.split not in get_args(Split):
            raise UserError(f"expected test or val, not {self.split!r}", argument="split")
        require_at_least(self, count=1, batch_size=1, explain_count=1, seed=0)
        if not self.explain and self.explain_count != EXPLAIN_COUNT:
            raise UserError("nothing is ranked (explain is none); leave it out", argument="explain_count")
        if not self.explain and self.local:
            raise UserError("explaining an image needs attributes to explain it by", argument="explain")

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON values, for provenance; objects are replaced by the names of their classes."""
        return {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def as_several(value: Any) -> Any:
    """A single name or intervention as a tuple of one; `all` stays a word, and `none` is an empty tuple.

    >>> as_several("Young=0"), as_several(["Bangs", "Young"]), as_several("all"), as_several("none")
    (('Young=0',), ('Bangs', 'Young'), 'all', ())
    """
    if isinstance(value, str):
        return {"all": "all", "none": ()}.get(value, (value,))
    return (value,) if isinstance(value, Mapping) else tuple(value)


def check_assignment(assignment: Any, argument: str) -> None:
    """Refuses text that is not an intervention or a cohort, before anything heavy is imported."""
    if not (isinstance(assignment, str) or (isinstance(assignment, Mapping) and assignment)):
        raise UserError(f"expected text like Young=0, or {{'Young': 0}}, not {assignment!r}", argument=argument)
    if argument == "do":
        parse_intervention(assignment)
    elif isinstance(assignment, str):
        parse_assignments(assignment, argument)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case _:
            return type(value).__name__
