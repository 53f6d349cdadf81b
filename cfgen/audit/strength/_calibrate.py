"""`calibrate`: measures how a model draws every attribute, by a predictor's readings of its counterfactuals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cfgen.attributes import Binary, Categorical, Columns, Schema
from cfgen.audit.strength._choose import check_predictor
from cfgen.audit.strength._measured import measured_strength
from cfgen.audit.strength._reading import output_names, read
from cfgen.audit.strength.options import CalibrateOptions
from cfgen.contracts import ReadsAttributes
from cfgen.counterfactual import asked_of, sweep
from cfgen.effects import Array, Effect, Sample, SampleAnswers, estimate_effect
from cfgen.effects.strength import Strength
from cfgen.image_ids import image_ids
from cfgen.interventions import Intervention, Set
from cfgen.options import documented_by, make_options
from cfgen.processes import Processes
from cfgen.progress import reported
from cfgen.runs.calibration import AttributeCalibration, Calibration, Gap, model_fingerprint
from cfgen.runs.model import TrainedModel, read_data
from cfgen.runs.own_predictor import accuracies, own_predictor
from cfgen.runs.provenance import data_fingerprint, fingerprint, versions
from lightning_modules import ImageMechanismModule, ResidualKept

QUANTILES = (0.1, 0.5, 0.9)  # the values that a continuous attribute is set to
REAL, RECONSTRUCTION = "real", "reconstruction"
UNKNOWN = Strength(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, judged=False)


@documented_by(CalibrateOptions)
def calibrate(model: TrainedModel, **options: Any) -> Calibration:
    """Measures how a model draws every attribute, on images of the data it was trained on.

    Every attribute is set to each of its values, a continuous one to three quantiles.  A predictor reads images, reconstructions
    and counterfactuals.  The result is the same on every process and for any batch size.

    Args:
        model: the model to calibrate.
        options: the fields of `CalibrateOptions`.
    """
    chosen = make_options(CalibrateOptions, options)
    split, processes, schema = chosen.split, chosen.processes, model.schema
    given = check_predictor(chosen.predictor, model, None, chosen.trusted)
    data, progress = read_data(model, split), chosen.progress and (processes is None or processes.first)
    reader: ReadsAttributes
    if given is None:
        own = own_predictor(model, data, processes=processes, progress=progress)
        reader, accuracy = own.predictor, own.accuracy
    else:
        reader, accuracy = given, {name: one for name, one in accuracies(given, data).items() if name in schema.names}
    x = data.images(split)[: chosen.count]
    columns = {name: column[: chosen.count] for name, column in data.columns(split).items()}
    facts = {
        "model": model_fingerprint(model),
        "split": split,
        "images": len(x),
        "keep_residual": chosen.keep_residual,
        "seed": chosen.seed,
        "predictor": {
            "trained": "on the spot" if given is None else "before",
            "sha256": fingerprint(None, reader) if isinstance(reader, nn.Module) else None,
        },
        "data": data_fingerprint(x, columns),
        "versions": versions(),
    }
    sample = Sample(schema, model.scm.graph, columns, ids=image_ids(data, chosen.split)[: len(x)], seed=chosen.seed)
    mechanism = ResidualKept(model.module) if chosen.keep_residual else model.module
    interventions = [one for one in interventions_on_all(schema, columns) if one.target(columns).any()]
    with reported(progress, "calibrating", len(x)) as advance:
        readings = read_pictures(mechanism, reader, x, sample, interventions, chosen.batch_size, processes, advance)
    drawn = [_measure(sample, one, readings) for one in interventions]
    return Calibration(drawn, _changed_by_reconstruction(schema, readings), accuracy, facts)


def interventions_on_all(schema: Schema, columns: Columns) -> list[Set]:
    """One intervention per attribute and value; three values of a continuous attribute.

    >>> schema = Schema({"Hat": {"kind": "binary"}, "colour": {"kind": "categorical", "values": ["red", "blue"]}})
    >>> [one.name for one in interventions_on_all(schema, {})]
    ['Hat=1', 'Hat=0', 'colour=red', 'colour=blue']
    """
    values: dict[str, Sequence[Any]] = {}
    for name, attribute in schema.attributes.items():
        if isinstance(attribute, Binary | Categorical):
            values[name] = attribute.values if isinstance(attribute, Categorical) else (1, 0)
            continue
        column = columns[name].double().cpu().numpy().clip(*schema.bounds(name))
        values[name] = [float(f"{value:.4g}") for value in np.quantile(column, QUANTILES)]
    return [
        Set(f"{name}={f'{value:g}' if isinstance(value, float) else value}", {name: value}).bind(schema)
        for name in values
        for value in values[name]
    ]


@dataclass(frozen=True)
class PictureReadings:
    """What a predictor reads from images, reconstructions and counterfactuals.

    Attributes:
        values: by picture (`REAL`, `RECONSTRUCTION` or the name of an intervention) and output, (n,); NaN without a picture.
        base: the picture that counterfactuals are compared with.
        a, a_c: the images' attributes, and by intervention those of the counterfactuals, (n, size of the schema).
    """

    values: Mapping[str, Mapping[str, NDArray[np.float32]]]
    base: str
    a: Array
    a_c: Mapping[str, Array]


@torch.inference_mode()
def read_pictures(
    mechanism: ImageMechanismModule,
    predictor: ReadsAttributes,
    x: Tensor,
    sample: Sample,
    interventions: Sequence[Intervention],
    batch_size: int = 100,
    processes: Processes | None = None,
    advance: Callable[[int], None] = lambda images: None,
) -> PictureReadings:
    """The readings of all pictures; each process computes its share, and all get the same result."""
    columns, seed = sample.columns, sample.seed
    if processes is not None:
        processes.launch()
        mechanism = mechanism.to(processes.device)
    schema, device = mechanism.scm.schema, mechanism.scm.schema.low.device
    if isinstance(predictor, nn.Module):
        predictor.to(device)
    requests = {
        one.name: asked_of(mechanism, columns, one.arms(columns)[-1].values, seed, changed_only=True)
        for one in interventions
    }
    pictures, outputs = [REAL, RECONSTRUCTION, *requests], output_names(predictor, schema.names)
    table = torch.zeros(len(x), len(pictures), len(outputs))

    def outputs_of(images: Tensor) -> Tensor:
        return torch.stack(list(read(predictor, images, schema.names).values()), dim=1).float().cpu()

    share = (0, 1) if processes is None else processes.share
    for batch in sweep(
        mechanism, x, columns, requests, seed=seed, batch_size=batch_size, share=share, advance=advance
    ):  # fmt: skip
        table[batch.rows, 0], table[batch.rows, 1] = outputs_of(batch.x), outputs_of(batch.own_x_r)
        for k, name in enumerate(requests, start=2):
            drawn = batch.decode(batch.a_c(name), batch.of(name))
            table[batch.rows, k] = batch.spread(name, outputs_of(drawn))
    if processes is not None:
        table = processes.sum(table)  # rows of other processes are 0
    a = schema.encode({name: columns[name].to(device) for name in schema.names})
    return PictureReadings(
        {
            name: dict(zip(outputs, part.numpy().T, strict=True))
            for name, part in zip(pictures, table.unbind(1), strict=True)
        },
        REAL if isinstance(mechanism, ResidualKept) else RECONSTRUCTION,
        a.cpu().double().numpy(),
        {name: one.a_c.cpu().double().numpy() for name, one in requests.items()},
    )


def _measure(sample: Sample, intervention: Intervention, readings: PictureReadings) -> AttributeCalibration:
    """All numbers about one intervention."""
    comparison, values = sample.comparison(intervention), intervention.arms(sample.columns)[-1].values
    before, after = readings.values[REAL], readings.values[intervention.name]
    strength = measured_strength(sample.schema, values, sample.columns, comparison.real, before.get, after.get)
    gaps = [effect.gap for effect in effects_on_readings(sample, intervention, readings).values()]
    side_effect, size = _largest_side_effect(sample, intervention, readings)
    gap = Gap.from_estimates([one for one in gaps if one is not None])
    return AttributeCalibration(intervention.name, comparison.n_target, strength or UNKNOWN, side_effect, size, gap)


def effects_on_readings(sample: Sample, intervention: Intervention, readings: PictureReadings) -> dict[str, Effect]:
    """The effect of an intervention on each reading, as if the reading were the answer of a yes/no classifier.

    A reading of a continuous attribute is yes above the median of the real images.
    """
    middle = {name: np.median(readings.values[REAL][name]) for name in sample.schema.continuous}
    real, base, drawn = (
        _numbers(
            sample.schema, sample.schema.names, readings.values[picture], lambda name, column: column > middle[name]
        )
        for picture in (REAL, readings.base, intervention.name)
    )
    effects = {
        output: estimate_effect(sample, intervention, SampleAnswers(own, base[output][None], drawn[output][None]))
        for output, own in real.items()
    }
    return {output: effect for output, effect in effects.items() if effect is not None}


def _largest_side_effect(sample: Sample, intervention: Intervention, readings: PictureReadings) -> tuple[str, float]:
    """The reading that moves most among attributes that the intervention does not cause, and by how much.

    The readings of real images, regressed on all attributes, tell what the predictor confuses; that is subtracted.
    """
    schema, changed = sample.schema, sample.graph.descendants(intervention.attributes) | {*intervention.attributes}
    names = [name for name in schema.names if name not in changed]
    sd = {name: float(readings.values[REAL][name].std(dtype=np.float64)) or 1.0 for name in names}
    real, base, drawn = (
        _numbers(schema, names, readings.values[picture], lambda name, column: column / sd[name])
        for picture in (REAL, readings.base, intervention.name)
    )
    design, change = (
        np.column_stack([np.ones(len(readings.a)), readings.a]),
        readings.a_c[intervention.name] - readings.a,
    )
    largest, size = "", 0.0
    for output in real:
        confused = change @ np.linalg.lstsq(design, real[output], rcond=1e-10)[0][1:]
        moved = float(np.nanmean(drawn[output] - base[output] - confused))
        if abs(moved) > abs(size):
            largest, size = output, moved
    return largest, size


def _numbers(
    schema: Schema,
    names: Sequence[str],
    readings: Mapping[str, NDArray[np.float32]],
    continuous: Callable[[str, Array], Any],
) -> dict[str, Array]:
    """Readings as numbers: 1 or 0 for each value of a discrete attribute, `continuous(name, reading)` for others; NaN stays NaN.

    >>> colour = Schema({"colour": {"kind": "categorical", "values": ["red", "blue"]}})
    >>> _numbers(colour, ["colour"], {"colour": np.array([1, np.nan], dtype=np.float32)}, lambda name, column: column)
    {'colour=red': array([ 0., nan]), 'colour=blue': array([ 1., nan])}
    """
    numbers: dict[str, Array] = {}
    for name in names:
        attribute, reading = schema[name], readings[name].astype(np.float64)
        if isinstance(attribute, Categorical):
            parts = {f"{name}={value}": reading.round() == k for k, value in enumerate(attribute.values)}
        else:
            parts = {name: reading >= 0.5 if isinstance(attribute, Binary) else continuous(name, reading)}
        numbers |= {output: np.where(np.isnan(reading), np.nan, part) for output, part in parts.items()}
    return numbers


def _changed_by_reconstruction(schema: Schema, readings: PictureReadings) -> dict[str, float]:
    """By discrete attribute, the share of images whose reading differs between image and reconstruction."""
    real, own = readings.values[REAL], readings.values[RECONSTRUCTION]
    return {
        name: float((real[name].round() != own[name].round()).mean())
        for name in schema.names
        if name not in schema.continuous
    }
