"""What is asked of each image: for every attribute, a value to intervene with."""

from __future__ import annotations

import torch
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Columns, Continuous, Schema
from cfgen.metrics.effectiveness import requested_values
from cfgen.scm import AttributeSCM

__all__ = ["asked_values", "asked_vectors"]


def asked_values(columns: Columns, schema: Schema, seed: int) -> dict[str, Tensor]:
    """One value for each image and attribute, drawn with `seed`, in real units.

    Continuous: the observed values in a random order, within the model's range (Table 1's for those that morphometry can
    measure); categorical: another value than the image's own, each as probable; binary: the other value.
    """
    asked = requested_values(columns, schema, seed)
    generator = torch.Generator().manual_seed(seed)
    for name, attribute in schema.attributes.items():
        own = columns[name]
        match attribute:
            case Continuous() if name not in asked:
                asked[name] = own[torch.randperm(len(own), generator=generator)].clamp(*schema.bounds(name))
            case Categorical():
                shift = torch.randint(1, attribute.size, (len(own),), generator=generator)
                asked[name] = (own.long() + shift.to(own.device)) % attribute.size
            case Binary():
                asked[name] = 1 - own
    return {name: asked[name] for name in schema.names}


def asked_vectors(scm: AttributeSCM, columns: Columns, seed: int) -> dict[str, Tensor]:
    """The counterfactual attribute vectors (N, size) under do(k = the value asked), for every attribute k."""
    device = scm.schema.low.device
    columns = {name: column.to(device) for name, column in columns.items()}
    a = scm.schema.encode(columns)
    return {
        k: scm.counterfactual_vector(a, {k: values}, torch.Generator(device).manual_seed(seed))
        for k, values in asked_values(columns, scm.schema, seed).items()
    }
