"""What a command prints of an audit, as plain rows and lines: a verdict with every number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cfgen.audit.effect import Effect
from cfgen.audit.label import ANY
from cfgen.audit.report.forest import groups
from cfgen.audit.report.quality import warnings_of_all
from cfgen.audit.report.text import ALONE, marked, next_steps, points, short_names, significance, which_effect
from cfgen.audit.results import EVERYONE
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
    console = Console()
    for shown in console_tables(result):
        table = Table(title=shown.title, box=SIMPLE_HEAD, title_justify="left")
        for head in HEADS:
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
        for one in result.audited:
            mine = [(asked.change, of.effect) for asked in group.asked for of in asked.answers if of.audited is one]
            if not mine:
                continue
            kinds = list(dict.fromkeys(which_effect(effect) for _, effect in mine))
            who = f" of {short_names(result)[one.name]}" if len(result.audited) > 1 else ""
            about = "" if one.label == ANY else f" towards {one.label}"
            where = "" if group.among == EVERYONE and not group.curve else f", {uncapitalized(group.title)}"
            which = f" ({kinds[0]})" if len(kinds) == 1 else ""
            rows = [console_row(change, effect, of_several=len(kinds) > 1) for change, effect in mine]
            tables.append(ConsoleTable(f"Bias{who}{about}{where}{which}", rows))
    return tables


def console_row(change: str, effect: Effect, of_several: bool) -> ConsoleRow:
    """`of_several` kinds of effects in a table: then the line says which it is."""
    low, high = effect.headline.interval
    number = points(effect.headline.value)
    return ConsoleRow(
        f"{change} ({which_effect(effect)})" if of_several else change,
        f"{effect.changed:,}" if effect.about == 1 else f"{effect.changed:,} ({share(effect.about)} comparable)",
        marked(effect.verdict.code),
        number if effect.combined is not None else f"{number} ({ALONE})",
        f"{points(low)} to {points(high)}",
        significance(effect),
        effect.verdict.good,
    )


def uncapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]


def console_lines(result: AuditResult) -> list[str]:
    """What follows the tables: comparisons, accuracy, ground truth, what to do next, and warnings."""
    names = short_names(result)
    lines = []
    for contrast in result.contrasts:
        low, high = contrast.estimate.interval
        where = "" if contrast.among == EVERYONE else f" among {contrast.among}"
        source = "" if contrast.corrected else f" ({ALONE})"
        lines.append(
            f"{names[contrast.classifier]} minus {names[contrast.against]}, {contrast.change}{where}: "
            f"{points(contrast.estimate.value)} points, {points(low)} to {points(high)}{source}"
        )
    for one in result.audited:
        if one.accuracy is not None:
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
    found = warnings_of_all({names[one.name]: one.findings for one in result.audited}, result.plan)
    return lines + [f"warning: {text}" for text in found]
