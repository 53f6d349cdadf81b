"""The pictures of an evaluated run: Fig. 3 or 5, Appendices E, F and G, and with a binary classifier Fig. 6 and 7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen import figures
from cfgen.attributes import Categorical, Continuous
from cfgen.audit import figures as audit_figures
from cfgen.audit.run import Audit
from cfgen.evaluation.metrics.asked import asked_values, asked_vectors
from cfgen.evaluation.metrics.batches import batches
from cfgen.evaluation.metrics.classifier_bias import audit_findings
from cfgen.evaluation.metrics.label_accuracy import label_name
from cfgen.evaluation.subject import Subject
from lightning_modules import Classifier

__all__ = ["answer_figures", "first_images", "misclassified", "run_figures"]

SHOWN = 24  # images of the reconstructions and of the misclassified labels
FACES = 6  # rows of the counterfactuals of images with binary attributes
PAIRS = 6  # of the interpolations
PANELS = 6  # of the fairness scatter


def first_images(subject: Subject, count: int) -> tuple[Tensor, Tensor]:
    """The first images of the split in [0, 1], and their attribute vectors."""
    columns = {name: column[:count] for name, column in subject.columns.items()}
    _, x, a = next(batches(subject.model.schema, subject.x[:count], columns))
    return x, a


def run_figures(subject: Subject) -> Iterator[tuple[str, Figure]]:
    """What every run is shown by, drawn from the first images of the split."""
    mechanism = subject.model.module
    x, a = first_images(subject, SHOWN)
    yield "reconstructions", figures.reconstructions(mechanism, x, a)
    if len(x) > 1:
        yield "interpolations", figures.interpolations(mechanism, x, a, min(PAIRS, len(x) // 2))
    yield "counterfactual_grid", counterfactuals(subject, x, a)


def counterfactuals(subject: Subject, x: Tensor, a: Tensor) -> Figure:
    """One image under pairs of interventions (Fig. 3) where an attribute is continuous, else several under each (Fig. 5)."""
    scm = subject.model.scm
    across = {name: spread(subject.columns[name]) for name in scm.schema.continuous}
    if not across:
        return figures.counterfactual_rows(subject.model.module, scm, x[:FACES], a[:FACES])
    down: dict[str, list[Any]] = {}
    for name, attribute in scm.schema.attributes.items():
        if isinstance(attribute, Categorical):
            last = attribute.size - 1
            down[name] = [attribute.values[i] for i in sorted({1 * last // 9, 4 * last // 9, 6 * last // 9, last})]
        elif not isinstance(attribute, Continuous):
            down[name] = [0, 1]
    return figures.counterfactual_grid(subject.model.module, scm, x[:1], a[:1], down, across)


def spread(column: Tensor) -> list[float]:
    """Low, middling and high values, short enough to read."""
    quantiles = torch.quantile(column.double().cpu(), torch.tensor([0.02, 0.5, 0.98], dtype=torch.double))
    return [float(f"{value:.3g}") for value in quantiles.tolist()]


def misclassified(subject: Subject, judge: Classifier, right: Tensor, seed: int) -> Figure | None:
    """The first counterfactuals in which the judge does not see the label asked for (`right` is 0 there), made again."""
    rows = (right == 0).nonzero()[:SHOWN, 0]
    if not len(rows):
        return None
    schema, mechanism = subject.model.schema, subject.model.module
    name = label_name(schema, judge.classes)
    label = schema[name]
    assert isinstance(label, Categorical)
    chosen = {k: column[rows] for k, column in subject.columns.items()}
    a_c = asked_vectors(subject.model.scm, subject.columns, seed)[name][rows]
    with torch.inference_mode():
        _, x, a = next(batches(schema, subject.x[rows], chosen))
        x_c = mechanism.decode(mechanism.abduct(x, a), a_c)
        read = judge.predict(x_c)
    asked = asked_values(subject.columns, schema, seed)[name][rows]

    def words(positions: Tensor) -> list[int | str]:
        return [label.values[int(position)] for position in positions.tolist()]

    return figures.misclassified_labels(x, x_c, words(chosen[name]), words(asked), words(read))


def answer_figures(audit: Audit, label: str) -> Iterator[tuple[str, Figure]]:
    """A binary classifier's answers before and after the interventions that turn most (Fig. 6); attributes ranked (Fig. 7)."""
    found = audit_findings(audit)
    turning = sorted((row for row in found.bias if row.do), key=lambda row: -row.values["flipped"])[:PANELS]
    columns, titles = [f"do/{row.change}" for row in turning], [f"do({row.change})" for row in turning]
    yield "fairness_scatter", audit_figures.fairness_scatter(audit.scores, columns, titles, label=label)
    yield "attribute_ranking", audit_figures.attribute_ranking(found.importance, label=label)
