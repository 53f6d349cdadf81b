"""What a predictor should read off a counterfactual, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Continuous, Schema
from cfgen.audit.plan import Plan
from cfgen.contracts import ReadsAttributes

__all__ = ["matches", "readable", "target_value"]


def readable(schema: Schema, predictor: ReadsAttributes | None, plan: Plan) -> dict[str, dict[str, float]]:
    """The values that a predictor should read under each intervention that it can judge.

    Continuous attributes count only where nothing else is set, for they are read more or less.  The predictor has to know the
    attributes as the same thing.
    """
    values: dict[str, dict[str, float]] = {}
    if predictor is None:
        return values
    for text, do in plan.do.items():
        names = [name for name in do if not isinstance(schema[name], Continuous)] or (list(do) if len(do) == 1 else [])
        if names and all(same_kind(schema, predictor.schema, name) for name in names):
            wanted = schema.check_do(do)
            values[text] = {name: wanted[name].item() for name in names}
    return values


def same_kind(ours: Schema, theirs: Schema, name: str) -> bool:
    """Whether both mean the same by an attribute; the range of a continuous one may differ."""
    mine, other = ours[name], theirs.attributes.get(name)
    return mine == other or (isinstance(mine, Continuous) and isinstance(other, Continuous))


def target_value(schema: Schema, do: Mapping[str, Any]) -> tuple[str, float] | None:
    """The attribute and the value of an intervention on one continuous attribute alone; None of any other.

    >>> schema = Schema({"size": {"kind": "continuous", "low": 0, "high": 9}, "Bangs": {"kind": "binary"}})
    >>> target_value(schema, {"size": 3}), target_value(schema, {"size": 3, "Bangs": 1})
    (('size', 3.0), None)
    """
    if len(do) == 1:
        ((name, value),) = schema.check_do(do).items()
        if isinstance(schema[name], Continuous):
            return name, float(value)
    return None


def matches(columns: Mapping[str, Tensor], values: Mapping[str, float]) -> Tensor:
    """Which rows have all these values.

    >>> matches({"Young": torch.tensor([1.0, 0.0]), "Bangs": torch.tensor([1.0, 1.0])}, {"Young": 1, "Bangs": 1})
    tensor([ True, False])
    """
    return torch.stack([columns[name].round() == value for name, value in values.items()]).all(dim=0)
