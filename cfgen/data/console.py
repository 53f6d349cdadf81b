"""A look at a data set in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cfgen.reporting.dataset import DataReport, words
from cfgen.reporting.dataset.page import ATTRIBUTE_HEADS, OVERLAP_HEADS, attribute_cells, counts_line, overlap_cells

__all__ = ["show"]

MOST = 10  # associations and contradictions that are listed
MOST_OVERLAP = 40  # interventions


def show(report: DataReport) -> None:
    """Prints what there is to see; the page has all of it."""
    console = Console(markup=False, emoji=False)
    say(console, f"{report.title}: {counts_line(report)}")
    for line in report.findings:
        say(console, line)
    show_table(console, "attributes (training split)", ATTRIBUTE_HEADS, map(attribute_cells, report.attributes), left=4)
    pairs = report.association_records()
    rows = [[f"{one['one']}, {one['other']}", one["measure"], f"{one['strength']:.2f}", words.p_text(one["p_value"])]
        for one in pairs[:MOST]]  # fmt: skip
    if rows:
        title = f"the strongest of {len(pairs)} associations" if len(pairs) > MOST else "associations"
        show_table(console, title, ("pair", "measure", "strength", "p-value"), rows, left=2)
    say(console, "graph   " + (", ".join(f"{c} → {e}" for c, e in report.graph.edges) or "no edges between attributes"))
    say(console, words.check_summary(report.check))
    contradictions = [words.contradiction(one) for one in report.check.contradictions]
    for line in contradictions[:MOST]:
        say(console, f"  - {line}")
    if len(contradictions) > MOST:
        say(console, f"  - and {len(contradictions) - MOST:,} more, in the page that --out writes")
    say(console, words.LIMITS)
    for name, reason in report.check.untested.items():
        say(console, f"{name} was not tested: {reason}.")
    if unseen := report.check.unseen_edges:
        say(console, words.EDGES)
        for one in unseen:
            say(console, f"  - {words.unseen_edge(one)}")
    lines = [[one.do, *overlap_cells(one)] for one in report.overlap]
    # where there are many interventions, those that real images cannot answer come first
    more = ""
    if len(lines) > MOST_OVERLAP:
        lines.sort(key=lambda line: line[-1] == "yes")
        more = f" (the first {MOST_OVERLAP} of {len(lines)})"
    console.print()
    say(console, words.OVERLAP)
    show_table(console, f"overlap (test split){more}", OVERLAP_HEADS, lines[:MOST_OVERLAP], left=1)
    if report.description:
        say(console, "attributes.yaml, to keep beside the table and to change where a guess is wrong:")
        print(report.description)  # to be copied: no line is broken


def show_table(console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> None:
    """Prints a table whose first `left` columns are text and the others numbers; a column without any entry is left out."""
    rows = list(rows)
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    shown = [position for position in range(len(heads)) if any(row[position] for row in rows)]
    for position in shown:
        # a name or a number is never cut off, nor in two: names often differ at their ends
        whole = not any(" " in row[position] for row in rows)
        table.add_column(
            heads[position], justify="left" if position < left else "right", no_wrap=whole, overflow="fold"
        )
    for row in rows:
        table.add_row(*(row[position] for position in shown))
    console.print(table)


def say(console: Console, text: str) -> None:
    console.print(text, highlight=False)
