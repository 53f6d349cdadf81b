"""Who judges what the model drew: a predictor that was given, one trained on the spot, or the model's calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from cfgen.attributes import Categorical, Continuous, Schema
from cfgen.audit.calibration import Calibration, read_calibration
from cfgen.audit.plan import Plan
from cfgen.audit.predictor import accuracies, own_predictor
from cfgen.audit.reading import readable
from cfgen.audit.strength import Strength
from cfgen.checkpoints import load_module
from cfgen.command_line import number_or_name
from cfgen.contracts import ImageData, ReadsAttributes
from cfgen.errors import UserError
from cfgen.processes import Processes
from cfgen.progress import Progress
from cfgen.reporting.provenance import fingerprint
from cfgen.runs.model import TrainedModel
from lightning_modules import ImageMechanismModule, Predictor

__all__ = ["NO_ONE", "TRAIN", "Judge", "fitting_predictor", "judge_of"]

TRAIN, NO_ONE = "train", "none"


@dataclass(frozen=True)
class Judge:
    """A predictor, or the strengths that the model was calibrated to, by intervention; `facts` say which and how good it is."""

    predictor: ReadsAttributes | None = None
    calibrated: Mapping[str, Strength] = field(default_factory=dict)
    facts: dict[str, Any] | None = None


def judge_of(
    reader: ReadsAttributes | None,
    asked_for: str | Path | ReadsAttributes | None,
    model: TrainedModel,
    data: ImageData,
    plan: Plan,
    processes: Processes | None,
    progress: Progress,
) -> Judge:
    """The `reader` that was given (`fitting_predictor`), or as `asked_for`: to train one is spared where the model's calibration
    knows every intervention of the plan."""
    if reader is not None:
        name = asked_for if isinstance(asked_for, (str, Path)) else None
        sha = fingerprint(name, reader) if isinstance(reader, nn.Module) else None
        return Judge(reader, facts={"source": "given", "sha256": sha, "accuracy": accuracies(reader, data)})
    if asked_for != TRAIN:
        return Judge()
    calibration = None if plan.strengths else read_calibration(model)
    if calibration is not None and calibration.keep_residual == plan.keep_residual:
        known = {name: calibrated_strength(calibration, model.schema, do) for name, do in plan.do.items()}
        found = {name: strength for name, strength in known.items() if strength is not None}
        if len(found) == len(plan.do):
            return Judge(calibrated=found, facts={"source": "calibration", "split": calibration.split})
    own = own_predictor(model, data, processes=processes, progress=progress)
    return Judge(own.predictor, facts={"source": "trained on the spot", "accuracy": own.accuracy})


def calibrated_strength(calibration: Calibration, schema: Schema, do: Mapping[str, Any]) -> Strength | None:
    """Of an intervention; several attributes at once are drawn as strongly as the weakest of them.

    A continuous attribute was calibrated at some values: the nearest counts.
    """
    parts = []
    for name, value in schema.check_do(do).items():
        attribute, known = schema[name], calibration.strengths
        if isinstance(attribute, Continuous):
            texts = {key: key.partition("=")[2] for key in known if key.partition("=")[0] == name}
            values = {number: key for key, text in texts.items() if not isinstance(number := number_or_name(text), str)}
            key = values[min(values, key=lambda one: abs(one - float(value.mean())))] if values else ""
        else:
            key = f"{name}={attribute.values[int(value)] if isinstance(attribute, Categorical) else int(value)}"
        if key not in known:
            return None
        parts.append(known[key])
    unjudged = [part for part in parts if not part.judged]
    return unjudged[0] if unjudged else min(parts, key=lambda part: part.value)


def fitting_predictor(
    predictor: str | Path | ReadsAttributes | None, mechanism: ImageMechanismModule, plan: Plan, trusted: bool = False
) -> ReadsAttributes | None:
    """The predictor that was given, if it can read the model's images and something that is asked of them; None where one is to
    be trained, or none is wanted."""
    if predictor is None or predictor in (TRAIN, NO_ONE):
        return None
    if isinstance(predictor, (str, Path)):
        try:
            predictor = load_module(predictor, Predictor, trusted).eval()
        except UserError as error:
            raise UserError(str(error), argument="predictor") from error
    theirs, ours = tuple(predictor.image_shape), tuple(mechanism.image_shape)
    if theirs != ours:
        raise UserError(
            f"it reads images of shape {theirs}, and the model makes images of {ours}", argument="predictor"
        )
    if not readable(mechanism.scm.schema, predictor, plan):
        known = ", ".join(predictor.schema.names) or "no attribute"
        raise UserError(f"it reads {known}, and none of the interventions is about these alone", argument="predictor")
    return predictor
