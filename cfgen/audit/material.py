"""What an audit works with beside classifier and plan: the model's data, further models, true pairs, example images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.audit.asking import do_column, intervention_asked
from cfgen.audit.columns import scores_of, table_names
from cfgen.audit.estimating import OutsideAnswers
from cfgen.audit.pairs import OutsidePairs, read_pairs, true_pairs
from cfgen.audit.plan import Plan, Scores, do_of, held
from cfgen.audit.results import flips
from cfgen.audit.run import Images, audited_mechanism, example_images
from cfgen.audit.shown import Flip, flip_name
from cfgen.contracts import ImageData
from cfgen.counterfactual import as_unit_float, sweep
from cfgen.errors import UserError
from cfgen.external.answers import Regressor
from cfgen.interventions import Contrast, Shift
from cfgen.runs.data import run_data, run_folder
from cfgen.runs.model import TrainedModel, load_trained
from cfgen.io.files import read_json
from lightning_modules import ImageMechanismModule

__all__ = [
    "choose_pairs",
    "fitting_models",
    "flip_examples",
    "model_data",
    "model_scores",
    "outside_answers",
    "plain",
    "read_data",
]

EXAMPLES = 4  # images shown of each intervention and direction
FEWEST_PAIRS = 10


def plain(value: Any) -> Any:
    """Options as values of JSON; an object stands as the name of its class, a model as what it was loaded from."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case TrainedModel():
            return plain(value.source)
        case Shift() | Contrast():
            return str(value)
        case _:
            return type(value).__name__


def model_data(model: TrainedModel, split: str) -> ImageData:
    """The data that the model was trained on, not read yet."""
    if split not in ("test", "val"):
        raise UserError(f"expected test or val, not {split!r}", argument="split")
    if model.source is None:
        raise UserError(
            "this model was not loaded from a run or a folder, so its data is not known; load it with cfgen.load",
            argument="model",
        )
    return run_data(model.source, model.trusted)


def read_data(model: TrainedModel, split: str) -> ImageData:
    """The same, read."""
    data = model_data(model, split)
    data.prepare_data()
    data.setup("test")
    return data


def fitting_models(
    model: TrainedModel, others: Sequence[TrainedModel | str | Path], trusted: bool = False
) -> list[TrainedModel]:
    """Further models, if they make images of the same kind, of the same attributes and by the same graph."""
    found: list[TrainedModel] = []
    for given in others:
        try:
            device = model.schema.low.device
            other = given if isinstance(given, TrainedModel) else load_trained(given, device, trusted)
        except UserError as error:
            raise UserError(str(error), argument="model") from error
        folders = [run_folder(one.source).resolve() for one in (model, *found, other) if one.source is not None]
        if other.source is not None and folders[-1] in folders[:-1]:
            raise UserError(
                f"{other.source} is given twice; a model agrees with itself, which says nothing", argument="model"
            )
        if other.module.image_shape != model.module.image_shape:
            raise UserError(
                f"{other.source} makes images of shape {other.module.image_shape}, and {model.source} of "
                f"{model.module.image_shape}; several models must be of the same data",
                argument="model",
            )
        difference = model.schema.difference(other.schema)
        if difference or set(model.scm.graph.edges) != set(other.scm.graph.edges):
            raise UserError(
                f"{other.source} has other attributes or another causal graph than {model.source}"
                f"{f' ({difference})' if difference else ''}; several models must be of the same data",
                argument="model",
            )
        found.append(other)
    return found


def choose_pairs(
    images: Images, data: ImageData, model: TrainedModel, plan: Plan, pairs: int | str | Path | None
) -> tuple[Images, OutsidePairs | None]:
    """The images with their true pairs marked, where a number is asked for; or pairs of pictures from a table."""
    if pairs is None:
        return images, None
    if isinstance(pairs, (str, Path)):
        outside = read_pairs(pairs, data, model.schema)
        if not any(do in outside for name, do in plan.do.items() if is_value(plan, name)):
            raise UserError(
                f"it has pairs for {'; '.join(outside.interventions)}, and none of the interventions is among these",
                argument="pairs",
            )
        return images, outside
    if pairs < FEWEST_PAIRS:
        raise UserError(f"expected {FEWEST_PAIRS} pairs or more, not {pairs}", argument="pairs")
    chosen = {}
    generator = torch.Generator().manual_seed(plan.seed)
    for name in plan.do:
        if name in plan.start:  # of a contrast, both images would have to be known
            continue
        asked = intervention_asked(model.module, images.columns, plan, name)
        rows = asked.of.nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=generator)[:pairs]]
        if make_pairs(data, model, images.split, plan, rows[:1], name, asked.a_c[rows[:1]]) is not None:
            chosen[name] = torch.zeros(len(images.x), dtype=torch.bool).index_fill_(0, rows, True)
    if not chosen:
        raise UserError(
            "this data cannot make true counterfactuals of any of the interventions; give a table of before and after "
            "pictures instead",
            argument="pairs",
        )
    make = partial(make_pairs, data, model, images.split, plan)
    return replace(images, pairs=chosen, true_pairs=make), None


def make_pairs(
    data: ImageData, model: TrainedModel, split: str, plan: Plan, rows: Tensor, name: str, a_c: Tensor
) -> Any:
    kept = held(plan, model.scm.graph, plan.do[name])
    return true_pairs(data, model.schema, split, rows, do_of(plan, name, rows), a_c, kept)


def is_value(plan: Plan, name: str) -> bool:
    """Whether an intervention sets one value, and neither shifts nor compares."""
    return name not in plan.shifts and name not in plan.start


@torch.inference_mode()
def outside_answers(
    mechanism: ImageMechanismModule,
    classifiers: Mapping[str, nn.Module],
    pairs: OutsidePairs | None,
    plan: Plan,
    threshold: float,
) -> dict[str, dict[str, OutsideAnswers]]:
    """By table and intervention: answers for the pictures before and after, and for the model's counterfactuals."""
    found: dict[str, dict[str, OutsideAnswers]] = {
        name: {} for key, classifier in classifiers.items() for name in table_names(key, classifier)
    }
    mechanism = audited_mechanism(mechanism, plan)
    for name, do in plan.do.items() if pairs is not None else ():
        assert pairs is not None
        if not is_value(plan, name) or do not in pairs:
            continue
        before, after, columns = pairs.of(do)
        asked = {name: intervention_asked(mechanism, columns, plan, name, changed_only=False)}
        batches = sweep(mechanism, before, columns, asked, seed=plan.seed, batch_size=plan.batch_size)
        drawn = torch.cat([batch.x_c(name) for batch in batches])
        for key, classifier in classifiers.items():
            parts = [
                torch.cat([classifier(part) for part in images.to(drawn.device).split(plan.batch_size)]).cpu()
                for images in (as_unit_float(before), as_unit_float(after), drawn)
            ]
            mine, value = table_names(key, classifier), isinstance(classifier, Regressor)
            tables = [
                scores_of([name], mine, p[None, :, None] if p.ndim == 1 else p.T[..., None], value) for p in parts
            ]
            for table in mine:
                answers = (part[table].answers(name, threshold).double().numpy() for part in tables)
                found[table][name] = OutsideAnswers(*answers)
    return found


def flip_examples(
    mechanism: ImageMechanismModule, images: Images, plan: Plan, scores: Scores, threshold: float
) -> dict[str, Flip]:
    """Some images of each intervention and direction, by the names of their figures; as they were counted."""
    examples = {}
    curve_points = {text for points in plan.curves.values() for text in points}
    for name in plan.do:
        if name in curve_points or scores.value:
            continue
        before, after = scores[scores.base_of(name)], scores[do_column(name)]
        for way, rows in flips(scores, name, threshold, EXAMPLES, plan.seed).items():
            if len(rows):
                triple = example_images(mechanism, images, plan, name, rows)
                flip = Flip(triple, before[rows], after[rows])
                if name in plan.start:
                    flip = flip._replace(compared=(assigned(plan.start[name]), assigned(plan.do[name])))
                examples[flip_name(way, name)] = flip
    return examples


def assigned(values: Mapping[str, float]) -> str:
    """
    >>> assigned({"size": 10.0})
    'size=10'
    """
    return ", ".join(f"{name}={value:g}" for name, value in values.items())


def model_scores(model: TrainedModel) -> dict[str, Any]:
    """What `cfgen evaluate` measured of the model, where it was run."""
    try:
        return read_json(model.folder / "metrics.json") if model.folder is not None else {}
    except UserError:
        return {}
