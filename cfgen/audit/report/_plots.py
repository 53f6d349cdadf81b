"""Figures: fairness scatter plots (Fig. 6), the ranking of attributes (Fig. 7), examples, single images, flip matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from cfgen.audit._classes import FlipMatrix
from cfgen.audit._findings import ClassifierResult
from cfgen.audit._importance import Importance
from cfgen.audit._pictures import FlipExamples
from cfgen.effects import Outcome, YesNo
from cfgen.figures import image_grid
from cfgen.figures.grid import draw_image
from cfgen.metrics import ranking
from cfgen.reporting.numbers import share

RANKED = 4  # attributes on either side of the ranking, as in Fig. 7
EXPLAINED = 10  # lines of a local explanation
POINTS = 4000  # in a scatter panel at most; shares are of all
LEGIBLE = 12  # classes up to which the cells of a matrix have numbers
UP, DOWN, SAME = "#1b6ca8", "#c8501e", "#8a8a8a"  # distinct in print and for colour-blind readers
PRESENT = "present"

Column = NDArray[Any]


class ScatterPanel(NamedTuple):
    """Probabilities and answers (1 yes, 0 no) before and after a change, (n,); images with NaN afterwards are left out."""

    title: str
    p_before: Column
    p_after: Column
    yes_before: Column
    yes_after: Column


def fairness_scatter(panels: Sequence[ScatterPanel], threshold: float | None = 0.5, label: str = "yes") -> Figure:
    """Fig. 6: p(base image) against p(changed image), one panel for each change; no threshold for one of several classes.

    Points on the line y = x did not change.  At the top left the answer flips to yes, at the bottom right to no.
    """
    across = min(2, len(panels))  # readable on a phone
    down = -(-len(panels) // across)
    figure = Figure(figsize=(2.9 * across, 3.0 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).flatten()
    for axes, panel in zip(grid, panels, strict=False):
        draw_scatter(axes, panel, threshold)
    for axes in grid[len(panels) :]:
        axes.axis("off")
    figure.supxlabel(literal(f"p({label}) of the base image"), fontsize=9)
    figure.supylabel(literal(f"p({label}) of the changed image"), fontsize=9)
    return figure


def draw_scatter(axes: Axes, panel: ScatterPanel, threshold: float | None) -> None:
    counted = ~np.isnan(panel.p_after)
    base, changed = panel.p_before[counted], panel.p_after[counted]
    before, after = panel.yes_before[counted] > 0, panel.yes_after[counted] > 0
    up, down = ~before & after, before & ~after
    shown = np.random.default_rng(0).permutation(len(base))[:POINTS]
    axes.plot([0, 1], [0, 1], color="0.3", linewidth=0.8, zorder=1)
    if threshold is not None:
        axes.axhline(threshold, color="0.7", linewidth=0.7, zorder=0)
        axes.axvline(threshold, color="0.7", linewidth=0.7, zorder=0)
    for which, colour in ((~up & ~down, SAME), (up, UP), (down, DOWN)):
        mine = shown[which[shown]]
        axes.scatter(base[mine], changed[mine], s=6, color=colour, alpha=0.45, linewidths=0, zorder=2)
    for which, colour, place, side in ((up, UP, 0.03, "left"), (down, DOWN, 0.97, "right")):
        text = f"{which.mean():.1%}" if len(base) else "no image"
        axes.text(place, 1 - place, text, color=colour, ha=side, va="top" if side == "left" else "bottom", fontsize=9,
                  transform=axes.transAxes, weight="bold")  # fmt: skip
    axes.set_title(literal(panel.title), fontsize=9)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.tick_params(labelsize=7)


def attribute_ranking(
    importance: Sequence[Importance], k: int = RANKED, label: str = "yes", outcome: Outcome | None = None
) -> Figure:
    """Fig. 7: the k attributes that raise the answer most and the k that lower it most, with 95 % confidence intervals."""
    outcome = outcome or YesNo()
    by_name = {one.attribute: one for one in importance}
    positive, negative = ranking({name: one.score for name, one in by_name.items()}, k)
    shown = [by_name[name] for name, _ in [*positive, *reversed(negative)]]
    figure = Figure(figsize=(5.6, 0.6 + 0.34 * max(1, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    draw_bars(axes, [one.score for one in shown])
    for place, one in enumerate(shown):
        half = [[one.score - one.low], [one.high - one.score]]
        axes.errorbar(one.score, place, xerr=half, color="0.15", linewidth=1, capsize=2)
    names = [one.attribute if one.meaning == PRESENT else f"{one.attribute}\n{one.meaning}" for one in shown]
    axes.set_yticks(range(len(shown)), [literal(name) for name in names], fontsize=8)
    axes.invert_yaxis()
    more = "the attribute present" if all(one.meaning == PRESENT for one in shown) else "more of it"
    what = f"p({label}) in points" if outcome.flips else "the prediction"
    change_axis(axes, f"mean change of {what} with {more}, model-only estimate", outcome, fontsize=8)
    return figure


def local_explanation(image: Tensor, number: int, results: Mapping[str, ClassifierResult]) -> Figure:
    """One image, and how much each attribute raises each classifier's answer to it (Eq. 6); classifiers by short name."""
    chosen = [{line.attribute: line for line in one.local if line.image == number} for one in results.values()]
    names = list(chosen[0])[:EXPLAINED]
    bars = [[lines[name].score if name in lines else 0.0 for name in names] for lines in chosen]
    widest = max((abs(score) for scores in bars for score in scores), default=0) or 0.01
    figure = Figure(figsize=(1.9 + 2.9 * len(bars), max(1.7, 0.5 + 0.23 * len(names))), layout="constrained")
    grid = figure.subplots(1, 1 + len(bars), width_ratios=[1.3, *[2.4] * len(bars)])
    draw_image(grid[0], image.float() / 255, (0, 0), 1)
    grid[0].set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    grid[0].set_title(f"image {number}", fontsize=8)
    grid[0].axis("off")
    for axes, (name, one), lines, scores in zip(grid[1:], results.items(), chosen, bars, strict=True):
        draw_bars(axes, scores)
        axes.set_yticks(range(len(names)), [literal(each) if axes is grid[1] else "" for each in names], fontsize=7)
        axes.set(xlim=(-1.08 * widest, 1.08 * widest), ylim=(len(names) - 0.4, -0.6))
        what = "points more probable" if one.outcome.flips else "higher"
        change_axis(axes, f"{what}, model-only", one.outcome, fontsize=7)
        p = next((line.p for line in lines.values()), float("nan"))
        answer = f"p({one.label}) = {p:.2f}" if one.outcome.flips else f"prediction {p:.3g}"
        axes.set_title(literal(f"{name}\n{answer}" if len(bars) > 1 else answer), fontsize=8)
    return figure


def flip_examples(shown: FlipExamples) -> Figure:
    """Images whose answer an intervention flips: real and the two that are compared, with the probabilities of yes."""
    captions = [[""] * len(shown.real), *([f"{p:.2f}" for p in column] for column in (shown.before, shown.after))]
    lines, rows = [list(part) for part in (shown.real, shown.base, shown.counterfactual)], ["real", *shown.compared]
    if torch.equal(shown.real, shown.base):  # the residual is kept: base images are the images
        lines, rows, captions = lines[1:], ["real", shown.compared[1]], captions[1:]
    return image_grid(lines, rows=rows, captions=captions, cell=1.0)


def flip_matrix_plot(matrix: FlipMatrix, title: str) -> Figure:
    """Rows are classes before, columns after; a cell has its count, and its colour shows its share of the row."""
    count = len(matrix.classes)
    size = 1.6 + (0.55 if count <= LEGIBLE else 0.22) * count
    figure = Figure(figsize=(size + 0.6, size), layout="constrained")
    axes = figure.add_subplot()
    rows = matrix.counts.sum(axis=1, keepdims=True)
    shares = np.divide(matrix.counts, rows, out=np.zeros(matrix.counts.shape), where=rows > 0)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.argwhere(matrix.counts) if count <= LEGIBLE else ():
        colour = "white" if shares[i, j] > 0.6 else "0.15"
        axes.text(j, i, f"{matrix.counts[i, j]:,}", ha="center", va="center", fontsize=7, color=colour)
    names = [literal(name) for name in matrix.classes]
    axes.set_xticks(range(count), names, fontsize=7, rotation=45, ha="right")
    axes.set_yticks(range(count), names, fontsize=7)
    axes.set_xlabel("class after the intervention", fontsize=8)
    axes.set_ylabel("class before", fontsize=8)
    axes.set_title(literal(title), fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.8, format=lambda value, _: share(value)).ax.tick_params(labelsize=7)
    return figure


def draw_bars(axes: Axes, scores: Sequence[float]) -> None:
    for place, score in enumerate(scores):
        axes.barh(place, score, color=UP if score > 0 else DOWN, height=0.66)
    axes.axvline(0, color="0.2", linewidth=0.8)


def change_axis(axes: Axes, label: str, outcome: Outcome, fontsize: int) -> None:
    """A horizontal axis of changes, in the unit of the outcome."""
    axes.xaxis.set_major_formatter(lambda value, _: f"{outcome.factor * value:+.3g}" if abs(value) > 1e-9 else "0")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel(literal(label), fontsize=fontsize)
    bare(axes)


def bare(axes: Axes, *also: str) -> None:
    for side in ("top", "right", *also):
        axes.spines[side].set_visible(False)


def literal(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign would start a formula.

    >>> literal("$x$")
    '\\\\$x\\\\$'
    """
    return text.replace("$", r"\$")
