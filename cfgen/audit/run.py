"""An audit's computing: a classifier's answers for images, their base images and counterfactuals (Eq. 3 and 1), as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cfgen.attributes import Continuous, Schema
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.transformations import AFFINE
from cfgen.audit.truth import true_images
from cfgen.contracts import KnowsTruth, ReadsAttributes
from cfgen.counterfactual import Asked, Swept, as_unit_float, asked_of, sweep
from cfgen.processes import Processes
from lightning_modules import ImageMechanismModule, ResidualKept

__all__ = ["Images", "Triple", "compute_scores", "do_column", "example_images", "interventions_asked", "readable"]


@dataclass(frozen=True)
class Images:
    """The images to audit, (N, C, H, W) as bytes, their attributes in real units, and the split they are the first N of.

    `truth` is the data where it knows the true counterfactuals.
    """

    x: Tensor
    columns: Mapping[str, Tensor]
    split: str
    truth: KnowsTruth | None = None


class Triple(NamedTuple):
    """The images behind rows of the table: real, base and counterfactual."""

    x: Tensor
    x_r: Tensor
    x_c: Tensor


def compute_scores(
    mechanism: ImageMechanismModule,
    classifier: nn.Module,
    images: Images,
    plan: Plan,
    *,
    predictor: ReadsAttributes | None = None,
    processes: Processes | None = None,
    advance: Callable[[int], None] = lambda images: None,
) -> Scores:
    """The table of answers, the same on every process; `classifier` gives p(positive class | image).

    Each image is abducted once and each counterfactual decoded once.  Memory is bounded by a batch of images: what grows with
    their number is a row of the table each.  Classifier and predictor are moved to the mechanism's device, and all three to
    that of `processes` where it is given.
    """
    device = mechanism.scm.schema.low.device
    if processes is not None:
        processes.launch()
        device = processes.device
    mechanism = audited_mechanism(mechanism, plan).to(device)
    for module in (classifier, predictor):
        if isinstance(module, nn.Module):
            module.to(device)
    names = column_names(mechanism.scm.schema, plan, predictor, images.truth is not None)
    values = torch.zeros(len(images.x), len(names))
    batches = sweep(
        mechanism,
        images.x,
        images.columns,
        interventions_asked(mechanism, images.columns, plan),
        seed=plan.seed,
        batch_size=plan.batch_size,
        share=processes.share if processes is not None else (0, 1),
        advance=advance,
    )
    for batch in batches:
        answers = answer_batch(batch, classifier, images, plan, predictor)
        values[batch.rows] = torch.stack([answers[name].to("cpu", torch.float32) for name in names], dim=1)
    # other processes' rows are 0 here, and 0 + value is that value to the bit
    return Scores(names, values if processes is None else processes.sum(values))


def audited_mechanism(mechanism: ImageMechanismModule, plan: Plan) -> ImageMechanismModule:
    return ResidualKept(mechanism) if plan.keep_residual else mechanism


def do_column(name: str) -> str:
    """The table's column of an intervention, which also is its name in the sweep."""
    return f"do/{name}"


def column_names(schema: Schema, plan: Plan, predictor: ReadsAttributes | None, truth_known: bool) -> list[str]:
    names = ["real", "base", "mse", *AFFINE, *map(do_column, plan.do)]
    names += ["own"] if plan.keep_residual else []
    names += [f"flip/{name}" for name in plan.explain]
    names += [f"{kind}/{name}" for name in readable(schema, predictor, plan) for kind in ("seen", "floor")]
    names += [f"{kind}/{name}" for name in plan.do for kind in ("true", "error", "untouched")] if truth_known else []
    return names


@torch.inference_mode()
def interventions_asked(mechanism: ImageMechanismModule, columns: Mapping[str, Tensor], plan: Plan) -> dict[str, Asked]:
    """`do/NAME` of the images that it changes, and `flip/ATTRIBUTE` of those that are explained and that no `do/NAME` asks the
    very same of."""
    asked = {
        do_column(name): asked_of(mechanism, columns, do, plan.seed, changed_only=True) for name, do in plan.do.items()
    }
    for name in plan.explain:
        own = columns[name]
        of = torch.arange(len(own)) < plan.explain_count
        for label in interventions_on(plan, name):
            of &= ~asked[do_column(label)].of
        a_c = asked_of(mechanism, columns, {name: 1 - own}, plan.seed).a_c
        asked[f"flip/{name}"] = Asked(a_c[: plan.explain_count].clone(), of)  # nothing is asked of later rows
    return asked


def interventions_on(plan: Plan, attribute: str) -> list[str]:
    """The plan's interventions on that attribute alone: for an image that they change, they ask for the other value."""
    return [label for label, do in plan.do.items() if list(do) == [attribute]]


@torch.inference_mode()
def answer_batch(
    batch: Swept, classifier: nn.Module, images: Images, plan: Plan, predictor: ReadsAttributes | None
) -> dict[str, Tensor]:
    """All columns of the table for these images."""
    real, x_r = classifier(batch.x), batch.x_r
    answers = {"real": real, "base": real if x_r is batch.x else classifier(x_r)}
    own = batch.own_x_r if plan.keep_residual else x_r
    answers["mse"] = (batch.x - own).square().mean((1, 2, 3))
    if plan.keep_residual:
        answers["own"] = classifier(own)
    answers |= {name: classifier(transform(x_r)) for name, transform in AFFINE.items()}
    predictions = readable(batch.mechanism.scm.schema, predictor, plan)
    if predictor is not None:
        answers |= floors(batch, predictor.read(batch.x), predictions, images.columns)
    for name, do in plan.do.items():
        column = do_column(name)
        x_c = decode_once(batch, column)
        answers[column] = batch.spread(column, ask(classifier, x_c))
        if images.truth is not None:
            distances = compare_with_truth(batch, classifier, images.truth, images.split, name, do, x_c)
            answers |= {f"{kind}/{name}": batch.spread(column, values) for kind, values in distances.items()}
        if predictor is not None and name in predictions:
            seen = matches(predictor.read(x_c), predictions[name]) if len(x_c) else x_c.new_empty(0)
            answers[f"seen/{name}"] = batch.spread(column, seen)
    return answers | {f"flip/{name}": flip(batch, classifier, plan, name, answers) for name in plan.explain}


def decode_once(batch: Swept, column: str) -> Tensor:
    """The counterfactuals of a question, which the batch does not keep: nothing else looks at them."""
    return batch.decode(batch.a_c(column), batch.of(column))


def ask(classifier: nn.Module, images: Tensor) -> Tensor:
    """The classifier's answers; there may be no image to ask about."""
    return classifier(images) if len(images) else images.new_empty(0)


def flip(batch: Swept, classifier: nn.Module, plan: Plan, name: str, answers: Mapping[str, Tensor]) -> Tensor:
    """p under do(name = the other value).  Where an intervention of the plan is just that, its answer is taken."""
    column = f"flip/{name}"
    values = batch.spread(column, ask(classifier, decode_once(batch, column)))
    explained = (batch.rows < plan.explain_count).to(values.device)
    for label in interventions_on(plan, name):
        values = torch.where(values.isnan() & explained, answers[do_column(label)], values)
    return values


def compare_with_truth(
    batch: Swept, classifier: nn.Module, data: KnowsTruth, split: str, name: str, do: Mapping[str, Any], x_c: Tensor
) -> dict[str, Tensor]:
    """The classifier's answers for the true counterfactual images, and how far x_c and x are from these."""
    of = batch.of(do_column(name))
    if not of.any():
        return dict.fromkeys(("true", "error", "untouched"), x_c.new_empty(0))
    truth = true_images(data, batch.mechanism.scm.schema, split, batch.rows[of], do)
    x_true, x = as_unit_float(truth).to(batch.x.device), batch.x[of.to(batch.x.device)]
    return {
        "true": classifier(x_true),
        "error": (x_c - x_true).abs().mean((1, 2, 3)),
        "untouched": (x - x_true).abs().mean((1, 2, 3)),
    }


def readable(schema: Schema, predictor: ReadsAttributes | None, plan: Plan) -> dict[str, dict[str, float]]:
    """The values that a predictor should see under each intervention that it can judge.

    Continuous attributes are left out, for they are seen more or less.  The predictor has to know the others as the same thing.
    """
    values: dict[str, dict[str, float]] = {}
    if predictor is None:
        return values
    for text, do in plan.do.items():
        names = [name for name in do if not isinstance(schema[name], Continuous)]
        if names and all(schema[name] == predictor.schema.attributes.get(name) for name in names):
            wanted = schema.check_do(do)
            values[text] = {name: wanted[name].item() for name in names}
    return values


def matches(columns: Mapping[str, Tensor], values: Mapping[str, float]) -> Tensor:
    """Which rows have all these values.

    >>> matches({"Young": torch.tensor([1.0, 0.0]), "Bangs": torch.tensor([1.0, 1.0])}, {"Young": 1, "Bangs": 1})
    tensor([ True, False])
    """
    return torch.stack([columns[name].round() == value for name, value in values.items()]).all(dim=0)


def floors(
    batch: Swept,
    read: Mapping[str, Tensor],
    predictions: Mapping[str, Mapping[str, float]],
    columns: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Whether the predictor sees it in real images that have it: where it does not, the model is not to blame."""
    answers = {}
    for name, values in predictions.items():
        has = matches({k: columns[k][batch.rows] for k in values}, values).to(batch.x.device)
        answers[f"floor/{name}"] = matches(read, values).float().masked_fill(~has, torch.nan)
    return answers


def example_images(mechanism: ImageMechanismModule, images: Images, plan: Plan, name: str, rows: Tensor) -> Triple:
    """The images of some rows under an intervention: those that `compute_scores` put to the classifier."""
    mechanism = audited_mechanism(mechanism, plan)
    with torch.inference_mode():
        asked = {name: asked_of(mechanism, images.columns, plan.do[name], plan.seed)}
    batches = sweep(
        mechanism, images.x, images.columns, asked, seed=plan.seed, batch_size=plan.batch_size, only=rows
    )  # fmt: skip
    triples = [(batch.x, batch.x_r, batch.x_c(name)) for batch in batches]
    return Triple(*(torch.cat(parts).cpu() for parts in zip(*triples, strict=True)))
