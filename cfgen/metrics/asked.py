"""What is asked of each image when a model is scored: for every attribute, a value to intervene with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Columns, Continuous, Schema
from cfgen.contracts import CausalImageMechanism
from cfgen.counterfactual import Asked, asked_of

__all__ = ["ask_each", "asked_values", "do_name"]


def do_name(attribute: str) -> str:
    """What the intervention on an attribute is called, in sweeps and in the names of scores.

    >>> do_name("thickness")
    'do(thickness)'
    """
    return f"do({attribute})"


def asked_values(columns: Columns, schema: Schema, seed: int) -> dict[str, Tensor]:
    """One value for each image and attribute, drawn with `seed`, in real units.

    Continuous: the observed values in a random order, those outside of the model's range (that of its training split) moved to
    its edge; categorical: another value than the image's own, each as probable; binary: the other value.
    """
    # two streams, so that an attribute more of one kind does not change what is asked of the other
    orders, shifts = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    asked: dict[str, Tensor] = {}
    for name, attribute in schema.attributes.items():
        own = columns[name]
        match attribute:
            case Continuous():
                order = torch.randperm(len(own), generator=orders)
                asked[name] = own[order.to(own.device)].clamp(*schema.bounds(name))
            case Categorical():
                shift = torch.randint(1, attribute.size, (len(own),), generator=shifts)
                asked[name] = (own.long() + shift.to(own.device)) % attribute.size
            case Binary():
                asked[name] = 1 - own
    return asked


def ask_each(
    mechanism: CausalImageMechanism, columns: Columns, seed: int, names: Sequence[str] | None = None
) -> dict[str, Asked]:
    """For every attribute (or those of `names`), do(it = the value asked), by its `do_name`."""
    schema = mechanism.scm.schema
    device = schema.low.device
    values = asked_values(columns, schema, seed)
    return {
        do_name(k): asked_of(mechanism, columns, {k: values[k].to(device)}, seed)
        for k in (schema.names if names is None else names)
    }
