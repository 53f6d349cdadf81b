"""The audit's figures: fairness scatter plots with quadrants (Fig. 6), the attribute ranking (Fig. 7), flipped answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.audit.plan import Scores
from cfgen.audit.results import Importance
from cfgen.audit.run import Triple
from cfgen.figures import image_grid
from cfgen.metrics import ranking

__all__ = ["attribute_ranking", "fairness_scatter", "flipped_answers"]

UP, DOWN, SAME = "#1b6ca8", "#c8501e", "#8a8a8a"  # apart in print and for the colour-blind
POINTS = 4000  # drawn in a panel at most; shares are of all


def fairness_scatter(
    scores: Scores, columns: Sequence[str], titles: Sequence[str], threshold: float = 0.5, label: str = "yes"
) -> Figure:
    """Fig. 6: p(base image) against p(changed image), one panel a change.

    On the line y = x nothing changed.  Top left the answer flips to yes, bottom right to no.
    """
    across = min(2, len(columns))  # still readable on a phone
    down = -(-len(columns) // across)
    figure = Figure(figsize=(2.9 * across, 3.0 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for axes, column, title in zip(panels, columns, titles, strict=False):
        counted = ~scores[column].isnan()
        base, changed = scores["base"][counted], scores[column][counted]
        up, down_ = (base <= threshold) & (changed > threshold), (base > threshold) & (changed <= threshold)
        shown = torch.randperm(len(base), generator=torch.Generator().manual_seed(0))[:POINTS]
        axes.plot([0, 1], [0, 1], color="0.3", linewidth=0.8, zorder=1)
        axes.axhline(threshold, color="0.7", linewidth=0.7, zorder=0)
        axes.axvline(threshold, color="0.7", linewidth=0.7, zorder=0)
        for which, colour in ((~up & ~down_, SAME), (up, UP), (down_, DOWN)):
            mine = shown[which[shown]]
            axes.scatter(base[mine], changed[mine], s=6, color=colour, alpha=0.45, linewidths=0, zorder=2)
        for which, colour, place, side in ((up, UP, (0.03, 0.97), "left"), (down_, DOWN, (0.97, 0.03), "right")):
            text = f"{which.float().mean().item():.1%}" if len(base) else "no image"
            axes.text(
                *place, text, color=colour, ha=side, va="top" if side == "left" else "bottom", fontsize=9,
                transform=axes.transAxes, weight="bold",
            )  # fmt: skip
        axes.set_title(title, fontsize=9)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        axes.tick_params(labelsize=7)
    for axes in panels[len(columns) :]:
        axes.axis("off")
    figure.supxlabel(f"p({label}) of the base image", fontsize=9)
    figure.supylabel(f"p({label}) of the changed image", fontsize=9)
    return figure


def attribute_ranking(importance: Sequence[Importance], k: int = 4, label: str = "yes") -> Figure:
    """Fig. 7: the k attributes that raise the answer's probability most and the k that lower it most, with 95 % confidence
    intervals."""
    by_name = {one.attribute: one for one in importance}
    positive, negative = ranking({name: one.score for name, one in by_name.items()}, k)
    shown = [by_name[name] for name, _ in [*positive, *reversed(negative)]]
    figure = Figure(figsize=(5.6, 0.6 + 0.34 * max(1, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    for place, one in enumerate(shown):
        half = [[one.score - one.low], [one.high - one.score]]
        axes.barh(place, one.score, color=UP if one.score > 0 else DOWN, height=0.66)
        axes.errorbar(one.score, place, xerr=half, color="0.15", linewidth=1, capsize=2)
    axes.axvline(0, color="0.2", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [one.attribute for one in shown], fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel(f"mean change of p({label}) with the attribute present", fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def flipped_answers(images: Triple, before: Tensor, after: Tensor) -> Figure:
    """Images whose answer an intervention flips: real, base and counterfactual, with the classifier's probabilities."""
    captions = [[""] * len(before), [f"{p:.2f}" for p in before.tolist()], [f"{p:.2f}" for p in after.tolist()]]
    lines, rows = [list(part) for part in images], ["real", "reconstruction", "counterfactual"]
    if torch.equal(images.x, images.x_r):  # the residual kept: base images are the images
        lines, rows, captions = lines[1:], ["real", "counterfactual"], captions[1:]
    return image_grid(lines, rows=rows, captions=captions, cell=1.0)
