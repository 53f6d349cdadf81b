"""The summary of an audit on the console: the bias tables, and lines below them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as ConsoleTable

from cfgen.audit.questions import EVERYONE
from cfgen.audit.report._sections import few_classes, sections
from cfgen.audit.report._tables import Table, bias_table
from cfgen.audit.report._words import MODEL_ONLY, accuracy_text, next_steps, short_names, with_interval
from cfgen.audit.result import AuditResult
from cfgen.reporting.numbers import share

SHOWN = ("classifier", "verdict", "effect", "images", "estimate")
LEFT = ("intervention", "classifier", "verdict", "effect")  # the other columns have numbers


def show(result: AuditResult) -> None:
    """Print the tables and the lines."""
    console = Console(markup=False, emoji=False)  # labels and attributes may contain what looks like markup
    for table in summary_tables(result):
        printed = ConsoleTable(title=table.title, box=SIMPLE_HEAD, title_justify="left")
        for head in table.heads:
            printed.add_column(head, overflow="fold", justify="left" if head in LEFT else "right")
        for row in table.rows:
            printed.add_row(row.name, *row.cells, style="yellow" if row.classes else "")
        console.print(printed)
    for line in summary_lines(result):
        print(line)


def summary_tables(result: AuditResult) -> list[Table]:
    """The bias tables with fewer columns; what is the same for all rows goes to the title."""
    labels = list(dict.fromkeys(one.label for one in result.classifiers))
    about = f" towards {labels[0]}" if len(labels) == 1 and labels[0] != "yes" else ""
    what = f"Bias in points{about}" if result.outcome.flips else "Change of the prediction"
    tables = []
    for section in few_classes(sections(result)):
        shown = bias_table(result, section).select(SHOWN)
        place = shown.heads.index("effect") - 1
        kinds = list(dict.fromkeys(row.cells[place] for row in shown.rows))
        title = f"{what}, {shown.title[0].lower()}{shown.title[1:]}"
        if len(kinds) == 1:
            shown = shown.select([head for head in SHOWN if head != "effect"])
            title = f"{title} ({kinds[0]} effect)"
        tables.append(shown._replace(title=title))
    return tables


def summary_lines(result: AuditResult) -> Iterator[str]:
    """Differences between classifiers, accuracy, ground truth, next steps and warnings."""
    names, outcome = short_names(result), result.outcome
    for one in result.differences:
        where = "" if one.cohort == EVERYONE else f" among {one.cohort}"
        text = with_interval(outcome, one.estimate.value, *one.estimate.interval)
        source = "" if one.corrected else f", {MODEL_ONLY}"
        yield f"{names[one.classifier]} minus {names[one.against]}, {one.change}{where}: {text} {outcome.unit}{source}"
    for classes in result.classes:
        if text := accuracy_text(classes):
            yield f"{classes.name}: {text}"
        for matrix in classes.matrices:
            if matrix.cohort == EVERYONE and matrix.n:
                title = result.questions.intervention(matrix.change).title
                yield f"{classes.name}, {title}: {share(matrix.flipped)} of {matrix.n:,} images change their class"
    for found in result.detailed:
        who = f"{names[found.name]}: " if len(result.classifiers) > 1 else ""
        if found.outcome.flips and not found.class_name and not math.isnan(found.accuracy):
            yield f"{who}accuracy for {found.label}: {found.accuracy:.1%} of {found.n_images:,} images"
        if found.truths:
            yield f"{who}ground truth inside the confidence interval: {found.truths[0]} of {found.truths[1]}"
    yield from (f"next: {text}" for text in next_steps(result))
    yield from (f"warning: {text}" for text in result.warnings)
