"""`prepare`: from options to `Questions`.  Everything that can be refused is refused here, before the first image is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cfgen.attributes import Schema
from cfgen.audit._choose_pairs import choose_pairs
from cfgen.audit._labels import labels_of
from cfgen.audit._material import Material, matching_models, model_scores
from cfgen.audit._parse import (
    check_targets,
    cohorts_of,
    parse_adjusted,
    parse_cohorts,
    parse_curves,
    parse_explained,
    parse_held,
    parse_interventions,
    parse_local,
)
from cfgen.audit._subgroups import subgroups_of
from cfgen.audit.answers import COUNTERFACTUAL, Picture
from cfgen.audit.options import AuditOptions
from cfgen.audit.questions import AuditedClassifier, Questions, Request
from cfgen.audit.result import without_nan
from cfgen.audit.strength import check_predictor, choose_predictor, judged_attributes, same_kind
from cfgen.classifiers import ExternalClassifier, LoadedClassifier, load_classifiers
from cfgen.contracts import ImageData, KnowsTruth
from cfgen.counterfactual import as_unit_float, asked_of
from cfgen.effects import OneOfClasses
from cfgen.errors import UserError, unknown_name
from cfgen.image_ids import image_ids, random_order, random_rows
from cfgen.interventions import Intervention, Set, Toggle
from cfgen.processes import Processes
from cfgen.progress import Progress
from cfgen.runs.model import TrainedModel, model_data
from cfgen.runs.provenance import data_fingerprint, fingerprint
from cfgen.scm.graph import CausalGraph

AnyClassifier = ExternalClassifier | str | Path | nn.Module
CHECKED = 64  # images that a classifier is tried on before the work starts
READ = 500  # images that a predictor reads: the strength is then known to a few points


@dataclass(frozen=True)
class _Parsed:
    """The options in terms of a model's attributes, before the data is read."""

    interventions: list[Intervention]
    curves: dict[str, list[Intervention]]
    cohorts: dict[str, Set]
    hold: tuple[str, ...]
    explained: list[str]

    @classmethod
    def from_options(cls, options: AuditOptions, schema: Schema, graph: CausalGraph) -> _Parsed:
        cohorts, curves = parse_cohorts(schema, options.among), parse_curves(schema, options.curves)
        interventions = parse_interventions(schema, options.do, optional=bool(curves))
        names = {one.name for one in interventions}  # a point of a curve may be given as an intervention too
        interventions += [one for points in curves.values() for one in points if one.name not in names]
        hold = parse_held(graph, options.hold, interventions)
        return cls(interventions, curves, cohorts, hold, parse_explained(schema, options.explain))


def prepare(
    model: TrainedModel | Sequence[TrainedModel | str | Path],
    classifiers: AnyClassifier | Sequence[AnyClassifier],
    options: AuditOptions,
    *,
    processes: Processes | None = None,
    progress: Progress = False,
) -> Questions:
    """Everything that an audit asks; see `AuditOptions`.

    Args:
        model: makes the counterfactuals; the images are those of its data.  Of several models, the estimates are pooled.
        classifiers: one or more classifiers; further ones are compared with the first.
        options: the questions.
        processes: where to compute, and with how many processes; by default here, on the model's device.
        progress: of training a predictor, where that is needed.
    """
    several = [model] if isinstance(model, TrainedModel) else list(model)
    first = several[0]
    assert isinstance(first, TrainedModel)
    parsed = _Parsed.from_options(options, first.schema, first.scm.graph)
    given = as_list(classifiers)
    trusted = any(isinstance(one, ExternalClassifier) and one.trusted for one in given)
    models, data = matching_models(several, trusted), model_data(first, options.split)
    loaded = load_classifiers(given, first.module.image_shape, getattr(data, "target_kind", None))
    reported = {one.name: _reported(one, options.focus) for one in loaded}
    reader = check_predictor(options.predictor, first, parsed.interventions, trusted)
    data.prepare_data()  # from here on it can take long
    data.setup("test")
    x = data.images(options.split)[: options.count]
    questions = _questions(first, parsed, options, data, len(x))
    audited = [_audited(one, data, options.split, len(x), reported[one.name]) for one in loaded]
    _check_networks(loaded, x, first.schema.low.device if processes is None else processes.device)
    questions = replace(questions, models=tuple(models), classifiers=tuple(audited))
    questions = _with_requests(questions, models, parsed.explained, options.explain_count)
    pairs, outside = choose_pairs(questions, data, options.split, options.pairs)
    judge = choose_predictor(
        reader, options.predictor, first, data, questions.interventions, questions.columns, options.keep_residual,
        processes, progress,
    )  # fmt: skip
    material = Material(
        models=models,
        classifiers={one.name: one for one in loaded},
        x=x,
        data=data,
        options=options,
        predictor=judge.predictor,
        reads=_reads(questions, judge.predictor),
        read_rows=_chosen(questions, READ, "predictor"),
        outside=outside,
    )
    facts = without_nan(_facts(questions, material, judge.facts, loaded))
    return replace(questions, pairs=pairs, calibrated=judge.calibrated, material=material, facts=facts)


def _questions(model: TrainedModel, parsed: _Parsed, options: AuditOptions, data: ImageData, n: int) -> Questions:
    """The questions about the first n images of the data, without classifiers and requests."""
    training = data.columns("train")
    columns = {name: column[:n] for name, column in data.columns(options.split).items()}
    interventions = tuple(
        one.bind(model.schema, lambda name: float(training[name].double().std(correction=0)))
        for one in parsed.interventions
    )
    cohorts = cohorts_of(parsed.cohorts, columns, n)
    check_targets(interventions, columns, cohorts)
    return Questions(
        schema=model.schema,
        graph=model.scm.graph,
        ids=image_ids(data, options.split)[:n],
        columns=columns,
        interventions=interventions,
        requests={},
        cohorts=cohorts,
        classifiers=(),
        models=(),
        extra={name: column[:n] for name, column in parse_adjusted(data, options.split, options.adjust).items()},
        subgroups=subgroups_of(model.schema, columns, options.subgroups),
        hold=parsed.hold,
        curves={name: tuple(one.name for one in points) for name, points in parsed.curves.items()},
        local=parse_local(options.local, n, parsed.explained),
        has_truth=isinstance(data, KnowsTruth),
        keep_residual=options.keep_residual,
        seed=options.seed,
    )


def as_list(value: Any) -> list[Any]:
    """One or several, as a list."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _reported(classifier: LoadedClassifier, focus: Sequence[str]) -> tuple[str, ...]:
    """The classes that findings are wanted about: those in `focus`, or all."""
    if not isinstance(classifier.outcome, OneOfClasses):
        if focus:
            raise UserError(
                f"{classifier.name} has only yes and no; --class needs more than two classes", argument="class"
            )
        return ("",)
    for name in focus:
        if name not in classifier.outcome.classes:
            raise UserError(unknown_name("class", name, classifier.outcome.classes), argument="class")
    return tuple(name for name in classifier.outcome.classes if name in (focus or classifier.outcome.classes))


def _audited(
    classifier: LoadedClassifier, data: ImageData, split: str, n: int, reported: tuple[str, ...]
) -> AuditedClassifier:
    labels = labels_of(classifier, data, split, n)
    return AuditedClassifier(classifier.name, classifier.outcome, labels.meaning, labels.answers, reported)


def _check_networks(classifiers: Sequence[LoadedClassifier], x: Tensor, device: torch.device) -> None:
    """Refuses a classifier that returns invalid output on a few images."""
    images = as_unit_float(x[:CHECKED]).to(device)
    for one in classifiers:
        one.to(device)
        one.check(images)


def _with_requests(
    questions: Questions, models: Mapping[str, TrainedModel], explained: Sequence[str], count: int
) -> Questions:
    """The counterfactual attributes of all images by every model, and the toggles of the importance ranking."""
    columns = questions.columns
    chosen = _chosen(questions, count, "importance")
    toggles = Toggle.lines(questions.schema, columns, list(explained), chosen)
    rows = chosen.clone()
    rows[list(questions.local)] = True
    requests: dict[Picture, Request] = {}
    for name, model in models.items():
        for one in questions.interventions:
            mask = torch.from_numpy(one.target(columns))
            requests |= _requests(questions, name, model, one, mask)
        for one in toggles if name == questions.models[0] else ():
            requests |= _requests(questions, name, model, one, torch.from_numpy(one.target(columns)) & rows)
    return replace(questions, requests=requests, toggles=tuple(toggles), explained=chosen)


def _chosen(questions: Questions, count: int, purpose: str) -> Tensor:
    """A mask of `count` images, chosen at random by their ids."""
    rows = random_rows(questions.ids, questions.seed, purpose, count)
    return torch.from_numpy(np.isin(np.arange(len(questions.ids)), rows))


@torch.inference_mode()
def _requests(
    questions: Questions, name: str, model: TrainedModel, intervention: Intervention, mask: Tensor
) -> dict[Picture, Request]:
    """The attributes of the images in `mask` under an intervention; what is held keeps each image's own value."""
    device = model.schema.low.device
    held = [] if isinstance(intervention, Toggle) else questions.held_by(intervention)
    # the Attribute-SCM draws noise row by row: in an order that the ids decide, an image's noise does not depend on its place
    order = torch.from_numpy(random_order(questions.ids, questions.seed, "attributes"))
    place = order.argsort()
    columns = {key: column[order] for key, column in questions.columns.items()}
    found = {}
    for arm in intervention.arms(columns):
        do = {key: value.to(device) for key, value in arm.values.items()}
        do |= {key: columns[key].to(device) for key in held}
        a_c = asked_of(model.module, columns, do, questions.seed).a_c.cpu()[place]
        found[Picture(COUNTERFACTUAL, intervention.name, arm.name, name)] = Request(a_c[mask].clone(), mask)
    return found


def _reads(questions: Questions, predictor: Any) -> dict[str, list[str]]:
    """By intervention, the attributes that the predictor reads from its counterfactuals: those set, and their consequences."""
    if predictor is None:
        return {}
    found = {}
    for one in questions.interventions:
        judged = judged_attributes(questions.schema, one.attributes)
        if judged and all(same_kind(questions.schema, predictor.schema, name) for name in judged):
            changed = {*one.attributes, *questions.graph.descendants(one.attributes)} - set(questions.held_by(one))
            known = [name for name in questions.schema.names if name in changed and name in predictor.schema.attributes]
            found[one.name] = [name for name in known if same_kind(questions.schema, predictor.schema, name)]
    return found


def _facts(
    questions: Questions, material: Material, predictor: Mapping[str, Any] | None, loaded: Sequence[LoadedClassifier]
) -> dict[str, Any]:
    """What a reader should know about data, models, classifiers and predictor."""
    first, *others = material.models.values()
    described = [
        {"source": None if one.source is None else str(one.source), "sha256": fingerprint(one.source, one.module)}
        for one in (first, *others)
    ]
    images = data_fingerprint(material.x, questions.columns)
    return {
        "seed": questions.seed,
        "data": {"split": material.options.split, "images": len(questions.ids), "sha256": images},
        "model": {**described[0], "graph": [list(edge) for edge in questions.graph.edges]},
        "models": described[1:],
        "classifiers": [{"name": one.name, "sha256": fingerprint(one.source, one.network)} for one in loaded],
        "predictor": predictor,
        "assumed": list(_assumptions(questions, material, predictor, loaded)),
        "model_scores": model_scores(first),
    }


def _assumptions(
    questions: Questions, material: Material, predictor: Mapping[str, Any] | None, loaded: Sequence[LoadedClassifier]
) -> list[str]:
    """What the audit takes for granted without having been told so."""
    notes = [f"no intervention causes {name}, which is adjusted for" for name in questions.extra]
    match (predictor or {}).get("source"):
        case "calibration":
            notes.append("how strongly attributes are drawn is taken from the model's calibration")
        case "trained on the spot":
            notes.append("how strongly attributes are drawn is read by a predictor trained for this audit")
    target = getattr(material.data, "target_kind", None)
    notes += [
        f"the classes of {one.name} are numbered as the values of the data's target {target.name} are: "
        f"{', '.join(target.values)}"
        for one in loaded
        if one.classes_from_data and target is not None
    ]
    return notes + [note for one in questions.interventions for note in one.notes(questions.columns)]
