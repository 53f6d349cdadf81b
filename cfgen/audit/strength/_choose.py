"""Who judges counterfactuals: a given predictor, the model's calibration, or a predictor that is trained for the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from cfgen.attributes import Categorical, Columns, Continuous, Schema
from cfgen.audit.strength._measured import judged_attributes
from cfgen.audit.strength._reading import same_kind
from cfgen.checkpoints import load_module
from cfgen.command_line import number_or_name
from cfgen.contracts import ImageData, ReadsAttributes
from cfgen.effects.strength import Strength
from cfgen.errors import UserError, blame
from cfgen.interventions import Intervention
from cfgen.processes import Processes
from cfgen.progress import Progress
from cfgen.runs.calibration import Calibration, read_calibration
from cfgen.runs.model import TrainedModel
from cfgen.runs.own_predictor import accuracies, own_predictor
from cfgen.runs.provenance import fingerprint
from lightning_modules import Predictor

TRAIN, NONE = "train", "none"


class Judge(NamedTuple):
    """A predictor, or strengths from the model's calibration by intervention; `facts` describe which, for reports."""

    predictor: ReadsAttributes | None
    calibrated: dict[str, Strength]
    facts: dict[str, Any] | None


def check_predictor(
    predictor: str | Path | ReadsAttributes | None,
    model: TrainedModel,
    interventions: Sequence[Intervention] | None,
    trusted: bool = False,
) -> ReadsAttributes | None:
    """The given predictor, loaded; None where none is given (None, "train" or "none").

    Refuses one that reads images of another shape, or that can judge none of the interventions.  Without `interventions`, it has
    to read all attributes of the model.
    """
    if predictor is None or predictor == TRAIN or (predictor == NONE and interventions is not None):
        return None
    with blame("predictor"):
        if isinstance(predictor, str | Path):
            predictor = load_module(predictor, Predictor, trusted).eval()
        theirs, ours, known = tuple(predictor.image_shape), tuple(model.module.image_shape), predictor.schema
        if theirs != ours:
            raise UserError(f"it reads images of shape {theirs}, and the model makes images of {ours}")
        if interventions is None:
            if missing := [name for name in model.schema.names if not same_kind(model.schema, known, name)]:
                raise UserError(
                    f"it does not read the model's {', '.join(missing)}; a calibration needs all attributes"
                )
            return predictor
        judged = (judged_attributes(model.schema, one.attributes) for one in interventions)
        if not any(names and all(same_kind(model.schema, known, name) for name in names) for names in judged):
            names = ", ".join(known.names) or "no attribute"
            raise UserError(f"it reads {names}, and none of the interventions is about these alone")
    return predictor


def choose_predictor(
    reader: ReadsAttributes | None,
    given: str | Path | ReadsAttributes | None,
    model: TrainedModel,
    data: ImageData,
    interventions: Sequence[Intervention],
    columns: Columns,
    keep_residual: bool = False,
    processes: Processes | None = None,
    progress: Progress = False,
) -> Judge:
    """The judge of an audit: the `reader` from `check_predictor` if there is one; nothing if None or "none" was `given`.

    For "train" it is the model's calibration, if that knows every intervention and was made with the same `keep_residual`, and
    otherwise `own_predictor`.  `columns` are the attributes of the audited images.
    """
    if reader is not None:
        name = given if isinstance(given, str | Path) else None
        sha = fingerprint(name, reader) if isinstance(reader, nn.Module) else None
        return Judge(reader, {}, {"source": "given", "sha256": sha, "accuracy": accuracies(reader, data)})
    if given != TRAIN:
        return Judge(None, {}, None)
    calibration = read_calibration(model)
    if calibration is not None and calibration.keep_residual == keep_residual:
        strengths = {
            one.name: calibrated_strength(calibration, model.schema, one.arms(columns)[-1].values)
            for one in interventions
        }
        known = {name: strength for name, strength in strengths.items() if strength is not None}
        if len(known) == len(strengths):
            return Judge(None, known, {"source": "calibration", "split": calibration.split})
    own = own_predictor(model, data, processes=processes, progress=progress)
    return Judge(own.predictor, {}, {"source": "trained on the spot", "accuracy": own.accuracy})


def calibrated_strength(calibration: Calibration, schema: Schema, values: Mapping[str, Tensor]) -> Strength | None:
    """The strength of setting attributes to values, in real units; None where the calibration does not know them.

    For a continuous attribute the nearest calibrated value counts, from the mean where values differ between images.  Of several
    attributes, the weakest counts.
    """
    known, parts = calibration.strengths, []
    for name, value in values.items():
        attribute, number = schema[name], float(value.float().mean())
        key = f"{name}={attribute.values[int(number)] if isinstance(attribute, Categorical) else int(number)}"
        if isinstance(attribute, Continuous):
            keys = [(number_or_name(text), key) for key in known for of, _, text in [key.partition("=")] if of == name]
            near = [(abs(at - number), key) for at, key in keys if not isinstance(at, str)]
            key = min(near, key=lambda one: one[0])[1] if near else ""
        if key not in known:
            return None
        parts.append(known[key])
    unjudged = [part for part in parts if not part.judged]
    return unjudged[0] if unjudged else min(parts, key=lambda part: part.value)
