"""The pictures that every model is shown by: Fig. 3 or 5, and Appendices E and F."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cfgen import figures
from cfgen.attributes import Categorical, Continuous
from cfgen.counterfactual import Swept, sweep
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import ask_each

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["first_images", "model_figures"]

SHOWN = 24  # images of the reconstructions
FACES = 6  # rows of the counterfactuals of images with binary attributes
PAIRS = 6  # of the interpolations


def first_images(subject: Subject, seed: int, count: int) -> Swept:
    """The first images, asked for another value of every attribute."""
    rows = torch.arange(min(count, len(subject.x)))
    asked = ask_each(subject.mechanism, subject.columns, seed)
    batches = sweep(subject.mechanism, subject.x, subject.columns, asked, seed=seed, batch_size=count, only=rows)
    return next(batches)


def model_figures(subject: Subject, seed: int) -> dict[str, Figure]:
    """What every model is shown by, drawn from the first images of the split."""
    batch = first_images(subject, seed, SHOWN)
    found = {"reconstructions": figures.reconstructions(batch)}
    if len(batch) > 1:
        found["interpolations"] = figures.interpolations(batch, min(PAIRS, len(batch) // 2))
    return found | {"counterfactual_grid": counterfactuals(subject, batch, seed)}


def counterfactuals(subject: Subject, batch: Swept, seed: int) -> Figure:
    """One image under pairs of interventions (Fig. 3) where an attribute is continuous, else several under each (Fig. 5)."""
    schema = subject.schema
    across = {name: low_to_high(subject.columns[name]) for name in schema.continuous}
    if not across:
        return figures.counterfactual_rows(first_images(subject, seed, FACES))
    down: dict[str, list[Any]] = {}
    for name, attribute in schema.attributes.items():
        if isinstance(attribute, Categorical):
            last = attribute.size - 1
            down[name] = [attribute.values[i] for i in sorted({1 * last // 9, 4 * last // 9, 6 * last // 9, last})]
        elif not isinstance(attribute, Continuous):
            down[name] = [0, 1]
    return figures.counterfactual_grid(batch, down, across)


def low_to_high(column: Tensor) -> list[float]:
    """Low, middling and high values, short enough to read."""
    quantiles = torch.quantile(column.double().cpu(), torch.tensor([0.02, 0.5, 0.98], dtype=torch.double))
    return [float(f"{value:.3g}") for value in quantiles.tolist()]
