"""How a model draws an intervention, by a predictor's readings: how strongly, what moves with it, and the gap to real images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Columns, Continuous, Schema
from cfgen.audit.strength import Strength, graded_strength, plain_values, slope_strength, strength
from cfgen.effects import Array, RealImages, adjustment_for, by_generator, difference, exposure_of, features
from cfgen.scm.graph import CausalGraph

__all__ = ["Drawn", "Gap", "Readings", "interventions", "measure_drawn", "turned_readings"]

QUANTILES = (0.1, 0.5, 0.9)  # the values that a continuous attribute is set to


@dataclass(frozen=True)
class Gap:
    """How far the model's effects on a predictor's readings are from those of real images.

    Of so many `readings`, the 95 % interval of the difference excludes 0 for `differ`.  `rms` is the root mean square
    difference, and `chance` what it would be by the choice of images alone.

    >>> Gap(10, 2, 0.05, 0.03).share, Gap(0, 0, 0.0, 0.0).share
    (0.2, nan)
    """

    readings: int
    differ: int
    rms: float
    chance: float

    @property
    def share(self) -> float:
        return self.differ / self.readings if self.readings else math.nan

    @classmethod
    def over(cls, gaps: Sequence[Gap]) -> Gap:
        """Of several together.

        >>> round(Gap.over([Gap(1, 1, 0.3, 0.1), Gap(1, 0, 0.4, 0.1)]).rms ** 2, 3)  # (0.09 + 0.16) / 2
        0.125
        """
        readings = sum(gap.readings for gap in gaps)
        means = (
            math.sqrt(sum(gap.readings * getattr(gap, kind) ** 2 for gap in gaps) / max(readings, 1))
            for kind in ("rms", "chance")
        )
        return cls(readings, sum(gap.differ for gap in gaps), *means)


@dataclass(frozen=True)
class Drawn:
    """One intervention: of how many images it is asked, how strongly it is drawn, what else moves, and the gap to real images.

    `side_effect` is the attribute, of those that the intervention does not cause, whose reading moves most from the base images
    to the counterfactuals: by `side_effect_size` of the images, or standard deviations of a continuous attribute.  What the
    predictor confuses in real images (its readings regressed on all attributes) is taken off.
    """

    do: str
    images: int
    strength: Strength
    side_effect: str
    side_effect_size: float
    gap: Gap

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON."""
        return asdict(self) | {"strength": self.strength.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Drawn:
        """The inverse of `to_dict`."""
        parts = {"strength": Strength.from_dict(values["strength"]), "gap": Gap(**plain_values(Gap, values["gap"]))}
        return cls(**plain_values(cls, dict(values) | parts))


@dataclass(frozen=True)
class Readings:
    """What a predictor reads, by attribute, in real units: off images, their reconstructions, the base images that
    counterfactuals are compared with, and, by intervention, the counterfactuals (NaN where it is not asked).

    `a` is the images' own model vector, (n, size), and `a_c` by intervention what is asked for.  `graded` are, by intervention, a
    predictor's log-odds of what is asked for, off images and counterfactuals; empty where it has none.
    """

    real: Mapping[str, Array]
    reconstructed: Mapping[str, Array]
    base: Mapping[str, Array]
    made: Mapping[str, Mapping[str, Array]]
    a: Array
    a_c: Mapping[str, Array]
    graded: Mapping[str, tuple[Array, Array]]


def interventions(schema: Schema, columns: Columns) -> dict[str, dict[str, Any]]:
    """One for each attribute and value, by the text it is written in; three values of a continuous attribute.

    >>> list(interventions(Schema({"Hat": {"kind": "binary"}, "colour": {"kind": "categorical", "values": ["red", "blue"]}}), {}))
    ['Hat=1', 'Hat=0', 'colour=red', 'colour=blue']
    """
    values: dict[str, Sequence[Any]] = {}
    for name, attribute in schema.attributes.items():
        match attribute:
            case Binary():
                values[name] = (1, 0)
            case Categorical():
                values[name] = attribute.values
            case Continuous():
                column = columns[name].double().cpu().numpy().clip(*schema.bounds(name))
                values[name] = [float(f"{value:.4g}") for value in np.quantile(column, QUANTILES)]
    return {
        f"{name}={f'{value:g}' if isinstance(value, float) else value}": {name: value}
        for name in values
        for value in values[name]
    }


def measure_drawn(
    schema: Schema,
    graph: CausalGraph,
    columns: Columns,
    readings: Readings,
    do: Mapping[str, Mapping[str, Any]],
    seed: int,
) -> Iterator[Drawn]:
    """Every intervention of `do`, each on one attribute; those that change no image are left out."""
    for text, values in do.items():
        ((name, wanted),) = schema.check_do(values).items()
        exposure = exposure_of(schema, columns, values)
        if not exposure.changed.any():
            continue
        adjusted = features(schema, columns, adjustment_for(graph, [name]).names)
        real = RealImages(exposure, adjusted, seed)
        apart = [other for other in schema.names if other != name and other not in graph.descendants([name])]
        side_effect, size = largest_side_effect(schema, apart, readings, text)
        yield Drawn(
            text,
            int(exposure.changed.sum()),
            strength_of(schema, name, float(wanted), columns[name], readings, text, real),
            side_effect,
            size,
            gap_of(schema, readings, text, real),
        )


def strength_of(
    schema: Schema, name: str, wanted: float, column: Tensor, readings: Readings, text: str, real: RealImages
) -> Strength:
    seen, read = readings.made[text][name], readings.real[name]
    if isinstance(schema[name], Continuous):
        return slope_strength(seen, read, wanted, column.double().cpu().numpy(), real.features)
    weights = real.weights if real.enough else None  # few images say too little of what makes them alike
    seen = np.where(np.isnan(seen), np.nan, seen == wanted)
    of = (real.exposure.changed, real.exposure.near, weights)
    found = strength(seen, (read == wanted).astype(np.float64), *of)
    if text not in readings.graded:
        return found
    there, drawn = readings.graded[text]
    return graded_strength(found, drawn, there, *of)


def largest_side_effect(schema: Schema, names: Sequence[str], readings: Readings, text: str) -> tuple[str, float]:
    """The value, of attributes that should stay, whose share among readings moves most, and by how much."""
    moved = {"": 0.0}
    for name in names:
        columns = (readings.real[name], readings.base[name], readings.made[text][name])
        if isinstance(schema[name], Continuous):
            moved[name] = side_effect(readings, text, *columns) / (float(columns[0].std()) or 1.0)
            continue
        real, base, made = (answers(schema, name, column) for column in columns)
        moved |= {value: side_effect(readings, text, real[value], base[value], made[value]) for value in real}
    largest = max(moved, key=lambda one: abs(moved[one]))
    return largest, moved[largest]


def side_effect(readings: Readings, text: str, real: Array, base: Array, made: Array) -> float:
    """The mean movement of a reading, less that by which real images with such attributes are read otherwise."""
    asked = ~np.isnan(made)
    design = np.concatenate([np.ones((len(real), 1)), readings.a], axis=1)
    confused = np.linalg.lstsq(design, real, rcond=1e-10)[0][1:]
    by_attributes = (readings.a_c[text] - readings.a) @ confused
    return float((made - base - by_attributes)[asked].mean())


def gap_of(schema: Schema, readings: Readings, text: str, real: RealImages) -> Gap:
    """Each reading is taken for a classifier: the effect on its answers by the model, less that by real images."""
    if not real.enough:
        return Gap(0, 0, 0.0, 0.0)
    differences = []
    for name in schema.names:
        middle = float(np.median(readings.real[name]))
        own, base, made = (
            answers(schema, name, column[name], middle)
            for column in (readings.real, readings.base, readings.made[text])
        )
        for value in own:
            by_model = by_generator(base[value], made[value], real.exposure.changed)
            differences.append(difference(by_model, real.estimate(own[value])))
    squares = [np.mean([d.value**2 for d in differences]), np.mean([d.variance for d in differences])]
    differ = sum(not one.holds(0.0) for one in differences)
    return Gap(len(differences), differ, *(math.sqrt(square) for square in squares))


def answers(schema: Schema, name: str, reading: Array, middle: float = 0.0) -> dict[str, Array]:
    """A reading as yes or no, by what it says: a binary attribute, each value of a categorical one, or whether a continuous one
    is above `middle`; NaN stays.

    >>> answers(Schema({"colour": {"kind": "categorical", "values": ["red", "blue"]}}), "colour", np.array([1.0, np.nan]))
    {'colour=red': array([ 0., nan]), 'colour=blue': array([ 1., nan])}
    """
    attribute = schema[name]
    match attribute:
        case Binary():
            found = {name: reading >= 0.5}
        case Categorical(values):
            found = {f"{name}={value}": reading.round() == k for k, value in enumerate(values)}
        case Continuous():
            found = {name: reading > middle}
    return {value: np.where(np.isnan(reading), np.nan, yes) for value, yes in found.items()}


def turned_readings(schema: Schema, readings: Readings) -> dict[str, float]:
    """Of each binary and categorical attribute, the share of images whose reconstruction is read otherwise."""
    return {
        name: float((readings.real[name].round() != readings.reconstructed[name].round()).mean())
        for name in schema.names
        if name not in schema.continuous
    }
