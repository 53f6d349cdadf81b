"""Test images a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cfgen.attributes import Columns, Schema
from cfgen.counterfactual import as_unit_float

__all__ = ["BATCH", "batches"]

BATCH = 250


def batches(schema: Schema, x: Tensor, columns: Columns) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Row numbers, images in [0, 1] and attribute vectors."""
    a = schema.encode(columns)
    for rows in torch.arange(len(x)).split(BATCH):
        yield rows, as_unit_float(x[rows]), a[rows]
