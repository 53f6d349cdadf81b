"""What a command prints of an audit, as plain rows and lines: a verdict with every number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cfgen.audit.effect import Effect
from cfgen.audit.label import ANY
from cfgen.audit.report.classes import accuracy_text
from cfgen.audit.report.forest import Group, drawn_answers, groups
from cfgen.audit.report.quality import warnings_of_all
from cfgen.audit.report.text import ALONE, marked, next_steps, points, short_names, significance, which_effect
from cfgen.audit.results import EVERYONE
from cfgen.audit.unit import POINTS
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult

__all__ = ["HEADS", "ConsoleRow", "ConsoleTable", "console_lines", "console_tables", "show"]

HEADS = ("intervention", "images", "verdict", "bias, points", "95 %", "significant")


class ConsoleRow(NamedTuple):
    """A finding, as `HEADS` names its parts; `good` says that real images and model agree."""

    change: str
    images: str
    verdict: str
    estimate: str
    interval: str
    significant: str
    good: bool


class ConsoleTable(NamedTuple):
    """The findings of one classifier in one cohort or curve."""

    title: str
    rows: list[ConsoleRow]


def show(result: AuditResult) -> None:
    """Prints the tables and the lines."""
    console = Console(markup=False, emoji=False)  # labels and attributes may hold what looks like markup
    for shown in console_tables(result):
        table = Table(title=shown.title, box=SIMPLE_HEAD, title_justify="left")
        for head in HEADS:
            head = head.replace("bias, points", "change") if result.unit is not POINTS else head
            table.add_column(head, overflow="fold", justify="left" if head in ("intervention", "verdict") else "right")
        for row in shown.rows:
            table.add_row(*row[:-1], style="" if row.good else "yellow")
        console.print(table)
    for line in console_lines(result):
        print(line)


def console_tables(result: AuditResult) -> list[ConsoleTable]:
    """By cohort and curve, and in these by classifier."""
    tables = []
    for group in groups(result):
        tables += [class_table(result, group, findings.name) for findings in result.classes]
        for one in result.audited:
            if one.of_class:
                continue
            mine = [(asked.change, of.effect) for asked in group.asked for of in asked.answers if of.audited is one]
            if not mine:
                continue
            kinds = list(dict.fromkeys(which_effect(effect) for _, effect in mine))
            who = f" of {short_names(result)[one.name]}" if len(result.audited) > 1 else ""
            about = "" if one.label == ANY else f" towards {one.label}"
            where = "" if group.among == EVERYONE and not group.curve else f", {uncapitalized(group.title)}"
            which = f" ({kinds[0]})" if len(kinds) == 1 else ""
            rows = [console_row(change, effect, of_several=len(kinds) > 1) for change, effect in mine]
            what = "Bias" if result.unit is POINTS else "Change of the prediction"
            tables.append(ConsoleTable(f"{what}{who}{about}{where}{which}", rows))
    return tables


def class_table(result: AuditResult, group: Group, network: str) -> ConsoleTable:
    """Of each intervention the classes that change most."""
    rows = []
    for asked in group.asked:
        mine = [answered for answered in drawn_answers(asked) if answered.audited.network == network]
        rows += [console_row(f"{asked.change} → {one.label}", effect, of_several=True) for one, _, effect in mine]
    who = f" of {network}" if len(result.classes) > 1 else ""
    where = "" if group.among == EVERYONE and not group.curve else f", {uncapitalized(group.title)}"
    return ConsoleTable(f"Bias{who} by class, the largest of each intervention{where}", rows)


def console_row(change: str, effect: Effect, of_several: bool) -> ConsoleRow:
    """`of_several` kinds of effects in a table: then the line says which it is."""
    low, high = effect.headline.interval
    unit = effect.unit
    number = points(effect.headline.value, unit)
    return ConsoleRow(
        f"{change} ({which_effect(effect)})" if of_several else change,
        f"{effect.changed:,}" if effect.about == 1 else f"{effect.changed:,} ({share(effect.about)} comparable)",
        marked(effect.verdict.code),
        number if effect.combined is not None else f"{number} ({ALONE})",
        f"{points(low, unit)} to {points(high, unit)}",
        significance(effect),
        effect.verdict.good,
    )


def uncapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]


def console_lines(result: AuditResult) -> list[str]:
    """What follows the tables: comparisons, accuracy, ground truth, what to do next, and warnings."""
    names, unit = short_names(result), result.unit
    lines = []
    for contrast in result.contrasts:
        low, high = contrast.estimate.interval
        where = "" if contrast.among == EVERYONE else f" among {contrast.among}"
        source = "" if contrast.corrected else f" ({ALONE})"
        lines.append(
            f"{names[contrast.classifier]} minus {names[contrast.against]}, {contrast.change}{where}: "
            f"{points(contrast.estimate.value, unit)} {unit.name}, {points(low, unit)} to {points(high, unit)}{source}"
        )
    for findings in result.classes:
        if text := accuracy_text(findings):
            lines.append(f"{findings.name}: {text}")
        lines += [
            f"{findings.name}, do({matrix.change}): {share(matrix.flipped)} of {matrix.n:,} images change their class"
            for matrix in findings.matrices
            if matrix.among == EVERYONE and matrix.n
        ]
    for one in result.detailed:
        if one.accuracy is not None and not one.of_class:
            who = f"{names[one.name]}: " if len(result.audited) > 1 else ""
            lines.append(
                f"{who}accuracy for {one.label}, against the data's own labels: {one.accuracy:.1%} of "
                f"{one.findings.images:,} images"
            )
        if one.findings.truths:
            inside, known = one.findings.truths
            who = f"{names[one.name]}: " if len(result.audited) > 1 else ""
            lines.append(f"{who}ground truth inside the confidence interval: {inside} of {known}")
    lines += [f"next: {text}" for text in next_steps(result)]
    found = warnings_of_all({names[one.name]: one.findings for one in result.detailed}, result.plan)
    return lines + [f"warning: {text}" for text in found]
