"""An audit's report as one HTML page and as Markdown: what they show is put together here, how it looks is the templates'."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cfgen.audit.label import ANY
from cfgen.audit.report import classes, details, tables
from cfgen.audit.report import pictures as figures
from cfgen.audit.report.forest import (
    Answered,
    Badge,
    Group,
    Scale,
    Strip,
    badge,
    drawn_answers,
    groups,
    scale_of,
    strip,
)
from cfgen.audit.report.methods import assumptions, methods
from cfgen.audit.report.pictures import ReportFigure
from cfgen.audit.report.quality import warnings_of_all
from cfgen.audit.report.text import (
    Sentence,
    capitalized,
    do_title,
    finding,
    in_words,
    kind,
    marked,
    next_steps,
    points,
    short_names,
)
from cfgen.audit.report.words import READING, words
from cfgen.audit.results import EVERYONE
from cfgen.audit.unit import POINTS, Unit
from cfgen.audit.verdict import VERDICTS
from cfgen.reporting.numbers import count_of, share
from cfgen.reporting.pages import PagePicture, markdown_page, page, page_picture

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult

__all__ = ["report_html", "report_markdown"]

NOT_SHOWN = ("command", "model_scores")  # of the facts: shown elsewhere on the page


class Found(NamedTuple):
    """What was found about one classifier under one intervention; `classifier` is empty where there is only one."""

    classifier: str
    badge: Badge
    sentence: Sentence
    start: str
    strip: Strip
    numbers: str
    kind: str
    reason: str


class Shown(NamedTuple):
    """An intervention with its findings."""

    title: str
    found: list[Found]


class Section(NamedTuple):
    """Interventions that are drawn together: of all images (`everyone`) or a cohort; `short` where they are values of a curve."""

    title: str
    everyone: bool
    short: bool
    figure: ReportFigure | None
    shown: list[Shown]


def report_html(result: AuditResult) -> str:
    """One page that opens without anything else."""
    pictures = result.pictures

    def picture_of(figure: ReportFigure) -> PagePicture | None:
        return page_picture(pictures[figure.name], figure.description) if figure.name in pictures else None

    return page("audit.html", picture_of=picture_of, **content(result))


def report_markdown(result: AuditResult) -> str:
    """The same as Markdown; the figures are the PNG files beside it."""
    return markdown_page("audit.md", pictures=set(result.pictures), **content(result))


def content(result: AuditResult) -> dict[str, Any]:
    """All that a report shows, as text and numbers."""
    drawn = groups(result)
    scale = scale_of(drawn, result.unit)
    return {
        "title": title(result),
        "asked": asked(result),
        "summary": summary(drawn),
        "sections": [section(result, group, scale) for group in drawn],
        "axis": axis(scale, result.unit),
        "zero": scale.place(0),
        "in_points": result.unit is POINTS,
        "estimates": estimates_figure(drawn),
        "truths": truths(drawn),
        "next_steps": next_steps(result),
        "warnings": all_warnings(result),
        "reading": READING,
        "words": words(result),
        "flips": figures.flip_figures(result),
        "local": figures.local_figures(result),
        "bias_tables": tables.bias_tables(result),
        "contrast_tables": tables.contrast_tables(result),
        "subgroup_tables": tables.subgroup_tables(result),
        "flip_tables": tables.flip_tables(result),
        "class_tables": classes.class_tables(result),
        "matrices": classes.matrix_figures(result),
        "scatters": figures.scatter_figures(result),
        "transformation_tables": tables.transformation_tables(result),
        "rankings": figures.ranking_figures(result),
        "importance_tables": details.importance_tables(result),
        "dose_tables": details.dose_tables(result),
        "methods": methods(result),
        "method_tables": details.method_tables(result),
        "quality_tables": details.quality_tables(result),
        "assumptions": assumptions(result),
        "assumed": list(result.facts.get("assumed") or []),
        "graph": figures.graph_figure(result),
        "command": result.command,
        "facts": json.dumps(
            {key: value for key, value in result.facts.items() if key not in NOT_SHOWN}, indent=1, default=str
        ),
        "files": ", ".join(f"{name}.csv" for name in result.records()),
    }


def title(result: AuditResult) -> str:
    if result.unit is not POINTS:
        return "What changes the network's prediction?"
    several = len({one.network for one in result.audited}) > 1 or (len(result.audited) > 1 and not result.classes)
    labels = list(dict.fromkeys(one.label for one in result.audited))
    about = f" about “{labels[0]}”?" if len(labels) == 1 and labels[0] != ANY else "?"
    return ("Are the classifiers biased" if several else "Is the classifier biased") + about


def asked(result: AuditResult) -> list[tuple[str, str]]:
    """Who was asked what, in a few lines."""
    options, data = result.facts.get("options") or {}, result.facts.get("data") or {}
    plain = [one for one in result.audited if not one.of_class]
    several = len(plain) + len(result.classes) > 1
    lines = classes.asked_lines(result, several)
    for number, one in enumerate(plain, start=1 + len(lines)):
        right = (
            ""
            if one.accuracy is None
            else f"; right for {share(one.accuracy)} of the images themselves, by the data's own labels"
        )
        text = f"{one.name}: says “{one.label}” where its probability is above {result.threshold:g}{right}"
        if result.unit is not POINTS:
            text = f"{one.name}: predicts a value, whose changes are in its own units"
        lines.append((f"classifier {number}" if several else "classifier", text))
    models = [options.get("model"), *(one.get("source") for one in result.facts.get("models") or [])]
    names = ", ".join(str(name or "a model in memory") for name in models)
    lines.append(("models" if len(models) > 1 else "model", names))
    split = f" of the {data['split']} split" if "split" in data else ""
    lines.append(("images", f"{count_of(result.findings.images, 'image')}{split}"))
    in_curves = {text for texts in result.plan.curves.values() for text in texts}
    changes = [in_words(text) for text in result.plan.do if text not in in_curves]
    changes += [f"{name} at each of {len(texts)} values" for name, texts in result.plan.curves.items()]
    says = "what would they say" if several else "what would it say"
    lines.append(("question", f"{says} of the same images with {'; with '.join(changes)}?"))
    return lines


def everyone(drawn: Sequence[Group]) -> list[Answered]:
    return [answered for group in drawn if group.among == EVERYONE for one in group.asked for answered in one.answers]


def summary(drawn: Sequence[Group]) -> list[tuple[Badge, str]]:
    """How many findings have which verdict, among all images."""
    codes = [answered.effect.verdict.code for answered in everyone(drawn)]
    return [(badge(code), f"{codes.count(code)} of {len(codes)}") for code in VERDICTS if code in codes]


def truths(drawn: Sequence[Group]) -> tuple[int, int] | None:
    """How many true biases, among all images, lie in the interval of the headline, and how many are known; None if none."""
    known = [inside for answered in everyone(drawn) if (inside := answered.row.truth_within) is not None]
    return (sum(known), len(known)) if known else None


def all_warnings(result: AuditResult) -> list[str]:
    names = short_names(result)
    return warnings_of_all({names[one.name]: one.findings for one in result.detailed}, result.plan)


def section(result: AuditResult, group: Group, scale: Scale) -> Section:
    shown = [
        Shown(do_title(one.change), [found(result, each, scale) for each in drawn_answers(one)]) for one in group.asked
    ]
    all_images = group.among == EVERYONE
    curve = figures.curve_figure(result, group.curve) if group.curve and all_images else None
    return Section(group.title, all_images, bool(group.curve), curve, shown)


def found(result: AuditResult, answered: Answered, scale: Scale) -> Found:
    one, row, effect = answered
    sentence = finding(row, one.label)
    low, high = effect.headline.interval
    unit = effect.unit
    numbers = f"{points(effect.headline.value, unit)} ({points(low, unit)} to {points(high, unit)})"
    return Found(
        short_names(result)[one.name] if len(result.audited) > 1 else "",
        badge(effect.verdict.code),
        sentence,
        capitalized(sentence.start),
        strip(answered, scale),
        numbers if effect.combined is not None else f"{numbers}, model alone",
        kind(effect),
        effect.verdict.reason,
    )


def axis(scale: Scale, unit: Unit) -> list[tuple[float, str]]:
    """Where on the axis which number stands."""
    digits = ".0f" if unit is POINTS else unit.digits
    return [(scale.place(tick), "0" if tick == 0 else f"{unit.factor * tick:+{digits}}") for tick in scale.ticks]


def which_class(answered: Answered) -> str:
    return f"{answered.audited.of_class} " if answered.audited.of_class else ""


def estimates_figure(drawn: Sequence[Group]) -> ReportFigure:
    """All estimates, as the page draws them itself."""
    text = "; ".join(
        f"{do_title(one.change)} {which_class(answered)}{marked(answered.effect.verdict.code)}"
        for group in drawn
        for one in group.asked
        for answered in drawn_answers(one)
    )
    return ReportFigure("estimates", f"Estimates with their intervals: {text}")
