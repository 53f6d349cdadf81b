"""Effectiveness as morphometry measures it (Table 1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.evaluation.metrics.batches import BATCH
from cfgen.metrics.effectiveness import Comparison, compare, measurable
from lightning_modules import ImageMechanismModule

__all__ = ["measured"]


def measured(
    mechanism: ImageMechanismModule, values: int, seen: list[Comparison], x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image, `median_abs_error/do(k)/j`: |measured - target| of attribute j under do(k = the value asked).

    With several `values`, each image is asked for as many of every k, and has a row of them.

    Beside it `floor` (real images against their own values) and `untouched` (real images against the value asked of j).  An
    image on which nothing can be measured is infinitely wrong.  What was compared is appended to `seen`, for the scatter.
    """
    kinds = len(measurable(mechanism.scm.schema))
    steps = compare(mechanism, mechanism.scm, x, columns, seed, batch_size=BATCH, values=values)
    while batch := list(
        islice(steps, kinds * (kinds * values + 2))
    ):  # every do() of every attribute, floor and untouched
        seen += batch
        errors: dict[str, list[Tensor]] = {}
        for do, j, found, target in batch:
            wrong_by = (found - target).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
            errors.setdefault(f"median_abs_error/{do}/{j}", []).append(wrong_by)
        yield {name: parts[0] if len(parts) == 1 else torch.stack(parts, dim=1) for name, parts in errors.items()}
