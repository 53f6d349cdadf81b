"""`AuditResult`: what an audit found, as tables, figures, a page and a folder of these."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from torch import Tensor

from cfgen.audit import quality
from cfgen.audit.figures import attribute_ranking, fairness_scatter, flipped_answers
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.report import Report, report_html
from cfgen.audit.results import BiasRow, Findings, Importance
from cfgen.audit.run import Triple, do_column
from cfgen.audit.transformations import AFFINE
from cfgen.errors import UserError
from cfgen.reporting.files import png, table, write_files
from cfgen.scm.graph import CausalGraph

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AuditResult", "Flip"]

SHOWN = 4  # attributes on either side of the ranking, as in Fig. 7


class Flip(NamedTuple):
    """Some images whose answer an intervention flips, with p of the base images and of the counterfactuals."""

    images: Triple
    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class AuditResult:
    """A classifier's bias and what it depends on, with all that it takes to judge and to repeat the audit.

    `scores` is the table of the classifier's answers, one row an image.  `facts` are the options, versions and fingerprints
    that the audit is reproduced from; `command` is the command line, where it was one.  `flips` are example images by the names
    of their figures.
    """

    findings: Findings
    plan: Plan
    scores: Scores = field(repr=False)
    label: str
    threshold: float
    facts: Mapping[str, Any] = field(repr=False)
    graph: CausalGraph = field(repr=False)
    flips: Mapping[str, Flip] = field(repr=False)
    command: str | None = None

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
        """How often the classifier's answer for the image itself is the data's own label; None where there is none."""
        return None if math.isnan(self.findings.accuracy) else self.findings.accuracy

    @property
    def warnings(self) -> list[str]:
        """What has to be known before the numbers are believed."""
        return quality.warnings(self.findings, self.plan)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Fig. 6 of interventions and of transformations, Fig. 7, images whose answer flips, and the causal graph."""
        names = list(self.plan.do)
        titles = [f"do({name})".replace(",", ",\n") for name in names]
        scatter = [("fairness_do", [do_column(name) for name in names], titles)]
        scatter += [("fairness_affine", list(AFFINE), list(AFFINE))]
        figures = {
            name: fairness_scatter(self.scores, columns, titles, self.threshold, self.label)
            for name, columns, titles in scatter
        }
        if self.importance:
            figures["attribute_ranking"] = attribute_ranking(self.importance, SHOWN, self.label)
        figures |= {name: flipped_answers(*flip) for name, flip in self.flips.items()}
        return figures | {"causal_graph": self.graph.draw()}

    @cached_property
    def _pictures(self) -> dict[str, bytes]:
        return {name: png(figure) for name, figure in self.figures.items()}

    def to_frame(self) -> pd.DataFrame:
        """The bias table, as bias.csv has it."""
        import pandas as pd

        return pd.DataFrame([row.record() for row in self.bias])

    def to_dict(self) -> dict[str, Any]:
        """Facts, label and figures of the model's error as plain values, as audit.json has them."""
        numbers = {"label": self.label, "accuracy": self.accuracy, "model_error": self.model_error}
        return {"command": self.command, **self.facts, **numbers, "warnings": self.warnings}

    def report_html(self) -> str:
        """The report: one page with figures and tables that opens without anything else."""
        shown = (self.findings, self.plan, self.facts, self.label, self.threshold, self._pictures, self.command)
        return report_html(Report(*shown))

    def save(self, folder: str | Path) -> Path:
        """Writes tables, figures, audit.json and, last, report.html into a folder that is new or empty."""
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} exists already; choose a new folder", argument="folder")
        importance = {"importance.csv": table([asdict(one) for one in self.importance])} if self.importance else {}
        contents: dict[str, bytes | str] = {f"{name}.png": picture for name, picture in self._pictures.items()}
        contents |= importance
        contents["bias.csv"] = table([row.record() for row in self.bias])
        contents["audit.json"] = json.dumps(self.to_dict(), indent=1, default=str)
        contents["report.html"] = self.report_html()
        write_files(folder, contents)
        return folder
