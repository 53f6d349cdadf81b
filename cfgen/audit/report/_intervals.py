"""Estimates with their intervals: the forest plot of all interventions, and curves over a continuous attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cfgen.audit.report._sections import Finding, Section
from cfgen.audit.report._words import MARKS, marked, short_names
from cfgen.audit.result import AuditResult
from cfgen.effects import Estimate, Outcome
from cfgen.figures.answers import bare, literal

BAND = 0.05  # either side of zero: the bias that the paper calls significant lies beyond
COMBINED, MODEL, TRUTH = "#1b6ca8", "#555555", "#c8501e"
STYLES: dict[str, dict[str, Any]] = {
    "model-only estimate": {"color": MODEL, "markersize": 4.5, "markerfacecolor": "white", "elinewidth": 1.0},
    "combined estimate": {"color": COMBINED, "markersize": 6, "elinewidth": 2.4},
}


def forest_plot(result: AuditResult, shown: Sequence[Section]) -> Figure:
    """Each finding: the combined estimate with its interval, the model-only estimate, the ground truth, and the verdict."""
    several, names = len(result.classifiers) > 1, short_names(result)
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    points: list[tuple[float, Finding]] = []
    place = 0.0
    for section in shown:
        if len(shown) > 1:
            place += 0.3 * bool(points)
            axes.text(0, place, literal(section.title), fontsize=8, weight="bold", va="center",
                      transform=axes.get_yaxis_transform())  # fmt: skip
            place += 1
        points += [(place + k, finding) for k, finding in enumerate(section.findings)]
        place += len(section.findings)
    figure.set_size_inches(7.4, 1.0 + (0.46 if several else 0.4) * place)
    draw_estimates(axes, points, result.outcome)
    labels = [
        f"{f.intervention.title}\n" + (f"{names[f.classifier.name]}\n" if several else "") + marked(f.verdict.code)
        for _, f in points
    ]
    axes.set_yticks([place for place, _ in points], [literal(label) for label in labels], fontsize=7)
    axes.set_ylim(place - 0.5, -0.6)
    axes.tick_params(axis="y", length=0)
    what = "bias in points: share of yes" if result.outcome.flips else "mean prediction"
    axes.set_xlabel(f"{what} after the intervention minus before, 95 % confidence intervals", fontsize=8)
    bare(axes, "left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, fontsize=7, frameon=False)
    return figure


def curve_plot(result: AuditResult, section: Section) -> Figure:
    """The effect over the values of a continuous attribute, one panel for each classifier that is shown in detail."""
    panels = len(result.detailed)
    figure = Figure(figsize=(4.2 * min(panels, 2), 3.0 * -(-panels // 2)), layout="constrained")
    grid = figure.subplots(-(-panels // 2), min(panels, 2), squeeze=False, sharey=True).flatten()
    for axes, one in zip(grid, result.detailed, strict=False):
        mine = [f for f in section.findings if f.classifier is one]
        points = [((f.intervention.assigned or {})[section.curve], f) for f in mine]
        draw_estimates(axes, sorted(points, key=lambda point: point[0]), one.outcome, curve=True)
        for value, finding in points:
            if not finding.verdict.good:
                axes.annotate(MARKS[finding.verdict.code], (value, 0), xycoords=("data", "axes fraction"), xytext=(0, 3),
                              textcoords="offset points", fontsize=9, weight="bold", ha="center")  # fmt: skip
        if panels > 1:
            axes.set_title(literal(short_names(result)[one.name]), fontsize=8)
        axes.set_xlabel(literal(f"{section.curve}, set to"), fontsize=8)
        bare(axes)
    for axes in grid[panels:]:
        axes.axis("off")
    figure.supylabel("bias in points" if result.outcome.flips else "change of the mean prediction", fontsize=8)
    bad = dict.fromkeys(
        marked(f.verdict.code) for f in section.findings if f.classifier.detailed and not f.verdict.good
    )
    if bad:
        figure.supxlabel(f"verdicts: {', '.join(bad)}; no mark: {marked('agrees')}", fontsize=7)
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper left", ncols=3, fontsize=7, frameon=False)
    return figure


def draw_estimates(axes: Axes, points: Sequence[tuple[float, Finding]], outcome: Outcome, curve: bool = False) -> None:
    """Findings at places along the vertical axis; of a `curve`, at values along the horizontal axis, joined by a line."""
    factor = outcome.factor
    if outcome.flips:
        (axes.axhspan if curve else axes.axvspan)(-factor * BAND, factor * BAND, color="0.92", zorder=0)
    (axes.axhline if curve else axes.axvline)(0, color="0.25", linewidth=0.9, zorder=1)

    def draw(label: str, found: Sequence[tuple[float, Estimate]], fmt: str) -> None:
        places, values = [place for place, _ in found], [factor * estimate.value for _, estimate in found]
        ends = [[factor * abs(e.value - e.interval[k]) for _, e in found] for k in (0, 1)]
        error: dict[str, Any] = (
            {"x": places, "y": values, "yerr": ends} if curve else {"x": values, "y": places, "xerr": ends}
        )
        if found:
            axes.errorbar(fmt=fmt, label=label, zorder=3, **error, **STYLES[label])

    draw("combined estimate", [(place, f.effect.combined) for place, f in points if f.effect.combined is not None], "o")
    below = [(place + 0.2 * (f.effect.combined is not None and not curve), f.effect.model_only) for place, f in points]
    draw("model-only estimate", below, "o--" if curve else "o")
    true = [(place, factor * f.truth) for place, f in points if f.truth is not None]
    if true:
        where = [list(column) for column in zip(*(true if curve else [pair[::-1] for pair in true]), strict=True)]
        mark = "_" if curve else "|"
        axes.plot(*where, mark, color=TRUTH, markersize=12, markeredgewidth=1.8, zorder=5, label="ground truth")
    axes.tick_params(labelsize=7)
