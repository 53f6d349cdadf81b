"""Figures of a classifier's answers: fairness scatter plots (Fig. 6), the ranking of attributes (Fig. 7), flip matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cfgen.effects import Outcome, YesNo
from cfgen.metrics import ranking
from cfgen.metrics.importance import Importance

__all__ = [
    "ScatterPanel",
    "attribute_ranking",
    "bare",
    "change_axis",
    "draw_bars",
    "fairness_scatter",
    "flip_matrix",
    "literal",
]

RANKED = 4  # attributes on either side of the ranking, as in Fig. 7
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


def flip_matrix(classes: Sequence[str], counts: NDArray[np.int64], title: str) -> Figure:
    """Rows are classes before, columns after; a cell has its count, and its colour shows its share of the row."""
    count = len(classes)
    size = 1.6 + (0.55 if count <= LEGIBLE else 0.22) * count
    figure = Figure(figsize=(size + 0.6, size), layout="constrained")
    axes = figure.add_subplot()
    rows = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, rows, out=np.zeros(counts.shape), where=rows > 0)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.argwhere(counts) if count <= LEGIBLE else ():
        colour = "white" if shares[i, j] > 0.6 else "0.15"
        axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontsize=7, color=colour)
    names = [literal(name) for name in classes]
    axes.set_xticks(range(count), names, fontsize=7, rotation=45, ha="right")
    axes.set_yticks(range(count), names, fontsize=7)
    axes.set_xlabel("class after the intervention", fontsize=8)
    axes.set_ylabel("class before", fontsize=8)
    axes.set_title(literal(title), fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.8, format=lambda value, _: f"{100 * value:.0f} %").ax.tick_params(
        labelsize=7
    )
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
