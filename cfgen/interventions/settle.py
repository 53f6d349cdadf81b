"""Shifts and contrasts as values of images: what each image is asked to have, in the attribute's own units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Attribute, Binary, Categorical, Columns, Continuous, Schema
from cfgen.errors import UserError
from cfgen.interventions.parse import Contrast, Shift

__all__ = ["Settled", "check_intervention", "deviation_in", "settle", "settle_all"]

Deviation = Callable[[str], float]


class Settled(NamedTuple):
    """An intervention in values: `do` has one for all images, or under a shift one for each, (N,).

    `start` are the values that a contrast starts from.  Under a shift by `amount`, `left_out` images would leave the range of
    the training images: they keep their own value.
    """

    do: dict[str, Any]
    start: dict[str, Any] | None = None
    amount: float | None = None
    left_out: int = 0


def check_intervention(schema: Schema, do: Mapping[str, Any], argument: str = "do") -> None:
    """Refuses unknown names, values out of range, and shifts and contrasts of what is not continuous."""
    try:
        for name, value in do.items():
            attribute = schema[name]
            if not isinstance(value, Shift | Contrast):
                schema.check_do({name: value})
            elif not isinstance(attribute, Continuous):
                raise ValueError(f"{name}={value}: {name} is {kind_of(attribute)}; set it to {values_of(attribute)}")
            elif isinstance(value, Contrast):
                for end in (value.start, value.end):
                    schema.check_do({name: end})
    except ValueError as error:
        raise UserError(str(error), argument) from error


def kind_of(attribute: Attribute) -> str:
    return type(attribute).__name__.lower()


def values_of(attribute: Attribute) -> str:
    if isinstance(attribute, Binary):
        return "0 or 1"
    assert isinstance(attribute, Categorical)
    return ", ".join(map(str, attribute.values[:-1])) + f" or {attribute.values[-1]}"


def settle(schema: Schema, do: Mapping[str, Any], columns: Columns, deviation: Deviation) -> Settled:
    """An intervention, checked before, on images with these attributes; `deviation` is that of an attribute in training.

    >>> schema = Schema({"size": Continuous(0, 10)})
    >>> settle(schema, {"size": Shift(2)}, {"size": torch.tensor([1.0, 9.0])}, lambda name: 1.0)
    Settled(do={'size': tensor([3., 9.])}, start=None, amount=2.0, left_out=1)
    """
    for name, value in do.items():
        if isinstance(value, Contrast):
            return Settled({name: value.end}, {name: value.start})
        if isinstance(value, Shift):
            amount = value.amount * (deviation(name) if value.sd else 1.0)
            own = columns[name].to(schema.low.dtype)
            wanted, (low, high) = own + amount, schema.bounds(name)
            inside = (wanted >= low) & (wanted <= high)
            return Settled({name: torch.where(inside, wanted, own)}, None, amount, int((~inside).sum()))
    return Settled(dict(do))


def settle_all(schema: Schema, do: Mapping[str, Any], columns: Columns, deviation: Deviation) -> dict[str, Any]:
    """The values of an intervention for images all of which are drawn: refuses a contrast, and a shift that leaves the range."""
    for name, value in do.items():
        if isinstance(value, Contrast):
            raise UserError(
                f"{name}={value} compares two values, which an audit does; draw {name}={value.start:g} and "
                f"{name}={value.end:g}",
                argument="do",
            )
    found = settle(schema, do, columns, deviation)
    if found.left_out:
        ((name, value),) = do.items()
        low, high = schema.bounds(name)
        raise UserError(
            f"{name}={value} takes {found.left_out} of {len(columns[name])} images out of the range of the training images, "
            f"{low:.4g} to {high:.4g}; shift by less, or choose other images",
            argument="do",
        )
    return found.do


def deviation_in(columns: Columns) -> Deviation:
    """The standard deviation of an attribute over these images."""

    def deviation(name: str) -> float:
        column: Tensor = columns[name].double()
        return float(column.std(correction=0))

    return deviation
