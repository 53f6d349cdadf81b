"""What a predictor should read off a counterfactual, and whether it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Continuous, Schema
from cfgen.audit.plan import Plan
from cfgen.contracts import ReadsAttributes
from lightning_modules import Predictor

__all__ = ["Reading", "evidence", "grades", "matches", "read", "readable", "target_value"]


class Reading(NamedTuple):
    """What a predictor reads: columns in real units, and its raw outputs where it has them, (N, size of its schema)."""

    columns: Mapping[str, Tensor]
    outputs: Tensor | None


def grades(predictor: ReadsAttributes | None) -> bool:
    """Whether a predictor says how sure it is, and not only what it reads."""
    return isinstance(predictor, Predictor)


def read(predictor: ReadsAttributes, x: Tensor) -> Reading:
    if isinstance(predictor, Predictor):
        outputs = predictor(x)
        return Reading(predictor.decide(outputs), outputs)
    return Reading(predictor.read(x), None)


def evidence(outputs: Tensor, schema: Schema, values: Mapping[str, float]) -> Tensor:
    """How much speaks for these values of binary and categorical attributes: log-odds, added up over attributes, (N,).

    Finer than yes or no: a good predictor sees faint glasses too, and how faint they are shows here.

    >>> hat = Schema({"Hat": {"kind": "binary"}})
    >>> evidence(torch.tensor([[2.0], [-1.0]]), hat, {"Hat": 0})
    tensor([-2.,  1.])
    """
    total = outputs.new_zeros(len(outputs))
    for name, value in values.items():
        part = outputs[:, schema.slices[name]]
        if isinstance(schema[name], Categorical):
            others = torch.cat([part[:, : int(value)], part[:, int(value) + 1 :]], dim=1)
            total = total + part[:, int(value)] - others.logsumexp(dim=1)
        else:
            total = total + part[:, 0] * (1.0 if value == 1 else -1.0)
    return total


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
            # a continuous value is compared as it is read, and not here
            discrete = {name: do[name] for name in names if not isinstance(schema[name], Continuous)}
            values[text] = {name: value.item() for name, value in schema.check_do(discrete).items()} or {
                names[0]: math.nan
            }
    return values


def same_kind(ours: Schema, theirs: Schema, name: str) -> bool:
    """Whether both mean the same by an attribute; the range of a continuous one may differ."""
    mine, other = ours[name], theirs.attributes.get(name)
    return mine == other or (isinstance(mine, Continuous) and isinstance(other, Continuous))


def target_value(schema: Schema, do: Mapping[str, Any]) -> tuple[str, Tensor] | None:
    """The attribute and the value (or one for each image) of an intervention on one continuous attribute alone; None of others.

    >>> schema = Schema({"size": {"kind": "continuous", "low": 0, "high": 9}, "Bangs": {"kind": "binary"}})
    >>> target_value(schema, {"size": 3}), target_value(schema, {"size": 3, "Bangs": 1})
    (('size', tensor(3.)), None)
    """
    if len(do) == 1:
        ((name, value),) = schema.check_do(do).items()
        if isinstance(schema[name], Continuous):
            return name, value.cpu()
    return None


def matches(columns: Mapping[str, Tensor], values: Mapping[str, float]) -> Tensor:
    """Which rows have all these values.

    >>> matches({"Young": torch.tensor([1.0, 0.0]), "Bangs": torch.tensor([1.0, 1.0])}, {"Young": 1, "Bangs": 1})
    tensor([ True, False])
    """
    return torch.stack([columns[name].round() == value for name, value in values.items()]).all(dim=0)
