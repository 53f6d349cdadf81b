"""Effectiveness of counterfactual digits (Section 5.1): ask for values, intervene, measure what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Columns, Schema
from cfgen.counterfactual import ImageMechanism, as_unit_float
from cfgen.metrics import MedianAbsError
from cfgen.morpho import MEASURES, measure
from cfgen.scm import AttributeSCM

__all__ = ["Comparison", "compare", "measurable", "measured_columns", "median_abs_errors", "requested_values"]


class Comparison(NamedTuple):
    """Attribute `attribute` of a batch of images made by `intervention`: what was measured and what should have been."""

    intervention: str
    attribute: str
    measured: Tensor
    target: Tensor


def measurable(schema: Schema) -> list[str]:
    """The continuous attributes that morphometry can measure on an image."""
    return [name for name in schema.continuous if name in MEASURES]


def requested_values(columns: Columns, schema: Schema, seed: int) -> dict[str, Tensor]:
    """Values to intervene with, one for each image and measurable attribute: the observed ones in a random order.

    Those outside of the model's range (that of its training split) are moved to its edge.
    """
    generator = torch.Generator().manual_seed(seed)
    orders = {name: torch.randperm(len(columns[name]), generator=generator) for name in measurable(schema)}
    return {name: columns[name][order].clamp(*schema.bounds(name)) for name, order in orders.items()}


def measured_columns(x: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """Morphometry of grey images (N, 1, H, W) in [0, 1], as columns in real units on the images' device."""
    pixels = x[:, 0].float().mul(255).round_().clamp_(0, 255).to(torch.uint8).cpu().numpy()
    return {
        name: torch.from_numpy(column).to(x.device, torch.float32) for name, column in measure(pixels, names).items()
    }


@torch.inference_mode()
def compare(
    mechanism: ImageMechanism,
    scm: AttributeSCM,
    x: Tensor,
    columns: Columns,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
    batch_size: int = 250,
    values: int = 1,
) -> Iterator[Comparison]:
    """Every measurable attribute j under every do(k), a batch at a time, for `values` values of k drawn with `seed`.

    Under do(k) the attributes that should move are compared with their new value, the others with their old one.  The
    interventions `floor` (real images against their own labels: the measure's own error) and `untouched` (real images
    against the value requested for j: what doing nothing scores) stand beside.  With `share` (i, n) only every n-th image
    from the i-th is taken, for n processes; what is asked of an image does not depend on it.
    """
    device = scm.schema.low.device
    columns = {name: column.to(device) for name, column in columns.items()}
    names = measurable(scm.schema)
    a = scm.schema.encode(columns)
    rounds = [requested_values(columns, scm.schema, seed * values + number) for number in range(values)]
    counterfactual = [
        (k, scm.counterfactual_vector(a, {k: requested[k]}, torch.Generator(device).manual_seed(seed)))
        for requested in rounds
        for k in names
    ]
    mine = torch.arange(share[0], len(x), share[1])
    for rows in mine.split(batch_size):
        images = as_unit_float(x[rows]).to(device)
        real = measured_columns(images, names)
        for intervention, target in (("floor", columns), ("untouched", rounds[0])):
            yield from (Comparison(intervention, j, real[j], target[j][rows]) for j in names)
        z = mechanism.abduct(images, a[rows])
        for k, a_c in counterfactual:
            found, target = measured_columns(mechanism.decode(z, a_c[rows]), names), scm.schema.decode(a_c[rows])
            yield from (Comparison(f"do({k})", j, found[j], target[j]) for j in names)


def median_abs_errors(comparisons: Iterator[Comparison]) -> dict[tuple[str, str], MedianAbsError]:
    """One metric for each (intervention, attribute), fed with all comparisons; not computed, so not yet reduced."""
    metrics: dict[tuple[str, str], MedianAbsError] = {}
    for intervention, attribute, measured, target in comparisons:
        metric = metrics.setdefault((intervention, attribute), MedianAbsError().to(measured.device))
        metric.update(measured, target)
    return metrics
