"""The figure of an analysis: how many participants had which score, beside guessing; and the share by intervention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from cfgen.study.results import Result

__all__ = ["scores_figure"]

BAR, LINE, BAND = "#9dbfe3", "#1c2230", "#efede8"


def scores_figure(
    results: Sequence[Result], interventions: Sequence[Mapping[str, Any]], margin: float, simulated: bool = False
) -> Figure:
    """A row for each question: its scores at the left, its interventions at the right."""
    figure = Figure(figsize=(9.5, 3.4 * len(results)), layout="constrained")
    axes = figure.subplots(len(results), 2, squeeze=False)
    for result, (left, right) in zip(results, axes, strict=True):
        draw_scores(left, result)
        draw_shares(right, result, interventions, margin)
    if simulated:
        figure.suptitle("Simulated participants", fontsize=10)
    return figure


def draw_scores(axes: Axes, result: Result) -> None:
    """How many participants had each score, and how many would if all guessed."""
    values = np.arange(result.each + 1)
    axes.bar(values, np.bincount(result.scores, minlength=len(values)), color=BAR, label="participants")
    expected = len(result.scores) * stats.binom.pmf(values, result.each, 0.5)
    axes.plot(values, expected, "o--", color=LINE, markersize=3.5, linewidth=1, label="if all guess")
    axes.set_xticks(values if len(values) <= 21 else values[:: len(values) // 10])
    axes.set_xlabel(f"right answers of {result.each}")
    axes.set_ylabel("participants")
    axes.set_title(f"{result.question}: mean {result.mean:.2f}, s.d. {result.deviation:.2f}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def draw_shares(axes: Axes, result: Result, interventions: Sequence[Mapping[str, Any]], margin: float) -> None:
    """The share of right answers of all, and by intervention, with intervals clustered by participant."""
    rows = [row for row in interventions if row["question"] == result.question]
    names = ["all", *(row["do"] for row in rows)]
    shares = [result.correct.share, *(row["share"] for row in rows)]
    intervals = [result.correct.clustered, *((row["low"], row["high"]) for row in rows)]
    axes.axvspan(0.5 - margin, 0.5 + margin, color=BAND, zorder=0, label="margin")
    axes.axvline(0.5, color=LINE, linewidth=0.8, linestyle=":")
    places = range(len(names))
    axes.hlines(places, [low for low, _ in intervals], [high for _, high in intervals], color=LINE, linewidth=1.4)
    axes.plot(shares, places, "o", color=LINE, markersize=5)
    axes.set_yticks(places, names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of right answers (95 % interval)")
    axes.legend(frameon=False, fontsize=8)
