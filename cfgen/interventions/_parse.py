"""`size=20`, `colour=red`, `size=+2`, `size=-0.5sd`, `size=10:20`: one grammar for every command."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from cfgen.command_line import number_or_name, parse_assignments
from cfgen.errors import UserError
from cfgen.interventions._base import Intervention
from cfgen.interventions._set import Set
from cfgen.interventions._shift import Contrast, Shift

__all__ = ["parse_intervention"]

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


def parse_intervention(
    do: str | Mapping[str, Any], argument: str | None = "do", name: str | None = None
) -> Intervention:
    """An intervention from text, `ATTRIBUTE=VALUE` joined by commas, or from a mapping, whose values may be text.

    `name` is what it is called, by default the text.

    >>> parse_intervention("size=+1sd")
    Shift(name='size=+1sd', attribute='size', amount=1.0, sd=True)
    >>> parse_intervention({"size": 3, "colour": "red"}).name
    'size=3,colour=red'
    >>> parse_intervention("size=10:20").describe()
    'size at 20 rather than at 10'
    """
    values = parse_assignments(do, argument, as_text=True) if isinstance(do, str) else dict(do)
    name = name or (do if isinstance(do, str) else ",".join(f"{key}={value}" for key, value in do.items()))
    try:
        parsed = {key: _value(key, value, name) if isinstance(value, str) else value for key, value in values.items()}
    except UserError as error:
        raise UserError(str(error), argument) from error
    for key, value in parsed.items():
        if not isinstance(value, Shift | Contrast):
            continue
        if len(parsed) > 1:
            others = " and ".join(other for other in parsed if other != key)
            raise UserError(
                f"{key}={values[key]} must be an intervention of its own; put {others} into another", argument
            )
        numbers = value.numbers
        if not all(map(math.isfinite, numbers)) or numbers == (0.0,) or len(set(numbers)) < len(numbers):
            raise UserError(f"{key}={values[key]} changes nothing", argument)
        return value
    return Set(name, parsed)


def _value(attribute: str, text: str, name: str) -> int | float | str | Shift | Contrast:
    """What is typed after `ATTRIBUTE=`.  A number with a minus alone is a value: attributes can have negative values."""
    if match := re.fullmatch(rf"([+-]{NUMBER})\s*sd", text):
        return Shift(name, attribute, float(match[1]), sd=True)
    if match := re.fullmatch(rf"\+(-?{NUMBER})", text):
        return Shift(name, attribute, float(match[1]))
    if match := re.fullmatch(rf"([+-]?{NUMBER}):([+-]?{NUMBER})", text):
        return Contrast(name, attribute, float(match[1]), float(match[2]))
    if re.fullmatch(rf"{NUMBER}\s*sd", text):
        raise UserError(f"a shift begins with its sign: +{text} or -{text}", argument="do")
    return number_or_name(text)
