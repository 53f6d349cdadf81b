"""Effectiveness of counterfactuals whose attributes can be measured (Section 5.1): ask for values, intervene, measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.contracts import CausalImageMechanism, MeasuresImages
from cfgen.counterfactual import BATCH_SIZE, Swept, sweep
from cfgen.metrics.asked import ask_each, asked_values, do_name
from cfgen.metrics.median_abs_error import MedianAbsError

__all__ = ["Comparison", "compare", "compare_batch", "median_abs_errors"]


class Comparison(NamedTuple):
    """Attribute `attribute` of a batch of images made by `intervention`: what was measured and what should have been."""

    intervention: str
    attribute: str
    measured: Tensor
    target: Tensor


@torch.inference_mode()
def compare_batch(
    batch: Swept, data: MeasuresImages, columns: Columns, values: Mapping[str, Tensor], names: Sequence[str]
) -> Iterator[Comparison]:
    """Every measurable attribute j of `names` under every do(k), for a batch of a sweep that was asked for these.

    Under do(k) the attributes that should move are compared with their new value, the others with their old one.  The
    interventions `floor` (real images against their own labels: the measure's own error) and `untouched` (real images
    against the value asked of j: what doing nothing scores) stand beside.
    """
    real = data.measure(batch.x, names)
    for intervention, target in (("floor", columns), ("untouched", values)):
        yield from (Comparison(intervention, j, real[j], target[j][batch.rows].to(batch.x.device)) for j in names)
    schema = batch.mechanism.scm.schema
    for k in names:
        measured, target = data.measure(batch.x_c(do_name(k)), names), schema.decode(batch.a_c(do_name(k)))
        yield from (Comparison(do_name(k), j, measured[j], target[j]) for j in names)


def compare(
    mechanism: CausalImageMechanism,
    data: MeasuresImages,
    x: Tensor,
    columns: Columns,
    names: Sequence[str],
    *,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
    batch_size: int = BATCH_SIZE,
) -> Iterator[Comparison]:
    """`compare_batch` over a data set, with the values of k drawn with `seed`."""
    columns = {name: column.cpu() for name, column in columns.items()}
    values = asked_values(columns, mechanism.scm.schema, seed)
    asked = ask_each(mechanism, columns, seed, names)
    for batch in sweep(mechanism, x, columns, asked, seed=seed, share=share, batch_size=batch_size):
        yield from compare_batch(batch, data, columns, values, names)


def median_abs_errors(
    comparisons: Iterable[Comparison], names: Sequence[str], device: torch.device | str = "cpu"
) -> dict[tuple[str, str], MedianAbsError]:
    """One metric for each (intervention, attribute) of `names`, fed with all comparisons; not computed, so not yet reduced."""
    interventions = ["floor", "untouched", *map(do_name, names)]
    # made beforehand: a process without images has to take part in reducing them too
    metrics = {(do, j): MedianAbsError().to(device) for do in interventions for j in names}
    for intervention, attribute, measured, target in comparisons:
        metrics[intervention, attribute].update(measured, target)
    return metrics
