"""Estimates with their intervals as figures: all interventions (a forest plot), and curves over a continuous attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cfgen.audit.effect import Effect
from cfgen.audit.report.forest import BAND, Asked, drawn_answers, groups
from cfgen.audit.report.text import MARKS, do_title, marked, short_names
from cfgen.audit.results import EVERYONE
from cfgen.audit.unit import POINTS, Unit

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult

__all__ = ["bare", "curve_figure", "estimates_figure", "literal"]

COMBINED, MODEL, TRUTH = "#1b6ca8", "#555555", "#c8501e"
MODEL_LINE = {"color": MODEL, "linewidth": 1.0, "linestyle": (0, (3, 2))}


def estimates_figure(result: AuditResult) -> Figure:
    """Every intervention's combined estimate with its interval, its verdict, the model's own estimate, and the ground truth."""
    several, names = len(result.audited) > 1, short_names(result)
    shown = groups(result)
    lines: list[tuple[str, str]] = []
    places: list[float] = []
    place = 0.0
    titles = []
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    for number, group in enumerate(shown):
        if len(shown) > 1:
            titles.append((place, group.title))
            place += 1
        for one in group.asked:
            for answered in drawn_answers(one):
                text = do_title(one.change)
                text += f"\n{names[answered.audited.name]}" if several else ""
                lines.append((literal(text), marked(answered.effect.verdict.code)))
                places.append(place)
                truth = answered.row.truth["bias"] if answered.row.truth else None
                draw_estimates(axes, place, answered.effect, truth)
                place += 1
        place += 0.3 * (number + 1 < len(shown))
    height = 0.9 + (0.46 if several else 0.4) * max(place, 1)
    figure.set_size_inches(7.4, height)
    if result.unit is POINTS:
        axes.axvspan(-100 * BAND, 100 * BAND, color="0.92", zorder=0)
    axes.axvline(0, color="0.25", linewidth=0.9, zorder=1)
    axes.set_yticks(places, [f"{text}\n{verdict}" for text, verdict in lines], fontsize=7)
    axes.set_ylim(max(place, 1) - 0.5, -0.6)
    for where, title in titles:
        axes.text(
            0, where, literal(title), fontsize=8, weight="bold", transform=axes.get_yaxis_transform(), va="center"
        )
    axes.tick_params(axis="x", labelsize=7)
    axes.tick_params(axis="y", length=0)
    what = "bias in points: share of yes" if result.unit is POINTS else "mean prediction"
    axes.set_xlabel(f"{what} after the intervention minus before, 95 % confidence intervals", fontsize=8)
    bare(axes, "left")
    figure.legend(handles=legend(any(one.row.truth for group in shown for a in group.asked for one in a.answers)),
                  loc="outside upper left", ncols=4, fontsize=7, frameon=False)  # fmt: skip
    return figure


def draw_estimates(axes: Axes, place: float, effect: Effect, truth: float | None) -> None:
    """The combined estimate above, the model's own below it; alone, that one stands for both."""
    combined, model, times = effect.combined, effect.generator, effect.unit.factor
    lower = place + (0.2 if combined is not None else 0)
    ends = [times * end for end in model.interval]
    axes.plot(ends, [lower, lower], zorder=2, **MODEL_LINE)  # type: ignore[arg-type]
    axes.plot(times * model.value, lower, "o", markersize=4.5, markerfacecolor="white", markeredgecolor=MODEL, zorder=3)
    if combined is not None:
        axes.plot([times * end for end in combined.interval], [place, place], color=COMBINED, linewidth=2.4, zorder=3)
        axes.plot(times * combined.value, place, "o", markersize=6, color=COMBINED, zorder=4)
    if truth is not None:
        axes.plot([times * truth] * 2, [place - 0.28, place + 0.28], color=TRUTH, linewidth=1.8, zorder=5)


def legend(truth: bool) -> list[Line2D]:
    handles = [
        Line2D([], [], color=COMBINED, marker="o", linewidth=2.4, label="combined estimate"),
        Line2D([], [], marker="o", markersize=4.5, markerfacecolor="white", markeredgecolor=MODEL,
               label="the model's word alone", **MODEL_LINE),  # type: ignore[arg-type]
    ]  # fmt: skip
    if truth:
        handles.append(Line2D([], [], color=TRUTH, marker="|", linewidth=0, markeredgewidth=1.8, label="ground truth"))
    return handles


def curve_figure(result: AuditResult, name: str) -> Figure:
    """Bias over the values of a continuous attribute: the model's line, and the combined estimates with their intervals."""
    texts = set(result.plan.curves[name])
    found = {
        asked.change: asked
        for group in groups(result)
        if group.among == EVERYONE
        for asked in group.asked
        if asked.change in texts
    }
    points = sorted((float(result.plan.do[text][name]), asked) for text, asked in found.items())
    panels = len(result.detailed)
    figure = Figure(figsize=(4.2 * min(panels, 2), 3.0 * -(-panels // 2)), layout="constrained")
    grid = figure.subplots(-(-panels // 2), min(panels, 2), squeeze=False, sharey=True).flatten()
    for axes, one in zip(grid, result.detailed, strict=False):
        draw_curve(axes, points, one.name, result.unit)
        if panels > 1:
            axes.set_title(literal(short_names(result)[one.name]), fontsize=8)
        axes.set_xlabel(literal(f"{name}, set to"), fontsize=8)
    for axes in grid[panels:]:
        axes.axis("off")
    figure.supylabel("bias in points" if result.unit is POINTS else "change of the mean prediction", fontsize=8)
    answers = [answer for _, asked in points for answer in asked.answers if answer.audited.detailed]
    truth = any(answer.row.truth for answer in answers)
    if bad := [code for code in MARKS if code != "agrees" and any(code == one.effect.verdict.code for one in answers)]:
        figure.supxlabel("verdicts: " + ", ".join(map(marked, bad)) + ("; else ✓ agrees"), fontsize=7)
    figure.legend(handles=legend(truth), loc="outside upper left", ncols=3, fontsize=7, frameon=False)
    return figure


def draw_curve(axes: Axes, points: list[tuple[float, Asked]], classifier: str, unit: Unit) -> None:
    mine = [(value, answer) for value, asked in points for answer in asked.answers if answer.audited.name == classifier]
    times = unit.factor
    if unit is POINTS:
        axes.axhspan(-100 * BAND, 100 * BAND, color="0.92", zorder=0)
    axes.axhline(0, color="0.25", linewidth=0.9, zorder=1)
    values = [value for value, _ in mine]
    axes.plot(values, [times * answer.effect.generator.value for _, answer in mine], marker="o", markersize=4.5,
              markerfacecolor="white", markeredgecolor=MODEL, zorder=2, **MODEL_LINE)  # type: ignore[arg-type]  # fmt: skip
    for value, answer in mine:
        combined, truth = answer.effect.combined, answer.row.truth
        if combined is not None:
            axes.plot([value] * 2, [times * end for end in combined.interval], color=COMBINED, linewidth=2.2, zorder=3)
            axes.plot(value, times * combined.value, "o", markersize=6, color=COMBINED, zorder=4)
        if truth:
            axes.plot(value, times * truth["bias"], "_", markersize=10, color=TRUTH, markeredgewidth=1.8, zorder=5)
        if not answer.effect.verdict.good:
            axes.annotate(MARKS[answer.effect.verdict.code], (value, 0), xycoords=("data", "axes fraction"),
                          xytext=(0, 3), textcoords="offset points", fontsize=9, weight="bold", ha="center")  # fmt: skip
    axes.tick_params(labelsize=7)
    bare(axes)


def bare(axes: Axes, *also: str) -> None:
    for side in ("top", "right", *also):
        axes.spines[side].set_visible(False)


def literal(text: str) -> str:
    """A name from outside as letters: a dollar would begin a formula.

    >>> literal("$x$")
    '\\\\$x\\\\$'
    """
    return text.replace("$", r"\$")
