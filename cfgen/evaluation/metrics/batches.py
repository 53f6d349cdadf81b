"""Test images a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cfgen.attributes import Columns, Schema
from cfgen.counterfactual import as_unit_float

__all__ = ["BATCH", "batches", "levels_apart"]

BATCH = 250


def batches(schema: Schema, x: Tensor, columns: Columns) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Row numbers, images in [0, 1] and attribute vectors, the latter two on the schema's device."""
    device = schema.low.device
    a = schema.encode({name: column.to(device) for name, column in columns.items()})
    for rows in torch.arange(len(x)).split(BATCH):
        yield rows, as_unit_float(x[rows].to(device)), a[rows]


def levels_apart(one: Tensor, other: Tensor) -> Tensor:
    """The mean |one - other| of each image's pixels, in levels of 0..255: (N,)."""
    return 255 * (one - other).abs().flatten(1).mean(dim=1)
