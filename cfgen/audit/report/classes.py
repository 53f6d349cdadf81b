"""The parts of a report that are about all classes of a classifier: the table of classes and the matrix of flips."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from cfgen.audit.classes import ClassFindings, FlipMatrix
from cfgen.audit.report.figures import figure_name
from cfgen.audit.report.forest import groups
from cfgen.audit.report.interval_figure import literal
from cfgen.audit.report.pictures import ReportFigure
from cfgen.audit.report.tables import Row, Table, doubtful
from cfgen.audit.report.text import MARKS, cohort_title, do_title, points
from cfgen.audit.results import EVERYONE
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.effect import Effect
    from cfgen.audit.outcome import AuditResult

__all__ = ["accuracy_text", "asked_lines", "class_tables", "draw_matrix", "matrix_figures", "matrix_names"]

LEGIBLE = 12  # classes up to which the cells of a matrix have numbers


def asked_lines(result: AuditResult, several: bool) -> list[tuple[str, str]]:
    """Who was asked, of classifiers of several classes."""
    lines = []
    for number, one in enumerate(result.classes, start=1):
        text = f"{one.name}: says the most probable of {len(one.classes)} classes ({', '.join(one.classes)})"
        known = accuracy_text(one)
        lines.append((f"classifier {number}" if several else "classifier", f"{text}; {known}" if known else text))
    return lines


def accuracy_text(one: ClassFindings) -> str:
    """How often a classifier is right, and how far from that it is sure; empty where the data has no labels."""
    accuracy, low, high = one.accuracy
    if math.isnan(accuracy):
        return ""
    text = f"right for {share(accuracy)} of the images themselves ({share(low)} to {share(high)}), by the data's own labels"
    if math.isnan(one.calibration):
        return text
    return f"{text}; calibration error {share(one.calibration)}, the mean distance between how sure it is and that"


def class_tables(result: AuditResult) -> list[Table]:
    """For each cohort, one for each classifier: a line for each class, the largest bias first, and a column an intervention."""
    tables = []
    for group in groups(result) if result.classes else ():
        for findings in result.classes:
            effects: dict[str, dict[str, Effect]] = {}
            for asked in group.asked:
                for answered in asked.answers:
                    if answered.audited.network == findings.name:
                        effects.setdefault(answered.audited.of_class, {})[asked.change] = answered.effect
            changes = [asked.change for asked in group.asked]
            ordered = sorted(effects, key=lambda name: -max(abs(one.headline.value) for one in effects[name].values()))
            rows = [
                Row(name, [cell(effects[name].get(change)) for change in changes],
                    doubtful(all(one.verdict.good for one in effects[name].values())))
                for name in ordered
            ]  # fmt: skip
            who = f", {findings.name}" if len(result.classes) > 1 else ""
            tables.append(Table(f"{group.title}{who}", ["class", *map(do_title, changes)], rows))
    return tables


def cell(effect: Effect | None) -> str:
    if effect is None:
        return ""
    low, high = effect.headline.interval
    alone = "" if effect.combined is not None else ", model alone"
    return f"{MARKS[effect.verdict.code]} {points(effect.headline.value)} ({points(low)} to {points(high)}{alone})"


def matrix_names(result: AuditResult) -> dict[str, FlipMatrix]:
    """The matrices that are drawn, by the names of their figures: of all images, the intervention that flips most first."""
    found = {}
    for number, one in enumerate(result.classes, start=1):
        mine = [matrix for matrix in one.matrices if matrix.among == EVERYONE and matrix.n]
        for matrix in sorted(mine, key=lambda matrix: -matrix.flipped):
            name = figure_name("matrix", matrix.change)
            found[name if number == 1 else f"{name}_{number}"] = matrix
    return found


def matrix_figures(result: AuditResult) -> list[ReportFigure]:
    figures = []
    for name, matrix in matrix_names(result).items():
        off = matrix.counts * (1 - np.eye(len(matrix.classes), dtype=np.int64))
        most = [np.unravel_index(place, off.shape) for place in np.argsort(-off, axis=None)[:3]]
        told = "; ".join(f"{matrix.classes[i]} to {matrix.classes[j]} {off[i, j]:,}" for i, j in most if off[i, j])
        text = f"{do_title(matrix.change)}: {share(matrix.flipped)} of {matrix.n:,} images change their class"
        figures.append(ReportFigure(name, f"{text}; most: {told}" if told else text))
    return figures


def draw_matrix(matrix: FlipMatrix) -> Figure:
    """Rows are the classes before, columns after; a cell has its count, and its colour the share of its row."""
    count = len(matrix.classes)
    size = 1.6 + (0.55 if count <= LEGIBLE else 0.22) * count
    figure = Figure(figsize=(size + 0.6, size), layout="constrained")
    axes = figure.add_subplot()
    rows = matrix.counts.sum(axis=1, keepdims=True)
    shares = np.divide(matrix.counts, rows, out=np.zeros(matrix.counts.shape), where=rows > 0)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if count <= LEGIBLE:
        for i, j in np.ndindex(matrix.counts.shape):
            if matrix.counts[i, j]:
                colour = "white" if shares[i, j] > 0.6 else "0.15"
                axes.text(j, i, f"{matrix.counts[i, j]:,}", ha="center", va="center", fontsize=7, color=colour)
    names = [literal(name) for name in matrix.classes]
    axes.set_xticks(range(count), names, fontsize=7, rotation=45, ha="right")
    axes.set_yticks(range(count), names, fontsize=7)
    axes.set_xlabel("class after the intervention", fontsize=8)
    axes.set_ylabel("class before", fontsize=8)
    axes.set_title(literal(f"{do_title(matrix.change)}, {cohort_title(matrix.among).lower()}"), fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.8, format=lambda value, _: share(value)).ax.tick_params(labelsize=7)
    return figure
