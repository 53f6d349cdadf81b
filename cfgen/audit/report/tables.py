"""The tables of an audit's report, the same for the page and for Markdown; a bad verdict stands beside every number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cfgen.audit.effect import Effect
from cfgen.audit.report.forest import Answered, Group, drawn_answers, groups
from cfgen.audit.report.text import ALONE, cohort_title, do_title, kind, marked, points, short_names, significance
from cfgen.audit.results import EVERYONE
from cfgen.audit.unit import POINTS, Unit
from cfgen.effects import Estimate
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.outcome import Audited, AuditResult, Contrast

__all__ = [
    "Row",
    "Table",
    "bias_tables",
    "contrast_tables",
    "doubtful",
    "flip_tables",
    "short_kind",
    "subgroup_tables",
    "transformation_tables",
]


class Row(NamedTuple):
    """A line of a table."""

    name: str
    cells: Sequence[str]
    classes: str = ""


class Table(NamedTuple):
    """A table; the first head is that of the names of rows."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Row]


def bias_tables(result: AuditResult) -> list[Table]:
    """One for each cohort and curve: verdict, combined estimate, and what it is made of."""
    return [bias_table(result, group) for group in groups(result)]


def bias_table(result: AuditResult, group: Group) -> Table:
    answers = [(asked.change, answered) for asked in group.asked for answered in asked.answers]
    paired = any(answered.effect.pairs is not None for _, answered in answers)
    known = any(answered.row.truth for _, answered in answers)
    heads = ["intervention", *classifier_head(result), "verdict", "effect", "images", "combined", "significant"]
    heads += ["real images alone", *(["true pairs"] if paired else []), ALONE]
    heads += ["ground truth"] if known else []
    return Table(
        group.title, heads, [bias_line(result, change, answered, paired, known) for change, answered in answers]
    )


def bias_line(result: AuditResult, change: str, answered: Answered, paired: bool, known: bool) -> Row:
    one, row, effect = answered
    cells = [*classifier_cell(result, one), marked(effect.verdict.code), short_kind(effect), f"{effect.changed:,}"]
    unit = effect.unit
    cells += [
        "none" if effect.combined is None else with_span(effect.combined, unit),
        significance(effect),
        with_span(effect.real, unit),
    ]
    cells += [with_span(effect.pairs, unit)] if paired else []
    cells += [with_span(effect.generator, unit)]
    if known:
        inside = "inside" if row.truth_within else "outside"
        cells.append(f"{points(row.truth['bias'], unit)}, {inside}" if row.truth else "")
    return Row(do_title(change), cells, doubtful(effect.verdict.good))


def doubtful(*good: bool) -> str:
    """The class of a line, marked where a verdict is bad."""
    return "" if all(good) else "doubtful"


def flip_tables(result: AuditResult) -> list[Table]:
    """What only counterfactuals can say, beside what the shares of yes leave possible."""
    heads = ["intervention", *classifier_head(result), "verdict", "answers that flip", "no → yes", "yes → no"]
    heads += ["no → yes, possible", "yes → no, possible"]
    tables = []
    for group in groups(result) if result.unit is POINTS else ():
        rows = [
            Row(
                do_title(asked.change),
                [
                    *classifier_cell(result, one),
                    marked(effect.verdict.code),
                    *(share(row.values[key]) for key in ("flipped", "up", "down")),
                    *possible(effect),
                ],
                doubtful(effect.verdict.good),
            )
            for asked in group.asked
            for one, row, effect in drawn_answers(asked)
        ]
        tables.append(Table(group.title, heads, rows))
    return tables


def possible(effect: Effect) -> list[str]:
    """The Fréchet bounds; without a combined estimate there is nothing to bound by."""
    if effect.combined is None:
        return ["not known", "not known"]
    ends = [(share(low), share(high)) for low, high in effect.bounds]
    return [low if low == high else f"{low} to {high}" for low, high in ends]


def transformation_tables(result: AuditResult) -> list[Table]:
    """The baselines of Table 3, which intervene on no attribute."""
    rows = [
        Row(
            row.change.replace("_", " "),
            [
                *classifier_cell(result, one),
                f"{row.n:,}",
                *(share(row.values[key]) for key in ("flipped", "up", "down")),
                f"{points(row.values['bias'])} ({points(row.values['bias/low'])} to {points(row.values['bias/high'])})",
            ],
        )
        for one in result.detailed
        for row in one.findings.bias
        if not row.do and row.n and row.among == EVERYONE and result.unit is POINTS
    ]
    heads = ["transformation", *classifier_head(result), "images", "answers that flip", "no → yes", "yes → no", "bias"]
    return [Table("Transformations that change no attribute", heads, rows)] if rows else []


def contrast_tables(result: AuditResult) -> list[Table]:
    """One for each cohort: every further classifier against the first, on the same images."""
    heads = ["intervention", "classifier", "its bias", "against", "its bias", "effect", "difference", "from"]
    tables = []
    for among in dict.fromkeys(contrast.among for contrast in result.contrasts):
        rows = [contrast_line(result, contrast) for contrast in result.contrasts if contrast.among == among]
        tables.append(Table(cohort_title(among), heads, rows))
    return tables


def contrast_line(result: AuditResult, contrast: Contrast) -> Row:
    names, cells, good, which = short_names(result), [], [], ""
    for name in (contrast.classifier, contrast.against):
        effect = effect_of(result, name, contrast.among, contrast.change)
        used = effect.headline if contrast.corrected else effect.generator
        cells += [names[name], f"{points(used.value, effect.unit)} {marked(effect.verdict.code)}"]
        good.append(effect.verdict.good)
        which = short_kind(effect)
    cells += [which, with_span(contrast.estimate, result.unit), "combined" if contrast.corrected else ALONE]
    return Row(do_title(contrast.change), cells, doubtful(*good))


def effect_of(result: AuditResult, name: str, among: str, change: str) -> Effect:
    rows = next(one for one in result.audited if one.name == name).findings.bias
    return next(row.effect for row in rows if row.effect and (row.among, row.change) == (among, change))


def subgroup_tables(result: AuditResult) -> list[Table]:
    """One for each intervention."""
    heads = ["subgroup", *classifier_head(result), "verdict", "images", "bias (simultaneous interval)", "from"]
    heads += ["do the subgroups differ? (corrected p)"]
    found = [(one, row) for one in result.detailed for row in one.subgroups]
    unit = result.unit
    tables = []
    for change in dict.fromkeys(row.change for _, row in found):
        rows = [
            Row(
                row.subgroup,
                [
                    *classifier_cell(result, one),
                    marked(row.verdict),
                    f"{row.n:,}",
                    f"{points(row.bias, unit)} ({points(row.low, unit)} to {points(row.high, unit)})",
                    "combined" if row.corrected else ALONE,
                    p_value(row.differs),
                ],
                doubtful(row.verdict == "agrees"),
            )
            for one, row in found
            if row.change == change
        ]
        which = next(
            (kind(row.effect) for row in result.bias if row.change == change and row.effect is not None), "total effect"
        )
        tables.append(Table(f"{do_title(change)}, {which}", heads, rows))
    return tables


def p_value(p: float) -> str:
    """A p-value as a reader wants it.

    >>> p_value(0.0000012), p_value(0.034), p_value(float("nan"))
    ('yes, p < 0.001', 'yes, p = 0.034', 'not tested')
    """
    if math.isnan(p):
        return "not tested"
    return f"{'yes' if p < 0.05 else 'not shown'}, p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"


def short_kind(effect: Effect) -> str:
    """Below the head "effect"."""
    return kind(effect).replace(" effect", "")


def classifier_head(result: AuditResult) -> list[str]:
    return ["classifier"] if len(result.audited) > 1 else []


def classifier_cell(result: AuditResult, one: Audited) -> list[str]:
    return [short_names(result)[one.name]] if len(result.audited) > 1 else []


def with_span(estimate: Estimate | None, unit: Unit) -> str:
    if estimate is None:
        return "cannot say"
    return f"{points(estimate.value, unit)} ({points(estimate.low, unit)} to {points(estimate.high, unit)})"
