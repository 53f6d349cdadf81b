"""The audit's figures: fairness scatter plots with quadrants (Fig. 6), attributes ranked (Fig. 7), examples, single images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.audit.asking import do_column
from cfgen.audit.plan import Scores
from cfgen.audit.report.interval_figure import bare, curve_figure, estimates_figure, literal
from cfgen.audit.report.text import SHORT, do_title, short_names
from cfgen.audit.results import EVERYONE, Importance, local_scores
from cfgen.audit.run import Triple
from cfgen.audit.transformations import AFFINE
from cfgen.audit.unit import POINTS, Unit
from cfgen.figures import image_grid
from cfgen.figures.grid import draw_image
from cfgen.metrics import ranking

if TYPE_CHECKING:
    from cfgen.audit.outcome import Audited, AuditResult

__all__ = [
    "attribute_ranking",
    "audit_figures",
    "fairness_scatter",
    "figure_name",
    "flipped_answers",
    "local_explanation",
]

RANKED = 4  # attributes on either side of the ranking, as in Fig. 7
EXPLAINED = 10  # lines of a local explanation

UP, DOWN, SAME = "#1b6ca8", "#c8501e", "#8a8a8a"  # apart in print and for the colour-blind
PRESENT = "present"
DRAWN = 4000  # points in a panel at most; shares are of all


def audit_figures(result: AuditResult) -> dict[str, Figure]:
    """All figures by name; those of a second classifier end in `_2`, and so on."""
    figures = {"estimates": estimates_figure(result)}
    figures |= {figure_name("curve", name): curve_figure(result, name) for name in result.plan.curves}
    for number, one in enumerate(result.detailed, start=1):
        figures |= {numbered(name, number): figure for name, figure in classifier_figures(result, one)}
    figures |= {figure_name("local", str(number)): local_explanation(result, number) for number in result.local}
    return figures | {"causal_graph": result.graph.draw()}


def classifier_figures(result: AuditResult, one: Audited) -> Iterator[tuple[str, Figure]]:
    """Fig. 6 of interventions and of transformations, Fig. 7, and images whose answer flips."""
    in_curves = {text for texts in result.plan.curves.values() for text in texts}
    names = [name for name in result.plan.do if name not in in_curves] or list(result.plan.do)
    verdicts = {row.change: row.effect.verdict for row in one.findings.bias if row.effect and row.among == EVERYONE}
    titles = [do_title(name).replace(", ", ",\n") for name in names]
    bad = {name for name, verdict in verdicts.items() if not verdict.good}
    titles = [
        f"{title}\n({SHORT[verdicts[name].code]})" if name in bad else title
        for name, title in zip(names, titles, strict=True)
    ]
    if result.unit is POINTS:
        columns = [do_column(name) for name in names]
        yield "fairness_do", fairness_scatter(one.scores, columns, titles, result.threshold, one.label)
    if result.unit is POINTS and (affine := [name for name in AFFINE if name in one.scores]):
        yield "fairness_affine", fairness_scatter(one.scores, affine, affine, result.threshold, one.label)
    if one.findings.importance:
        yield "attribute_ranking", attribute_ranking(one.findings.importance, RANKED, one.label, result.unit)
    for name, flip in one.flips.items():
        yield name, flipped_answers(*flip)


def figure_name(kind: str, name: str) -> str:
    """The name of a figure, safe as that of a file.

    >>> figure_name("curve", "line width/px")
    'curve_line+width+px'
    """
    safe = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "_=.-" else "+" for letter in name)
    return f"{kind}_{safe}"


def numbered(name: str, number: int) -> str:
    """The name of a figure of the classifier of that number, from 1.

    >>> numbered("fairness_do", 1), numbered("fairness_do", 2)
    ('fairness_do', 'fairness_do_2')
    """
    return name if number == 1 else f"{name}_{number}"


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
        start = scores.base_of(column.partition("/")[2])
        base, changed = scores[start][counted], scores[column][counted]
        before, after = (scores.yes(name, threshold)[counted] for name in (start, column))
        up, down_ = ~before & after, before & ~after
        shown = torch.randperm(len(base), generator=torch.Generator().manual_seed(0))[:DRAWN]
        axes.plot([0, 1], [0, 1], color="0.3", linewidth=0.8, zorder=1)
        if scores.chosen is None:  # the most probable of several classes has no threshold
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
        axes.set_title(literal(title), fontsize=9)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        axes.tick_params(labelsize=7)
    for axes in panels[len(columns) :]:
        axes.axis("off")
    figure.supxlabel(literal(f"p({label}) of the base image"), fontsize=9)
    figure.supylabel(literal(f"p({label}) of the changed image"), fontsize=9)
    return figure


def attribute_ranking(importance: Sequence[Importance], k: int = 4, label: str = "yes", unit: Unit = POINTS) -> Figure:
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
    axes.set_yticks(range(len(shown)), [literal(line_name(one)) for one in shown], fontsize=8)
    axes.invert_yaxis()
    present = all(one.meaning == PRESENT for one in shown)
    more = "the attribute present" if present else "more of it"
    what = f"p({label}) in points" if unit is POINTS else "the prediction"
    in_points(axes, f"mean change of {what} with {more}, by the model", fontsize=8, unit=unit)
    return figure


def line_name(one: Importance) -> str:
    """An attribute, and what more of it is where that is not that it is present."""
    return one.attribute if one.meaning == PRESENT else f"{one.attribute}\n{one.meaning}"


def local_explanation(result: AuditResult, number: int) -> Figure:
    """One image, and how much more probable each attribute makes each classifier's yes for it (Eq. 6)."""
    found = [local_scores(one.scores, result.lines, number) for one in result.detailed]
    names = list(found[0])[:EXPLAINED]
    widest = max((abs(scores[name]) for scores in found for name in names), default=0) or 0.01
    panels = len(found)
    height = max(1.7, 0.5 + 0.23 * len(names))
    figure = Figure(figsize=(1.9 + 2.9 * panels, height), layout="constrained")
    grid = figure.subplots(1, 1 + panels, width_ratios=[1.3, *[2.4] * panels])
    draw_image(grid[0], result.local[number].float() / 255, (0, 0), 1)
    grid[0].set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    grid[0].set_title(f"image {number}", fontsize=8)
    names_of = short_names(result)
    grid[0].axis("off")
    for position, (axes, one, scores) in enumerate(zip(grid[1:], result.detailed, found, strict=True)):
        p = one.scores["base"][number].item()
        draw_bars(axes, {name: scores[name] for name in names}, named=position == 0, unit=result.unit)
        which = f"{names_of[one.name]}\n" if panels > 1 else ""
        told = f"p({one.label}) = {p:.2f}" if result.unit is POINTS else f"prediction {p:.3g}"
        axes.set_title(literal(f"{which}{told}"), fontsize=8)
        axes.set_xlim(-1.08 * widest, 1.08 * widest)
    return figure


def draw_bars(axes: Axes, scores: Mapping[str, float], named: bool, unit: Unit) -> None:
    for place, score in enumerate(scores.values()):
        axes.barh(place, score, color=UP if score > 0 else DOWN, height=0.66)
    axes.axvline(0, color="0.2", linewidth=0.8)
    axes.set_yticks(range(len(scores)), [literal(name) for name in scores] if named else [""] * len(scores), fontsize=7)
    axes.set_ylim(len(scores) - 0.4, -0.6)
    in_points(axes, f"{'points more probable' if unit is POINTS else 'more'}, by the model", fontsize=7, unit=unit)


def in_points(axes: Axes, label: str, fontsize: int, unit: Unit) -> None:
    """An axis of changes of a probability, written in points, or of values."""
    axes.xaxis.set_major_formatter(lambda value, _: f"{unit.factor * value:+.3g}" if abs(value) > 1e-9 else "0")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel(literal(label), fontsize=fontsize)
    bare(axes)


def flipped_answers(images: Triple, before: Tensor, after: Tensor, compared: tuple[str, str]) -> Figure:
    """Images whose answer an intervention flips: real and the two that are compared, with the classifier's probabilities."""
    captions = [[""] * len(before), [f"{p:.2f}" for p in before.tolist()], [f"{p:.2f}" for p in after.tolist()]]
    lines, rows = [list(part) for part in images], ["real", *compared]
    if torch.equal(images.x, images.x_r):  # the residual kept: base images are the images
        lines, rows, captions = lines[1:], ["real", compared[1]], captions[1:]
    return image_grid(lines, rows=rows, captions=captions, cell=1.0)
