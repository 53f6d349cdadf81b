"""What the ranking of attributes (Eq. 6) asks: for each line an attribute, or a value of it, that is put in or taken away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Continuous, Schema

__all__ = ["Line", "ranking_lines"]


@dataclass(frozen=True)
class Line:
    """A line of the ranking: which value each image is asked to have, (N,), and whether that is more of the attribute.

    The score of an image is the classifier's output with more of the attribute, less its output with less of it: for a binary
    attribute with and without it (Eq. 6), for a continuous one with a standard deviation more, for a value of a categorical one
    with that value in place of the image's own.
    """

    name: str
    attribute: str
    wanted: Tensor
    more: Tensor
    of: Tensor
    meaning: str


def ranking_lines(schema: Schema, columns: Mapping[str, Tensor], names: Sequence[str], count: int) -> Iterator[Line]:
    """The lines of these attributes, asked of the first `count` images.

    >>> schema = Schema({"Bangs": Binary(), "label": Categorical(("a", "b"))})
    >>> columns = {"Bangs": torch.tensor([0.0, 1.0]), "label": torch.tensor([0.0, 0.0])}
    >>> [(line.name, line.of.tolist()) for line in ranking_lines(schema, columns, ["Bangs", "label"], 2)]
    [('Bangs', [True, True]), ('label=a', [False, False]), ('label=b', [True, True])]
    """
    for name in names:
        own, attribute = columns[name], schema[name]
        among = torch.arange(len(own)) < count
        match attribute:
            case Binary():
                yield Line(name, name, 1 - own, own == 0, among, "present")
            case Categorical(values):
                for position, value in enumerate(values):
                    wanted = torch.full_like(own, position)
                    yield Line(f"{name}={value}", name, wanted, torch.ones_like(own, dtype=torch.bool),
                               among & (own != position), "in place of its own value")  # fmt: skip
            case Continuous():
                step = own[:count].std(correction=0)
                low, high = schema.bounds(name)
                more = own + step <= high
                wanted = torch.where(more, own + step, own - step).clamp(low, high)
                yield Line(
                    name, name, wanted, more, among & (wanted != own), f"one standard deviation ({step:.3g}) more"
                )
