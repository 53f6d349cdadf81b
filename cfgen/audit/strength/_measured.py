"""The strength of an intervention from a predictor's readings of real and counterfactual images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cfgen.attributes import Categorical, Continuous, Schema
from cfgen.audit.strength._reading import log_odds
from cfgen.effects import Array, RealImages
from cfgen.effects.strength import Strength, graded_strength, slope_strength, strength

Outputs = Callable[[str], NDArray[np.float32] | None]


def judged_attributes(schema: Schema, attributes: tuple[str, ...]) -> list[str]:
    """The attributes by which the strength of an intervention is judged: discrete ones, or a continuous one alone."""
    discrete = [name for name in attributes if not isinstance(schema[name], Continuous)]
    return discrete or (list(attributes) if len(attributes) == 1 else [])


def measured_strength(
    schema: Schema,
    values: Mapping[str, Tensor],
    columns: Mapping[str, Tensor],
    real: RealImages,
    before: Outputs,
    after: Outputs,
) -> Strength | None:
    """How strongly counterfactuals show the values that an intervention sets; None where the predictor did not read them.

    Args:
        schema: of the model.
        values: what the intervention sets, for all images or per image.
        columns: the images' own attributes.
        real: the images that have the values, and their weights.
        before, after: the predictor's outputs for the images and for the counterfactuals, by name; NaN where none was read.
    """
    names = judged_attributes(schema, tuple(values))
    if not names or any(before(name) is None or after(name) is None for name in names):
        return None
    looked_at = ~np.isnan(_known(before, names[0]))
    if names[0] in schema.continuous:
        (name,) = names
        own = columns[name].double().cpu().numpy()
        wanted = values[name].double().cpu().numpy() + np.zeros(len(own))
        readings = (
            _known(after, name)[looked_at].astype(np.float64),
            _known(before, name)[looked_at].astype(np.float64),
        )
        return slope_strength(*readings, wanted[looked_at], own[looked_at], real.features[looked_at])
    wanted_values = {name: float(values[name]) for name in names}
    target, exposed = real.exposure.target[looked_at], real.exposure.exposed[looked_at]
    if not (exposed.any() and target.any()):
        return None
    weights: Array | None = real.weights[looked_at]
    seen, read = (_matches(outputs, wanted_values)[looked_at] for outputs in (after, before))
    shares = strength(seen, read, target, exposed, weights)
    if not shares.judged:  # with weights, few images may count for all: they can say less than all of them alike
        weights = None
        shares = strength(seen, read, target, exposed)
    there, drawn = (_evidence(schema, outputs, wanted_values) for outputs in (before, after))
    if there is None or drawn is None:
        return shares
    return graded_strength(shares, drawn[looked_at], there[looked_at], target, exposed, weights)


def _known(outputs: Outputs, name: str) -> NDArray[np.float32]:
    found = outputs(name)
    assert found is not None
    return found


def _matches(outputs: Outputs, values: Mapping[str, float]) -> Array:
    """1 where all values are read, 0 where not, NaN where nothing was read."""
    columns = {name: _known(outputs, name) for name in values}
    found = np.stack([np.round(columns[name]) == value for name, value in values.items()]).all(axis=0)
    return np.where(np.isnan(next(iter(columns.values()))), np.nan, found)


def _evidence(schema: Schema, outputs: Outputs, values: Mapping[str, float]) -> Array | None:
    """The log-odds of all values, added up over attributes; None where the predictor has none."""
    total: NDArray[np.float32] | None = None
    for name, value in values.items():
        attribute = schema[name]
        level = attribute.values[int(value)] if isinstance(attribute, Categorical) else 1
        part = outputs(log_odds(name, level))
        if part is None:
            return None
        signed = part if isinstance(attribute, Categorical) or value == 1 else -part
        total = signed if total is None else total + signed
    return None if total is None else total.astype(np.float64)
