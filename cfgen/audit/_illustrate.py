"""`illustrate`: draws the few example images that a report shows, as they were counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cfgen.audit._findings import ClassifierResult
from cfgen.audit.answers import COUNTERFACTUAL, Picture
from cfgen.audit.questions import Questions
from cfgen.audit.result import AuditResult
from cfgen.counterfactual import sweep
from cfgen.image_ids import random_rows
from cfgen.interventions import Intervention

EXAMPLES = 4  # images shown for each intervention and direction


class FlipExamples(NamedTuple):
    """Some images whose answer an intervention flips to yes (`up`) or to no (`down`), by one classifier.

    `compared` names the two pictures next to the real one; under a contrast they are counterfactuals at either value.
    `before` and `after` are the probabilities of yes for these two.
    """

    classifier: str
    intervention: str
    direction: str
    real: Tensor
    base: Tensor
    counterfactual: Tensor
    before: Sequence[float]
    after: Sequence[float]
    compared: tuple[str, str] = ("reconstruction", "counterfactual")


class Pictures(NamedTuple):
    """The example images of a report; `local` are images by their numbers, uint8 (C, H, W)."""

    flips: Sequence[FlipExamples] = ()
    local: Mapping[int, Tensor] = {}


def illustrate(questions: Questions, result: AuditResult) -> Pictures:
    """Examples of images whose answer flips, and the images that are explained one by one."""
    material = questions.loaded()
    flips = [
        examples
        for one in result.detailed
        if one.outcome.flips
        for intervention in questions.interventions
        if intervention.name not in questions.in_curves
        for examples in _flip_examples(questions, result, one, intervention)
    ]
    # a view would keep all images in memory
    return Pictures(flips, {number: material.x[number].clone() for number in questions.local})


def _flip_examples(
    questions: Questions, result: AuditResult, one: ClassifierResult, intervention: Intervention
) -> Iterator[FlipExamples]:
    before, after = questions.compared(intervention)
    raw = [result.answers[one.classifier, picture] for picture in (before, after)]
    column = one.outcome.columns.index(one.class_name)
    was, now = (one.outcome.answers(part, one.class_name) for part in raw)
    flipped = {"up": (was == 0) & (now == 1), "down": (was == 1) & (now == 0)}
    arms = intervention.arms(questions.columns)
    compared = ("reconstruction", "counterfactual") if len(arms) == 1 else (arms[0].title, arms[1].title)
    for direction, mask in flipped.items():
        rows = torch.from_numpy(random_rows(questions.ids, questions.seed, "examples", EXAMPLES, mask))
        if len(rows):
            x, base, x_c = _draw(questions, before, after, rows)
            p = [part[rows.numpy(), column].tolist() for part in raw]
            yield FlipExamples(one.name, intervention.name, direction, x, base, x_c, p[0], p[1], compared)


@torch.inference_mode()
def _draw(questions: Questions, before: Picture, after: Picture, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The images of some rows, what they are compared with, and their counterfactuals."""
    material = questions.loaded()
    mechanism = material.mechanism(questions.models[0])
    device = mechanism.scm.schema.low.device
    triples = []
    for batch in sweep(
        mechanism,
        material.x,
        questions.columns,
        seed=questions.seed,
        keys=questions.keys,
        batch_size=material.options.batch_size,
        only=rows,
    ):
        drawn = [
            batch.decode(questions.requests[picture].attributes(batch.rows).to(device))
            if picture.picture == COUNTERFACTUAL
            else batch.x_r
            for picture in (before, after)
        ]
        triples.append((batch.x, *drawn))
    x, base, x_c = (torch.cat(parts).cpu() for parts in zip(*triples, strict=True))
    return x, base, x_c
