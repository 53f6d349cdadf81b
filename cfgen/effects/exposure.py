"""Which images an intervention changes and which have what it asks for, of attribute columns in real units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from cfgen.attributes import Continuous, Schema
from cfgen.effects.real_images import Exposure

__all__ = ["exposure_of"]

REACH = 4  # the outcome model of a continuous attribute is fitted on images within so many windows


def exposure_of(schema: Schema, columns: Mapping[str, Tensor], do: Mapping[str, Any]) -> Exposure:
    """A continuous value is had by the images within a window of it, a standard deviation / n^(1/4) to either side.

    >>> import torch
    >>> young = exposure_of(Schema({"Young": {"kind": "binary"}}), {"Young": torch.tensor([1.0, 0.0])}, {"Young": 1})
    >>> young.near.tolist(), young.changed.tolist()
    ([True, False], [False, True])
    """
    rows = len(next(iter(columns.values())))
    changed, near, close = np.zeros(rows, dtype=bool), np.ones(rows, dtype=bool), np.ones(rows, dtype=bool)
    distances, window = [], {}
    for name, wanted in schema.check_do(do).items():
        column, value = columns[name].double().cpu().numpy(), float(wanted)
        changed |= column.astype(np.float32) != np.float32(value)
        if isinstance(schema[name], Continuous):
            window[name] = float(column.std()) * rows**-0.25 or 1.0
            distances.append((column - value) / window[name])
            near &= np.abs(distances[-1]) <= 1
            close &= np.abs(distances[-1]) <= REACH
        else:
            near &= column == value
            close &= column == value
    distance = np.stack(distances, axis=1) if distances else np.zeros((rows, 0))
    return Exposure(changed, near, close, distance, window)
