"""`AuditResult`: what an audit found, as data.  Reports are made from it elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.audit._classes import ClassFindings
from cfgen.audit._findings import BiasRow, ClassifierDifference, ClassifierResult
from cfgen.audit._quality import warnings_of_all
from cfgen.audit.answers import Answers, Readings, to_parquet
from cfgen.audit.questions import Questions
from cfgen.effects import Outcome
from cfgen.io.writing import new_folder
from cfgen.metrics.importance import Importance
from cfgen.reporting.files import table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AuditResult", "without_nan"]


@dataclass(frozen=True)
class AuditResult:
    """The effects of interventions on classifiers, with the questions, answers and readings that they were computed from.

    `provenance` says how and when: command, options, versions, device, seconds.  It is no part of the results.
    """

    questions: Questions = field(repr=False)
    answers: Answers = field(repr=False)
    readings: Readings = field(repr=False)
    classifiers: list[ClassifierResult]
    differences: list[ClassifierDifference]
    classes: list[ClassFindings]
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def first(self) -> ClassifierResult:
        return self.classifiers[0]

    @property
    def bias(self) -> list[BiasRow]:
        """Table 3 of the first classifier: a row for each cohort and intervention or transformation."""
        return self.first.bias

    @property
    def importance(self) -> list[Importance]:
        """Eq. 6 for the first classifier, the attribute that raises its answer most first."""
        return self.first.importance

    @property
    def outcome(self) -> Outcome:
        return self.first.outcome

    @property
    def detailed(self) -> list[ClassifierResult]:
        return [one for one in self.classifiers if one.detailed]

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before reading the numbers."""
        return warnings_of_all({one.name: one for one in self.detailed}, self.questions.keep_residual)

    @property
    def trusted(self) -> bool:
        """Whether the verdict of every intervention is good."""
        return all(row.verdict.good for one in self.classifiers for row in one.findings if row.verdict is not None)

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """All tables as lists of rows, as the CSV files have them; empty ones are left out."""
        every = self.classifiers
        tables: dict[str, list[dict[str, Any]]] = {
            "bias": [{"classifier": one.name, **row.record()} for one in every for row in one.bias],
            "importance": [{"classifier": one.name, **asdict(line)} for one in every for line in one.importance],
            "subgroups": [{"classifier": one.name, **row.record()} for one in every for row in one.subgroups],
            "contrasts": [one.record() for one in self.differences],
            "flips": [
                {"classifier": one.name, **record}
                for one in self.classes
                for matrix in one.matrices
                for record in matrix.records()
            ],
            "local": [{"classifier": one.name, **asdict(line)} for one in every for line in one.local],
        }
        return {name: rows for name, rows in tables.items() if rows}

    def frames(self) -> dict[str, pd.DataFrame]:
        """All tables by name, as `records` has them."""
        import pandas as pd

        return {name: pd.DataFrame(rows) for name, rows in self.records().items()}

    def to_frame(self) -> pd.DataFrame:
        """The bias table, as bias.csv has it."""
        return self.frames()["bias"]

    def to_dict(self) -> dict[str, Any]:
        """The results as audit.json has them: the same for the same questions, answers and readings."""
        tables: dict[str, Any] = {
            k: rows for k, rows in self.records().items() if k in ("subgroups", "contrasts", "local")
        }
        if self.classes:
            tables["classes"] = [one.to_dict() for one in self.classes]
        first = {"label": self.first.label, "accuracy": self.first.accuracy, "model_error": self.first.model_error}
        found = {"trusted": self.trusted, **first, "classifiers_audited": [one.to_dict() for one in self.classifiers]}
        return without_nan({**found, **tables, **self.questions.facts, "warnings": self.warnings})

    def files(self) -> dict[str, bytes | str]:
        """The files of the results by name, without a report."""
        files: dict[str, bytes | str] = {f"{name}.csv": table(rows) for name, rows in self.records().items()}
        files |= self.questions.files()
        files |= {"answers.parquet": to_parquet(self.answers.to_frame())}
        files |= {"readings.parquet": to_parquet(self.readings.to_frame())}
        files["provenance.json"] = json.dumps(without_nan(dict(self.provenance)), indent=1, default=str)
        files["audit.json"] = json.dumps(self.to_dict(), indent=1)
        return files

    def save(self, folder: str | Path) -> Path:
        """Writes tables and JSON into a folder that is new or empty; `cfgen.audit.report.write` adds a report."""
        with new_folder(folder, "folder") as new:
            new.write(self.files())
        return new.path


def without_nan(value: Any) -> Any:
    """Replace NaN and infinity by None, because JSON has neither.

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
        case _:
            return value
