"""An evaluation's scores as tables in the terminal, as their descriptions place them."""

from __future__ import annotations

import statistics

from rich.console import Console
from rich.table import Table

from cfgen.evaluation.metrics.base import OTHER, Cell
from cfgen.evaluation.results import Evaluation, with_error, with_spread
from cfgen.reporting.numbers import short

__all__ = ["show"]

Rows = dict[str, dict[str, str]]  # by row, then by column


def show(evaluation: Evaluation, console: Console | None = None) -> None:
    """Prints the scores, one table after another; what has no table of its own comes last."""
    console = console or Console(markup=False, emoji=False)  # names may hold what looks like markup
    tables, baselines = tables_of(evaluation)
    for title in sorted(tables, key=lambda title: title == OTHER.table):  # all others stay in order
        console.print(drawn(f"{title}, {evaluation.title}", tables[title], baselines[title]))
    console.print("After ±: one standard error over images (of FID: over seeds).", style="dim")
    if evaluation.judges_in_words:
        console.print(evaluation.judges_in_words, style="dim", soft_wrap=True)


def tables_of(evaluation: Evaluation) -> tuple[dict[str, Rows], dict[str, set[str]]]:
    """By title the tables of texts, and of each the rows that are only there to be compared with."""
    cells: dict[Cell, list[str]] = {}
    for name in evaluation.scores:
        cell = evaluation.descriptions[name].cell
        if cell is not None:
            cells.setdefault(cell._replace(row=cell.row or name), []).append(name)
    tables: dict[str, Rows] = {}
    baselines: dict[str, set[str]] = {}
    for cell, names in cells.items():
        scores = [evaluation.scores[name] for name in names]
        if len(scores) == 1:
            text = with_error(scores[0]) if cell.error else with_spread(scores[0])
        else:
            text = short(statistics.fmean(score.value for score in scores))
        tables.setdefault(cell.table, {}).setdefault(cell.row, {})[cell.column] = text
        rows = baselines.setdefault(cell.table, set())
        if all(evaluation.descriptions[name].baseline for name in names) and len(tables[cell.table][cell.row]) == 1:
            rows.add(cell.row)
        elif not all(evaluation.descriptions[name].baseline for name in names):
            rows.discard(cell.row)
    return tables, baselines


def drawn(title: str, rows: Rows, baselines: set[str]) -> Table:
    found = Table(title=title)
    found.add_column("", no_wrap=True)
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    for column in columns:
        # the range of judges wraps below the value where there is little room
        found.add_column(column, justify="right")
    for name, cells in rows.items():
        found.add_row(name, *(cells.get(column, "") for column in columns), style="dim" if name in baselines else "")
    return found
