"""Figures of single images: examples whose answer flips, and local explanations."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.audit._findings import ClassifierResult
from cfgen.audit._illustrate import FlipExamples
from cfgen.figures import image_grid
from cfgen.figures.answers import change_axis, draw_bars, literal
from cfgen.figures.grid import draw_image

EXPLAINED = 10  # lines of a local explanation


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
