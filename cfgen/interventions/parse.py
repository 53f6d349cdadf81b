"""`size=20`, `colour=red`, `size=+2`, `size=-0.5sd`, `size=10:20`: one grammar for every command; light to import."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cfgen.command_line import number_or_name, parse_assignments
from cfgen.errors import UserError

__all__ = ["Contrast", "Shift", "as_intervention", "parse_intervention", "parse_value"]

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Shift:
    """Each image's own value and `amount` more: in the attribute's units or, with `sd`, in standard deviations of its values in
    the training images.

    >>> str(Shift(-0.5, sd=True)), str(Shift(2)), str(Shift(-2))
    ('-0.5sd', '+2', '+-2')
    """

    amount: float
    sd: bool = False

    def __str__(self) -> str:
        return f"{self.amount:+g}sd" if self.sd else f"+{self.amount:g}"


@dataclass(frozen=True)
class Contrast:
    """The same images with the value `end` compared with the value `start`.

    >>> str(Contrast(10, 20))
    '10:20'
    """

    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.start:g}:{self.end:g}"


def parse_value(text: str) -> int | float | str | Shift | Contrast:
    """What is typed after `ATTRIBUTE=`; a number with a minus alone is a value, for attributes have negative values too.

    >>> parse_value("20"), parse_value("-2"), parse_value("red")
    (20, -2, 'red')
    >>> parse_value("+2"), parse_value("+-2"), parse_value("-0.5sd"), parse_value("10:20")
    (Shift(amount=2.0, sd=False), Shift(amount=-2.0, sd=False), Shift(amount=-0.5, sd=True), Contrast(start=10.0, end=20.0))
    """
    if match := re.fullmatch(rf"([+-]{NUMBER})\s*sd", text):
        return Shift(float(match[1]), sd=True)
    if match := re.fullmatch(rf"\+(-?{NUMBER})", text):
        return Shift(float(match[1]))
    if match := re.fullmatch(rf"([+-]?{NUMBER}):([+-]?{NUMBER})", text):
        return Contrast(float(match[1]), float(match[2]))
    if re.fullmatch(rf"{NUMBER}\s*sd", text):
        raise UserError(f"a shift begins with its sign: +{text} or -{text}", argument="do")
    return number_or_name(text)


def parse_intervention(text: str, argument: str | None = "do") -> dict[str, Any]:
    """An intervention as it is typed, `ATTRIBUTE=VALUE` joined by commas.

    >>> parse_intervention("size=+1sd"), parse_intervention("size=3,colour=red")
    ({'size': Shift(amount=1.0, sd=True)}, {'size': 3, 'colour': 'red'})
    """
    return as_intervention(parse_assignments(text, argument, as_text=True), argument)


def as_intervention(do: str | Mapping[str, Any], argument: str | None = "do") -> dict[str, Any]:
    """The same from text or from a mapping, whose values may be text; refuses what cannot be meant."""
    if isinstance(do, str):
        return parse_intervention(do, argument)
    try:
        values = {name: parse_value(value) if isinstance(value, str) else value for name, value in do.items()}
    except UserError as error:
        raise UserError(str(error), argument) from error
    for name, value in values.items():
        if not isinstance(value, Shift | Contrast):
            continue
        numbers = [value.amount] if isinstance(value, Shift) else [value.start, value.end]
        if not all(map(math.isfinite, numbers)) or numbers == [0.0] or len(set(numbers)) < len(numbers):
            raise UserError(f"{name}={value} changes nothing", argument)
        if len(values) > 1:
            raise UserError(f"{name}={value} is asked alone; give {others(values, name)} one of its own", argument)
    return values


def others(values: Mapping[str, Any], name: str) -> str:
    return " and ".join(other for other in values if other != name)
