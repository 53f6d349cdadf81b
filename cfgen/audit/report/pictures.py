"""The figures of an audit's report, each with a description for those who cannot see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from cfgen.audit.report.figures import figure_name, numbered
from cfgen.audit.report.forest import Badge, badge
from cfgen.audit.report.text import ALONE, do_title, marked, points, short_names
from cfgen.audit.results import EVERYONE
from cfgen.audit.shown import flip_name
from cfgen.audit.unit import POINTS
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult

__all__ = [
    "Examples",
    "ReportFigure",
    "curve_figure",
    "flip_figures",
    "graph_figure",
    "local_figures",
    "ranking_figures",
    "scatter_figures",
]


class ReportFigure(NamedTuple):
    """A figure by its name, and its description."""

    name: str
    description: str


class Example(NamedTuple):
    """Images whose answer an intervention flips in one direction."""

    title: str
    badge: Badge
    figure: ReportFigure


class Examples(NamedTuple):
    """Those of one classifier, which is named where there are several."""

    classifier: str
    shown: list[Example]


def flip_figures(result: AuditResult) -> list[Examples]:
    found = []
    for number, one in enumerate(result.detailed, start=1):
        effects = {row.change: row.effect for row in one.findings.bias if row.among == EVERYONE}
        shown = []
        for name in result.plan.do:
            for way, direction in (("up", "to yes"), ("down", "to no")):
                effect = effects.get(name)
                if effect is None or flip_name(way, name) not in one.flips:
                    continue
                compared = ", base and counterfactual" if name not in result.plan.start else " and at either value"
                text = f"Images whose answer flips {direction} under {do_title(name)}: real{compared}"
                figure = ReportFigure(numbered(flip_name(way, name), number), text)
                shown.append(Example(f"{do_title(name)} flips {direction}", badge(effect.verdict.code), figure))
        if shown:
            found.append(Examples(short_names(result)[one.name] if len(result.audited) > 1 else "", shown))
    return found


def local_figures(result: AuditResult) -> list[ReportFigure]:
    texts: Mapping[int, list[str]] = {number: [] for number in result.local}
    for record in result.records().get("local", []):
        texts[record["image"]].append(f"{record['attribute']} {points(record['score'], result.unit)}")
    return [
        ReportFigure(
            figure_name("local", str(number)),
            f"Image {number}, and by how many {result.unit.name} each attribute makes "
            f"{'yes more probable' if result.unit is POINTS else 'the prediction higher'}, by the model alone: "
            f"{', '.join(found)}",
        )
        for number, found in texts.items()
    ]


def curve_figure(result: AuditResult, name: str) -> ReportFigure:
    texts = result.plan.curves[name]
    effects = {row.change: row.effect for row in result.bias if row.change in texts and row.among == EVERYONE}
    numbers = "; ".join(
        f"{change} {marked(effect.verdict.code)}, "
        + (f"combined {points(effect.combined.value, effect.unit)}" if effect.combined else ALONE)
        + f", model {points(effect.generator.value, effect.unit)}"
        for change, effect in effects.items()
        if effect is not None
    )
    return ReportFigure(figure_name("curve", name), f"Bias in {result.unit.name} over values of {name}: {numbers}")


def ranking_figures(result: AuditResult) -> list[ReportFigure]:
    return [
        ReportFigure(
            numbered("attribute_ranking", number),
            f"Attributes by importance, in {result.unit.name}, by the model alone: "
            + ", ".join(f"{line.attribute} {points(line.score, result.unit)}" for line in one.findings.importance),
        )
        for number, one in enumerate(result.detailed, start=1)
        if one.findings.importance
    ]


def scatter_figures(result: AuditResult) -> list[ReportFigure]:
    found: list[ReportFigure] = []
    for number, one in enumerate(result.detailed if result.unit is POINTS else [], start=1):
        who = f" ({short_names(result)[one.name]})" if len(result.audited) > 1 else ""
        shares = "; ".join(
            f"{row.change} ({marked(row.effect.verdict.code)}): {share(row.values['up'])} to yes, "
            f"{share(row.values['down'])} to no"
            for row in one.findings.bias
            if row.among == EVERYONE and row.effect is not None
        )
        text = f"Scatter plots of the probabilities before and after each intervention, by the model{who}. {shares}."
        found.append(ReportFigure(numbered("fairness_do", number), text))
        found.append(
            ReportFigure(numbered("fairness_affine", number), f"The same for a mirrored and a brightened image{who}.")
        )
    return found


def graph_figure(result: AuditResult) -> ReportFigure:
    edges = (
        "; ".join(f"{cause} causes {effect}" for cause, effect in result.graph.edges) or "no attribute causes another"
    )
    return ReportFigure("causal_graph", f"Causal graph: {edges}; every attribute causes the image")
