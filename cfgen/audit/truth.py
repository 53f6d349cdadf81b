"""The true counterfactual images of data that knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from cfgen.attributes import Schema
from cfgen.contracts import KnowsTruth

__all__ = ["true_images"]


def true_images(data: KnowsTruth, schema: Schema, split: str, rows: Tensor, do: Mapping[str, Any]) -> Tensor:
    """What these rows would truly have looked like under `do`, its effects included: bytes, (N, C, H, W)."""
    attributes = data.true_attributes(split, rows, do)
    a_c = schema.encode({name: attributes[name].to(schema.low.device) for name in schema.names})
    return data.true_counterfactual(split, rows, a_c.cpu())
