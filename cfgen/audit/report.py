"""An audit as one HTML page: what it shows is put together here, as plain text and numbers; how it looks is the template's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cfgen.audit.label import ANY
from cfgen.audit.plan import Plan
from cfgen.audit.quality import quality_rows, warnings
from cfgen.audit.results import EVERYONE, BiasRow, Findings
from cfgen.audit.text import Sentence, cohort_title, finding
from cfgen.reporting.numbers import share, signed
from cfgen.reporting.pages import PagePicture, page, page_picture

__all__ = ["Report", "flip_name", "report_html"]


@dataclass(frozen=True)
class Report:
    """All that the page is made of; `pictures` are PNG files by the names of their figures."""

    findings: Findings
    plan: Plan
    facts: Mapping[str, Any]
    label: str
    threshold: float
    pictures: Mapping[str, bytes]
    command: str | None = None

    def picture(self, name: str, description: str) -> PagePicture | None:
        return page_picture(self.pictures[name], description) if name in self.pictures else None


class Row(NamedTuple):
    """A line of a table."""

    name: str
    cells: Sequence[str]
    classes: str = ""


class Cohort(NamedTuple):
    """A cohort's findings, the largest bias first, and its table."""

    title: str
    everyone: bool
    sentences: Sequence[Sentence]
    heads: Sequence[str]
    rows: Sequence[Row]


class Flips(NamedTuple):
    """Images whose answer an intervention flips in one direction."""

    title: str
    picture: PagePicture


def flip_name(way: str, intervention: str) -> str:
    """The name of the figure of answers that an intervention flips to yes (`up`) or to no (`down`).

    >>> flip_name("up", "Black_Hair=1,Pale_Skin=1")
    'flipped_up_Black_Hair=1+Pale_Skin=1'
    """
    safe = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "_=+.-" else "+" for letter in intervention
    )
    return f"flipped_{way}_{safe}"


def report_html(report: Report) -> str:
    findings, plan, label = report.findings, report.plan, report.label
    edges = report.facts["model"]["graph"]
    effects = "; ".join(f"{cause} causes {effect}" for cause, effect in edges) or "no attribute causes another"
    scores = report.facts.get("model_scores") or {}
    repeat = {key: value for key, value in report.facts.items() if key not in ("command", "model_scores")}
    return page(
        "audit.html",
        title="Is the classifier biased" + ("?" if label == ANY else f" about “{label}”?"),
        label=label,
        threshold=f"{report.threshold:g}",
        keep_residual=plan.keep_residual,
        accuracy="" if math.isnan(findings.accuracy) else share(findings.accuracy),
        cohorts=[cohort(report, among) for among in dict.fromkeys(row.among for row in findings.bias)],
        warnings=warnings(findings, plan),
        predicted=any(not math.isnan(row.seen) for row in findings.bias),
        truths=findings.truths,
        scatter=report.picture(
            "fairness_do", f"Scatter plots of probabilities under each intervention. {rates(findings)}."
        ),
        scatter_affine=report.picture("fairness_affine", "The same for a mirrored and a brightened image."),
        importance=importance_rows(report),
        explained=f"{max((one.n for one in findings.importance), default=0):,}",
        ranking=report.picture("attribute_ranking", f"Attributes by importance: {importance_text(findings)}"),
        flips=flips(report),
        quality=[
            Row(name, [value])
            for name, value in quality_rows(findings, plan, scores, bool(report.facts.get("predictor")))
        ],
        effects=effects,
        graph=report.picture("causal_graph", f"Causal graph: {effects}; every attribute causes the image"),
        command=report.command,
        facts=json.dumps(repeat, indent=1, default=str),
        tables="bias.csv, importance.csv" if findings.importance else "bias.csv",
    )


def cohort(report: Report, among: str) -> Cohort:
    rows = [row for row in report.findings.bias if row.among == among and row.n]
    largest = sorted((row for row in rows if row.do), key=lambda row: -abs(row.values["bias"]))
    truth_known = any(row.truth for row in rows)
    predicted = any(not math.isnan(row.seen) for row in rows)
    heads = [
        "change",
        "images",
        "flip rate",
        "no → yes",
        "yes → no",
        "of flips, to yes",
        "bias",
        "95 % confidence interval",
    ]
    heads += ["ground truth", "inside the interval"] if truth_known else []
    heads += ["recognised in counterfactuals", "recognised in real images"] if predicted else []
    return Cohort(
        cohort_title(among),
        among == EVERYONE,
        [finding(row, report.label) for row in largest],
        heads,
        [bias_line(row, truth_known, predicted) for row in rows],
    )


def bias_line(row: BiasRow, truth_known: bool, predicted: bool) -> Row:
    """A line of Table 3."""
    v = row.values
    cells = [f"{row.n:,}", *(share(v[key]) for key in ("flipped", "up", "down", "up_given_flip"))]
    cells += [signed(v["bias"]), f"{signed(v['bias/low'])} to {signed(v['bias/high'])}"]
    if truth_known:
        within = {None: "", True: "yes", False: "no"}[row.truth_within]
        cells += [signed(row.truth["bias"]) if row.truth else "", within]
    if predicted:
        cells += [share(row.seen), share(row.seen_floor)] if row.do else ["", ""]
    name = f"do({row.change})" if row.do else row.change
    classes = " ".join((["significant"] if v["significant"] else []) + ([] if row.do else ["baseline"]))
    return Row(name.replace(",", ", "), cells, classes)


def rates(findings: Findings) -> str:
    rows = [row for row in findings.bias if row.among == EVERYONE]
    return "; ".join(
        f"{row.change}: {share(row.values['up'])} to yes, {share(row.values['down'])} to no" for row in rows
    )


def importance_rows(report: Report) -> list[Row]:
    return [
        Row(one.attribute, [signed(one.score), f"{signed(one.low)} to {signed(one.high)}", f"{one.n:,}"])
        for one in report.findings.importance
    ]


def importance_text(findings: Findings) -> str:
    return ", ".join(f"{one.attribute} {signed(one.score)}" for one in findings.importance)


def flips(report: Report) -> list[Flips]:
    shown = []
    for name in report.plan.do:
        for way, direction in (("up", "to yes"), ("down", "to no")):
            description = f"Images whose answer flips {direction} under do({name}): real, base and counterfactual"
            if (picture := report.picture(flip_name(way, name), description)) is not None:
                shown.append(Flips(f"do({name.replace(',', ', ')}): flips {direction}", picture))
    return shown
