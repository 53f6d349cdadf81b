"""Tables that the page and the console share, or that regroup findings.  Templates lay out the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from cfgen.audit._findings import ClassifierResult
from cfgen.audit.questions import EVERYONE
from cfgen.audit.report import _words as words
from cfgen.audit.report._sections import Section
from cfgen.audit.result import AuditResult
from cfgen.audit.verdict import Verdict


class Row(NamedTuple):
    """A row of a table; `classes` are CSS classes."""

    name: str
    cells: Sequence[str]
    classes: str = ""


class Table(NamedTuple):
    """A table; the first head is that of the rows' names."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Row]

    def select(self, wanted: Collection[str]) -> Table:
        """The names of the rows and the columns with these heads.

        >>> Table("", ["a", "b", "c"], [Row("x", ["1", "2"])]).select(["c"]).rows[0].cells
        ['2']
        """
        places = [place for place, head in enumerate(self.heads[1:]) if head in wanted]
        heads = [self.heads[0], *(self.heads[place + 1] for place in places)]
        return Table(self.title, heads, [row._replace(cells=[row.cells[p] for p in places]) for row in self.rows])


def row(good: bool, name: str, *cells: str) -> Row:
    """A row that is words.marked where its verdict is bad."""
    return Row(name, cells, "" if good else "doubtful")


def who(result: AuditResult, one: ClassifierResult | None = None) -> list[str]:
    """The cell of a classifier, or the head of these cells; none where there is only one classifier."""
    if len(result.classifiers) == 1:
        return []
    return ["classifier" if one is None else words.short_names(result)[one.name]]


def bias_table(result: AuditResult, section: Section) -> Table:
    """Verdict, estimate, and the estimates that it is made of."""
    paired = any(f.effect.pairs is not None for f in section.findings)
    known = any(f.truth is not None for f in section.findings)
    heads = ["intervention", *who(result), "verdict", "effect", "images", "estimate", "significant", "real images only"]
    heads += ["true pairs"] * paired + [words.MODEL_ONLY] + ["ground truth"] * known
    rows = []
    for f in section.findings:
        effect, outcome = f.effect, f.outcome
        cells = [
            *who(result, f.classifier),
            words.marked(f.verdict.code),
            words.effect_kind(effect).replace(" effect", ""),
            f"{effect.n_target:,}",
        ]
        cells += [
            words.headline_text(effect),
            words.SIGNIFICANT[effect.significant],
            words.estimate_text(effect.real, outcome),
        ]
        cells += [words.estimate_text(effect.pairs, outcome)] * paired + [
            words.estimate_text(effect.model_only, outcome)
        ]
        inside = "inside" if f.row.truth_within else "outside"
        cells += ["" if f.truth is None else f"{outcome.text(f.truth)}, {inside}"] * known
        rows.append(Row(f.intervention.title, cells, "" if f.verdict.good else "doubtful"))
    return Table(section.title, heads, rows)


def attribute_verdict(result: AuditResult, one: ClassifierResult, label: str) -> Verdict | None:
    """The verdict on interventions on this attribute (or value) alone; of several, a bad one."""
    verdicts = []
    for found in one.findings:
        alone = found.change == label or result.questions.intervention(found.change).attributes == (label,)
        verdicts += [found.verdict] if alone and found.verdict and found.cohort == EVERYONE else []
    return min(verdicts, key=lambda verdict: verdict.good, default=None)
