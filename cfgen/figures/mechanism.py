"""The paper's figures, one function each: an image mechanism and its SCM in, a matplotlib figure out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.attributes import Binary, Continuous, Schema
from cfgen.counterfactual import ImageMechanism, State, reconstruct
from cfgen.metrics import MedianAbsError
from cfgen.metrics.effectiveness import Comparison
from cfgen.scm import AttributeSCM

__all__ = [
    "ablation_rows",
    "counterfactual_grid",
    "counterfactual_rows",
    "image_grid",
    "interpolations",
    "misclassified_labels",
    "reconstructions",
    "target_against_measured",
]

CELL = 0.62  # inches an image


def image_grid(
    images: Sequence[Sequence[Tensor]],
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    captions: Sequence[Sequence[str]] = (),
    title: str = "",
    cell: float = CELL,
) -> Figure:
    """Images (C, H, W) in [0, 1] as a table, with a name above each column, before each row and under each image."""
    height, width = len(images), max(map(len, images))
    margin = 0.09 * max(map(len, rows), default=0)
    under = 0.14 * max((caption.count("\n") + 1 for line in captions for caption in line if caption), default=0)
    above = 0.2 * (max((name.count("\n") + 1 for name in columns), default=0) + bool(title))
    total_width, total_height = margin + width * cell, above + height * (cell + under) + 0.05
    figure = Figure(figsize=(total_width, total_height))
    # one pair of axes in inches for all: a pair for each image takes ten times as long
    axes = figure.add_axes((0, 0, 1, 1))
    for i, line in enumerate(images):
        top = total_height - above - i * (cell + under)
        for j, image in enumerate(line):
            left = margin + j * cell
            draw_image(axes, image, (left + 0.02, top - cell + 0.02), cell - 0.04)
            if i == 0 and columns:
                axes.text(left + cell / 2, top + 0.02, columns[j], fontsize=7, ha="center", va="bottom")
            if j == 0 and rows:
                axes.text(left - 0.04, top - cell / 2, rows[i], fontsize=7, ha="right", va="center")
            if captions:
                axes.text(left + cell / 2, top - cell - 0.01, captions[i][j], fontsize=6, ha="center", va="top")
    axes.set(xlim=(0, total_width), ylim=(0, total_height))
    axes.axis("off")
    if title:
        figure.suptitle(title, fontsize=8, y=1 - 0.05 / total_height, va="top")
    return figure


def draw_image(axes: Axes, image: Tensor, corner: tuple[float, float], size: float) -> None:
    """An image with its lower left corner there, its longer side of that size."""
    pixels = image.detach().float().clamp(0, 1).cpu().permute(1, 2, 0).squeeze(-1).numpy()
    height, width = (size * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
    box = (corner[0], corner[0] + width, corner[1], corner[1] + height)
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest", extent=box, aspect="auto")


@torch.inference_mode()
def reconstructions(mechanism: ImageMechanism, x: Tensor, a: Tensor, columns: int = 12) -> Figure:
    """Appendix F: real images, and below each its reconstruction x_r."""
    x_r = reconstruct(mechanism, x, a)
    lines: list[list[Tensor]] = []
    for start in range(0, len(x), columns):
        lines += [list(x[start : start + columns]), list(x_r[start : start + columns])]
    return image_grid(lines, rows=["real", "reconstructed"] * (len(lines) // 2))


@torch.inference_mode()
def interpolations(mechanism: ImageMechanism, x: Tensor, a: Tensor, pairs: int = 6, steps: int = 8) -> Figure:
    """Appendix E: real images at both ends, decoded mixtures of their states (and attributes) between them."""
    left, right = slice(0, pairs), slice(pairs, 2 * pairs)
    z_left, z_right = mechanism.abduct(x[left], a[left]), mechanism.abduct(x[right], a[right])
    between = [
        mechanism.decode(mix(z_left, z_right, share), torch.lerp(a[left], a[right], share))
        for share in torch.linspace(0, 1, steps).tolist()
    ]
    lines = [[x[i], *(images[i] for images in between), x[pairs + i]] for i in range(pairs)]
    return image_grid(lines, columns=["real", *[""] * steps, "real"])


def mix(left: State, right: State, share: float) -> State:
    """A point between two states, whatever they are made of."""
    if isinstance(left, Tensor):
        return torch.lerp(left, right, share)
    return type(left)(mix(one, other, share) for one, other in zip(left, right, strict=True))


@torch.inference_mode()
def counterfactual_grid(
    mechanism: ImageMechanism,
    scm: AttributeSCM,
    x: Tensor,
    a: Tensor,
    rows: Mapping[str, Sequence[Any]],
    columns: Mapping[str, Sequence[Any]],
) -> Figure:
    """Fig. 3: one image (x and a of one row), top left; down, interventions of `rows`; across, on top of them, of `columns`.

    Continuous values outside of the model's range are moved to its edge.
    """
    downs: list[dict[str, Any]] = [{}, *({name: value} for name, values in rows.items() for value in values)]
    acrosses = [{}, *({name: within(scm.schema, name, v)} for name, values in columns.items() for v in values)]
    z = mechanism.abduct(x, a)
    lines = [
        [mechanism.decode(z, scm.counterfactual_vector(a, down | across))[0] for across in acrosses] for down in downs
    ]
    lines[0][0] = x[0]  # the top-left cell is the real image
    heads = [describe(across) for across in acrosses[1:]]
    return image_grid(lines, ["", *heads], ["real", *(describe(down).replace("\n", " ") for down in downs[1:])])


@torch.inference_mode()
def counterfactual_rows(mechanism: ImageMechanism, scm: AttributeSCM, x: Tensor, a: Tensor) -> Figure:
    """Fig. 5, Appendix J: images, their reconstructions, and counterfactuals with each binary attribute the other way.

    A caption says which way.
    """
    names = [name for name, attribute in scm.schema.attributes.items() if isinstance(attribute, Binary)]
    own = scm.schema.decode(a)
    z = mechanism.abduct(x, a)
    columns = [x, mechanism.decode(z, a)]
    columns += [mechanism.decode(z, scm.counterfactual_vector(a, {name: 1 - own[name]})) for name in names]
    ways = [["" for _ in x]] * 2 + [["without" if value else "with" for value in own[name].tolist()] for name in names]
    heads = ["real", "recon-\nstructed", *(name.replace("_", "\n") for name in names)]
    return image_grid(list(zip(*columns, strict=True)), heads, captions=list(zip(*ways, strict=True)), cell=0.8)


@torch.inference_mode()
def ablation_rows(models: Mapping[str, ImageMechanism], x: Tensor, a: Tensor) -> Figure:
    """Appendix K: real images, and below them the reconstructions of one model after another."""
    reconstructed = [list(reconstruct(mechanism, x, a)) for mechanism in models.values()]
    return image_grid([list(x), *reconstructed], rows=["real", *models], cell=0.8)


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
        axes.set_title(f"do({name})   median error {error.compute().item():.3g}", fontsize=9)
        axes.set_xlabel("target")
        axes.set_ylabel("measured" if index == 0 else "")
        if index == 0:
            axes.legend(fontsize=7, markerscale=2, loc="upper left")
    return figure
