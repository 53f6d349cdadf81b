"""Overlap: for every intervention that one may ask for, how many images have it already, and like whom they are.

An audit compares images that have a value with images that do not; where nobody like the latter has it, nothing but a model's
extrapolation says what it would do to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Continuous, Schema
from cfgen.effects import ENOUGH, Array, RealImages, adjustment_for, features
from cfgen.interventions import Mask, Set
from cfgen.scm.graph import CausalGraph

__all__ = ["Overlap", "Stratum", "overlap_of"]

QUANTILES = (0.1, 0.5, 0.9)  # of a continuous attribute: the values that are looked at
MOST_VALUES = 20  # of a categorical attribute, the most frequent ones
FEWEST = 20  # images in a stratum whose share is told


@dataclass(frozen=True)
class Stratum:
    """Images alike in one other attribute, and how many of them have the value that is asked for."""

    name: str
    images: int
    have: int

    def __str__(self) -> str:
        return f"{self.have:,} of {self.images:,} with {self.name}"


@dataclass(frozen=True)
class Overlap:
    """An intervention: `have` images have its value (nearly, if it is continuous) and `changed` do not.

    `effective` is what those that have it are worth once they are weighted to be like those that do not (Kish), `unlike` the
    share of the changed images that hardly any of them is like; both are None where there are too few to say.  `problem` says why
    an audit could not compare real images, where it could not.
    """

    attribute: str
    value: str
    have: int
    changed: int
    effective: float | None
    unlike: float | None
    problem: str
    strata: list[Stratum]

    @property
    def do(self) -> str:
        return f"{self.attribute}={self.value}"

    @property
    def thinnest(self) -> Stratum | None:
        """The stratum of which the smallest share has the value."""
        large = [stratum for stratum in self.strata if stratum.images >= FEWEST]
        return min(large, key=lambda stratum: stratum.have / stratum.images, default=None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "do": self.do,
            "have": self.have,
            "changed": self.changed,
            "effective": self.effective,
            "unlike": self.unlike,
            "thinnest_stratum": str(self.thinnest or ""),
            "problem": self.problem,
        }


def overlap_of(graph: CausalGraph, schema: Schema, columns: Mapping[str, Tensor]) -> list[Overlap]:
    """Of each attribute: its values, or the 10th, 50th and 90th percentile of a continuous one."""
    found = []
    for name in schema.names:
        adjustment = adjustment_for(graph, [name])
        comparable = features(schema, columns, adjustment.names)
        groups = [stratum for other in adjustment.names for stratum in strata_of(schema, other, columns[other])]
        for value in values_of(schema, name, columns[name]):
            exposure = Set.from_values(schema, {name: value}).exposure(columns)
            have, changed = int(exposure.exposed.sum()), int(exposure.target.sum())
            effective = unlike = None
            if have < ENOUGH or changed < ENOUGH:
                few = f"{have:,} images have it" if have < ENOUGH else f"{changed:,} images do not have it yet"
                problem = f"{few}, and {ENOUGH} are needed"
            else:
                real = RealImages(exposure, comparable)
                effective, unlike, problem = real.effective, real.off_support_share, adjustment.problem or real.refusal
            strata = [Stratum(title, int(mask.sum()), int((mask & exposure.exposed).sum())) for title, mask in groups]
            found.append(Overlap(name, str(value), have, changed, effective, unlike, problem, strata))
    return found


def values_of(schema: Schema, name: str, column: Tensor) -> list[Any]:
    """The values of an attribute that one may ask for, as one types them."""
    match schema[name]:
        case Binary():
            return [0, 1]
        case Categorical(values):
            counts = np.bincount(column.long().cpu().numpy(), minlength=len(values))
            frequent = sorted(np.argsort(-counts, kind="stable")[:MOST_VALUES].tolist())
            return [values[position] for position in frequent]
        case Continuous():
            quantiles = np.quantile(column.double().cpu().numpy(), QUANTILES)
            return [float(f"{value:.3g}") for value in dict.fromkeys(quantiles.tolist())]


def strata_of(schema: Schema, name: str, column: Tensor) -> Iterator[tuple[str, Mask]]:
    """An attribute's strata, as masks: its values, or the thirds of a continuous one."""
    values: Array = column.double().cpu().numpy()
    attribute = schema[name]
    if isinstance(attribute, Continuous):
        low, high = np.quantile(values, [1 / 3, 2 / 3])
        yield f"low {name} (to {low:.3g})", values <= low
        yield f"middle {name} ({low:.3g} to {high:.3g})", (values > low) & (values <= high)
        yield f"high {name} (above {high:.3g})", values > high
    else:
        names = attribute.values if isinstance(attribute, Categorical) else (0, 1)
        for position, value in enumerate(names):
            yield f"{name}={value}", values == position
