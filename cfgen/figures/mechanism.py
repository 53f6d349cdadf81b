"""The paper's figures, one function each: a batch of a sweep in, a matplotlib figure out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.attributes import Binary, Continuous, Schema
from cfgen.contracts import interpolate, rows
from cfgen.counterfactual import Swept
from cfgen.figures.grid import image_grid
from cfgen.metrics import MedianAbsError
from cfgen.metrics.asked import do_name
from cfgen.metrics.effectiveness import Comparison

__all__ = [
    "ablation_rows",
    "counterfactual_grid",
    "counterfactual_rows",
    "interpolations",
    "misclassified_labels",
    "reconstructions",
    "target_against_measured",
]


def reconstructions(batch: Swept, columns: int = 12) -> Figure:
    """Appendix F: real images, and below each its reconstruction x_r."""
    lines: list[list[Tensor]] = []
    for start in range(0, len(batch), columns):
        part = slice(start, start + columns)
        lines += [list(batch.x[part]), list(batch.x_r[part])]
    return image_grid(lines, rows=["real", "reconstructed"] * (len(lines) // 2))


@torch.inference_mode()
def interpolations(batch: Swept, pairs: int = 6, steps: int = 8) -> Figure:
    """Appendix E: real images at both ends, decoded mixtures of their states (and attributes) between them."""
    left, right = slice(0, pairs), slice(pairs, 2 * pairs)
    z_left, z_right, a = rows(batch.z, left), rows(batch.z, right), batch.a
    between = [
        batch.mechanism.decode(interpolate(z_left, z_right, t), torch.lerp(a[left], a[right], t))
        for t in torch.linspace(0, 1, steps).tolist()
    ]
    lines = [[batch.x[i], *(images[i] for images in between), batch.x[pairs + i]] for i in range(pairs)]
    return image_grid(lines, columns=["real", *[""] * steps, "real"])


@torch.inference_mode()
def counterfactual_grid(batch: Swept, down: Mapping[str, Sequence[Any]], across: Mapping[str, Sequence[Any]]) -> Figure:
    """Fig. 3: the first image of a batch, top left; down, interventions of `down`; across, on top of them, of `across`.

    Continuous values outside of the model's range are moved to its edge.
    """
    scm = batch.mechanism.scm
    downs: list[dict[str, Any]] = [{}, *({name: value} for name, values in down.items() for value in values)]
    acrosses = [{}, *({name: within(scm.schema, name, v)} for name, values in across.items() for v in values)]
    first = torch.zeros(len(batch), dtype=torch.bool)
    first[0] = True
    lines = [
        [batch.decode(scm.counterfactual_vector(batch.a[:1], one | other), first)[0] for other in acrosses]
        for one in downs
    ]
    lines[0][0] = batch.x[0]  # the top-left cell is the real image
    heads = [describe(do) for do in acrosses[1:]]
    return image_grid(lines, ["", *heads], ["real", *(describe(do).replace("\n", " ") for do in downs[1:])])


def counterfactual_rows(batch: Swept) -> Figure:
    """Fig. 5, Appendix J: images, their reconstructions, and counterfactuals with each binary attribute the other way.

    The batch is of a sweep that was asked for these.  A caption says which way.
    """
    schema = batch.mechanism.scm.schema
    names = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Binary)]
    own = schema.decode(batch.a)
    columns = [batch.x, batch.x_r, *(batch.x_c(do_name(name)) for name in names)]
    ways = [["" for _ in batch.x]] * 2
    ways += [["without" if value else "with" for value in own[name].tolist()] for name in names]
    heads = ["real", "recon-\nstructed", *(name.replace("_", "\n") for name in names)]
    return image_grid(list(zip(*columns, strict=True)), heads, captions=list(zip(*ways, strict=True)), cell=0.8)


def ablation_rows(batches: Mapping[str, Swept]) -> Figure:
    """Appendix K: real images, and below them the reconstructions of one model after another, each a batch of these images."""
    reconstructed = [list(batch.x_r) for batch in batches.values()]
    return image_grid([list(next(iter(batches.values())).x), *reconstructed], rows=["real", *batches], cell=0.8)


def misclassified_labels(
    real: Tensor, x_c: Tensor, own: Sequence[Any], asked: Sequence[Any], read: Sequence[Any], columns: int = 8
) -> Figure:
    """Appendix G: counterfactuals in which a classifier reads another label than was asked for, below the real images."""
    lines: list[list[Tensor]] = []
    captions: list[list[str]] = []
    for start in range(0, len(real), columns):
        part = slice(start, start + columns)
        lines += [list(real[part]), list(x_c[part])]
        captions.append([str(label) for label in own[part]])
        captions.append([f"asked {a}, read {r}" for a, r in zip(asked[part], read[part], strict=True)])
    return image_grid(lines, rows=["real", "counterfactual"] * (len(lines) // 2), captions=captions, cell=0.9)


def within(schema: Schema, name: str, value: Any) -> Any:
    """A value of a continuous attribute moved into its range; any other value as it is."""
    if not isinstance(schema[name], Continuous):
        return value
    low, high = schema.bounds(name)
    return min(max(float(value), low), high)


def describe(do: Mapping[str, Any]) -> str:
    """An intervention in two short lines: name and value."""
    values = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in do.values())
    return ", ".join(f"{name}\n= {value}" for name, value in zip(do, values, strict=True))


def target_against_measured(comparisons: Iterable[Comparison]) -> Figure:
    """Fig. 4: for each attribute, the requested value of a counterfactual against the one measured on it."""
    found: dict[tuple[str, str], list[Tensor]] = {}
    for intervention, attribute, measured, target in comparisons:
        found.setdefault((intervention, attribute), []).append(torch.stack([target, measured]).cpu())
    points = {key: torch.cat(parts, dim=1) for key, parts in found.items()}
    names = [attribute for intervention, attribute in points if intervention == "floor"]
    figure = Figure(figsize=(3.1 * len(names), 3.3), layout="constrained")
    for index, (name, axes) in enumerate(zip(names, figure.subplots(1, len(names), squeeze=False)[0], strict=True)):
        target, measured = points[f"do({name})", name]
        looks = {"s": 5, "linewidths": 0}
        axes.scatter(*points["floor", name], color="0.6", alpha=0.35, label="real images", **looks)
        axes.scatter(target, measured, color="tab:blue", alpha=0.5, label="counterfactuals", **looks)
        line = [target.min().item(), target.max().item()]
        axes.plot(line, line, color="0.2", linewidth=0.8)
        error = MedianAbsError()
        error.update(measured, target)
        axes.set_title(f"do({name})   median error {error.compute().item():.3g}", fontsize=9, parse_math=False)
        axes.set_xlabel("target")
        axes.set_ylabel("measured" if index == 0 else "")
        if index == 0:
            axes.legend(fontsize=7, markerscale=2, loc="upper left")
    return figure
