"""Which images have a true counterfactual that an audit uses."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from cfgen.audit.questions import Questions
from cfgen.contracts import ImageData
from cfgen.errors import UserError
from cfgen.image_ids import random_rows
from cfgen.interventions import Intervention
from cfgen.runs.pairs import OutsidePairs, read_pairs, true_pairs

FEWEST = 10


def choose_pairs(
    questions: Questions, data: ImageData, split: str, pairs: int | str | Path | None
) -> tuple[dict[str, Tensor], OutsidePairs | None]:
    """The images whose true counterfactual is used, by intervention; or pairs of pictures from a table."""
    if pairs is None:
        return {}, None
    if isinstance(pairs, (str, Path)):
        outside = read_pairs(pairs, data, questions.schema)
        if not any(outside.matching(one) for one in questions.interventions):
            raise UserError(
                f"it has pairs for {'; '.join(outside.interventions)}, and none of the interventions is among these",
                argument="pairs",
            )
        return {}, outside
    if pairs < FEWEST:
        raise UserError(f"expected {FEWEST} pairs or more, not {pairs}", argument="pairs")
    chosen = {}
    for one in questions.interventions:
        if len(one.arms(questions.columns)) > 1:  # both pictures would have to be known
            continue
        target = one.target(questions.columns)
        rows = torch.from_numpy(random_rows(questions.ids, questions.seed, f"pairs of {one.name}", pairs, target))
        if make_pairs(questions, data, split, one, rows[:1]) is not None:
            chosen[one.name] = torch.zeros(len(questions.ids), dtype=torch.bool).index_fill_(0, rows, True)
    if not chosen:
        raise UserError(
            "this data cannot make true counterfactuals of any of the interventions; give a table of before and after "
            "pictures instead",
            argument="pairs",
        )
    return chosen, None


def make_pairs(
    questions: Questions, data: ImageData, split: str, intervention: Intervention, rows: Tensor
) -> Tensor | None:
    """The true counterfactuals of some images, uint8; None where the data cannot make them."""
    arm = intervention.arms(questions.columns)[-1]
    a_c = questions.requests[questions.compared(intervention)[1]].attributes(rows)
    held = questions.held_by(intervention)
    return true_pairs(data, questions.schema, split, rows, arm.rows(rows), a_c, held)
