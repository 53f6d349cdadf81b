"""`AuditResult`: what an audit found, as tables, figures, a page and a folder of these."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from torch import Tensor

from cfgen.audit.classes import ClassFindings
from cfgen.audit.explained import Line
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.report import quality
from cfgen.audit.report.classes import draw_matrix, matrix_names
from cfgen.audit.report.figures import audit_figures
from cfgen.audit.report.page import report_html, report_markdown
from cfgen.audit.results import BiasRow, Findings, Importance, local_scores
from cfgen.audit.shown import Flip
from cfgen.audit.subgroups import SubgroupRow
from cfgen.audit.unit import POINTS, VALUES, Unit
from cfgen.effects import Estimate, difference
from cfgen.reporting.files import png, table
from cfgen.io.writing import new_folder
from cfgen.scm.graph import CausalGraph

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AuditResult", "Audited", "Contrast", "contrasts"]


@dataclass(frozen=True)
class Audited:
    """What was found about one classifier: `label` is what its yes means, `scores` its answers, one row an image.

    `flips` are example images by the names of their figures.  Of one of several classes, `of_class` says which; where there are
    many, the report shows some of them in detail (`detailed`) and all in tables.
    """

    name: str
    label: str
    findings: Findings
    scores: Scores = field(repr=False)
    subgroups: list[SubgroupRow]
    flips: Mapping[str, Flip] = field(repr=False)
    network: str = ""
    of_class: str = ""
    detailed: bool = True

    @property
    def accuracy(self) -> float | None:
        """How often its answer for the image itself is the data's own label; None where there is none."""
        return None if math.isnan(self.findings.accuracy) else self.findings.accuracy


@dataclass(frozen=True)
class Contrast:
    """The bias of one classifier minus that of another on the same images; `corrected` by real images, or by the model alone."""

    among: str
    change: str
    classifier: str
    against: str
    estimate: Estimate
    corrected: bool

    def record(self) -> dict[str, Any]:
        low, high = self.estimate.interval
        plain = {name: getattr(self, name) for name in ("among", "change", "classifier", "against")}
        return {**plain, "difference": self.estimate.value, "low": low, "high": high, "corrected": self.corrected}


def contrasts(audited: Sequence[Audited]) -> list[Contrast]:
    """Every further classifier against the first (of classes, against the same one), for each intervention and cohort: paired, so
    that shared images cancel."""
    found = []
    firsts: dict[str, Audited] = {}
    for one in audited:
        first = firsts.setdefault(one.of_class, one)
        if first is one:
            continue
        effects = {(row.among, row.change): row.effect for row in first.findings.bias}
        for row in one.findings.bias:
            before, after = effects[row.among, row.change], row.effect
            if before is None or after is None:
                continue
            corrected = before.combined is not None and after.combined is not None
            pair = (after.headline, before.headline) if corrected else (after.generator, before.generator)
            estimate = difference(*pair)
            found.append(Contrast(row.among, row.change, one.name, first.name, estimate, corrected))
    return found


@dataclass(frozen=True)
class AuditResult:
    """Classifiers' bias and what it depends on, with all that it takes to judge and to repeat the audit.

    `facts` are the options, versions and fingerprints that the audit is reproduced from; `command` is the command line, where it
    was one.  `bias`, `importance`, `accuracy` and so on are the first classifier's.  `classes` are the findings over all classes
    of each classifier that has several.
    """

    audited: list[Audited]
    contrasts: list[Contrast]
    plan: Plan
    lines: Sequence[Line] = field(repr=False)
    local: Mapping[int, Tensor] = field(repr=False)
    threshold: float
    graph: CausalGraph = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)
    command: str | None = None
    classes: Sequence[ClassFindings] = ()

    @property
    def findings(self) -> Findings:
        return self.audited[0].findings

    @property
    def detailed(self) -> list[Audited]:
        """Those that a report shows in detail; of many classes the one whose answers change most."""
        return [one for one in self.audited if one.detailed]

    @property
    def scores(self) -> Scores:
        """The table of the first classifier's answers."""
        return self.audited[0].scores

    @property
    def label(self) -> str:
        """What the first classifier's yes means."""
        return self.audited[0].label

    @property
    def bias(self) -> list[BiasRow]:
        """Eq. 4 and 5 and Table 3: a row for each cohort and intervention or transformation."""
        return self.findings.bias

    @property
    def importance(self) -> list[Importance]:
        """Eq. 6, the attribute that raises the answer's probability most first."""
        return self.findings.importance

    @property
    def model_error(self) -> dict[str, float]:
        """How far the model's own error changes the classifier's answers; see `Findings`."""
        return self.findings.model_error

    @property
    def accuracy(self) -> float | None:
        return self.audited[0].accuracy

    @property
    def warnings(self) -> list[str]:
        """What has to be known before the numbers are believed."""
        return quality.warnings_of_all({one.name: one.findings for one in self.detailed}, self.plan)

    @property
    def unit(self) -> Unit:
        """What changes of the answers are written in."""
        return VALUES if self.scores.value else POINTS

    @property
    def trusted(self) -> bool:
        """Whether every intervention's verdict is that real images and model agree."""
        rows = [row for one in self.audited for row in one.findings.bias]
        return all(row.effect.verdict.good for row in rows if row.effect is not None)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Estimates with intervals, Fig. 6, Fig. 7, curves, images whose answer flips, the causal graph, flips of classes."""
        return audit_figures(self) | {name: draw_matrix(matrix) for name, matrix in matrix_names(self).items()}

    @cached_property
    def pictures(self) -> dict[str, bytes]:
        """The figures as PNG files."""
        return {name: png(figure) for name, figure in self.figures.items()}

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """The tables, as lists of rows: bias, importance, subgroups, contrasts, flips between classes, local explanations and
        doses; those that are empty are left out."""
        tables = {
            "bias": [{"classifier": one.name, **row.record()} for one in self.audited for row in one.findings.bias],
            "importance": [
                {"classifier": one.name, **asdict(line)} for one in self.audited for line in one.findings.importance
            ],
            "subgroups": [{"classifier": one.name, **row.record()} for one in self.audited for row in one.subgroups],
            "contrasts": [contrast.record() for contrast in self.contrasts],
            "flips": [
                {"classifier": one.name, **record}
                for one in self.classes
                for matrix in one.matrices
                for record in matrix.records()
            ],
            "local": list(self._local_records()),
            "dose": [
                {"classifier": one.name, "among": row.among, "change": row.change, **asdict(point)}
                for one in self.audited
                for row in one.findings.bias
                if row.dose is not None
                for point in row.dose.points
            ],
        }
        return {name: rows for name, rows in tables.items() if rows}

    def _local_records(self) -> Iterator[dict[str, Any]]:
        for one in self.audited:
            for number in self.local:
                for name, score in local_scores(one.scores, self.lines, number).items():
                    p = one.scores["base"][number].item()
                    yield {"classifier": one.name, "image": number, "p": p, "attribute": name, "score": score}

    def frames(self) -> dict[str, pd.DataFrame]:
        """All tables by name, as `records` has them."""
        import pandas as pd

        return {name: pd.DataFrame(rows) for name, rows in self.records().items()}

    def to_frame(self) -> pd.DataFrame:
        """The bias table, as bias.csv has it."""
        return self.frames()["bias"]

    def to_dict(self) -> dict[str, Any]:
        """Verdicts, estimates, facts and the model's error as plain values, as audit.json has them."""
        numbers = {"label": self.label, "accuracy": self.accuracy, "model_error": self.model_error}
        found = [
            {
                "classifier": one.name,
                "label": one.label,
                "accuracy": one.accuracy,
                "model_error": one.findings.model_error,
                "interventions": [
                    {
                        "among": row.among,
                        "do": row.change,
                        **row.effect.to_dict(),
                        "dose": None if row.dose is None else row.dose.to_dict(),
                        "truth": None if row.truth is None else row.truth["bias"],
                        "truth_inside": row.truth_within,
                    }
                    for row in one.findings.bias
                    if row.effect is not None
                ],
            }
            for one in self.audited
        ]
        tables = {name: rows for name, rows in self.records().items() if name in ("subgroups", "contrasts", "local")}
        if self.classes:
            tables["classes"] = [one.to_dict() for one in self.classes]
        return without_nan(
            {"command": self.command, "trusted": self.trusted, **numbers, "classifiers_audited": found, **tables}
            | {**self.facts, "warnings": self.warnings}
        )

    def report_html(self) -> str:
        """The report: one page with figures and tables that opens without anything else."""
        return report_html(self)

    def report_markdown(self) -> str:
        """The report as Markdown, with the figures beside it."""
        return report_markdown(self)

    def save(self, folder: str | Path) -> Path:
        """Writes tables, figures, audit.json, report.md and, last, report.html into a folder that is new or empty."""
        with new_folder(folder, "folder") as new:
            new.write(self.files())
        return new.path

    def files(self) -> dict[str, bytes | str]:
        """The files of the report by name."""
        contents: dict[str, bytes | str] = {f"{name}.png": picture for name, picture in self.pictures.items()}
        contents |= {f"{name}.csv": table(rows) for name, rows in self.records().items()}
        contents["audit.json"] = json.dumps(self.to_dict(), indent=1, default=str)
        contents["report.md"] = self.report_markdown()
        contents["report.html"] = self.report_html()
        return contents


def without_nan(value: Any) -> Any:
    """Plain values in which a number that is none is None, as JSON has it.

    >>> without_nan({"a": [math.nan, 1.0]})
    {'a': [None, 1.0]}
    """
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: without_nan(one) for key, one in value.items()}
        case list() | tuple():
            return [without_nan(one) for one in value]
        case Tensor() if value.ndim == 0:
            return without_nan(value.item())
        case _:
            return value
