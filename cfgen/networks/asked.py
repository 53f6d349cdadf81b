"""Attributes that a mechanism is asked for while it learns."""

from __future__ import annotations

import torch
from torch import Tensor

from cfgen.attributes import Binary, Schema

__all__ = ["asked_attributes"]


def asked_attributes(a: Tensor, schema: Schema, joint: float) -> tuple[Tensor, Tensor]:
    """Attributes to ask images for, and which images, (N,), are asked for all attributes of another image.

    Those are a share `joint` of the batch, in random places.  For the others one attribute takes another value: the other
    one of a binary attribute, else another image's.
    """
    count = max(1, round(joint * len(a))) if joint else 0  # at least one: a critic of nothing is NaN
    whole = torch.randperm(len(a), device=a.device)[:count].sort().values
    chosen = torch.randint(len(schema.names), (len(a),), device=a.device)
    others = a[torch.randperm(len(a), device=a.device)]
    parts = []
    for k, (name, kind) in enumerate(schema.attributes.items()):
        own, other = a[:, schema.slices[name]], others[:, schema.slices[name]]
        parts.append(torch.where((chosen == k)[:, None], 1 - own if isinstance(kind, Binary) else other, own))
    a_c = torch.cat(parts, dim=1)
    a_c[whole] = others[whole]
    return a_c, whole
