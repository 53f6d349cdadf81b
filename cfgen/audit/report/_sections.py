"""The findings of an audit in the order in which a report shows them."""

from __future__ import annotations

from typing import NamedTuple

from cfgen.audit._findings import BiasRow, ClassifierResult
from cfgen.audit.questions import EVERYONE
from cfgen.audit.result import AuditResult
from cfgen.audit.verdict import Verdict
from cfgen.effects import Effect, Outcome
from cfgen.interventions import Intervention

FEW = 3  # classes of a classifier that are shown for an intervention; tables have all


class Finding(NamedTuple):
    """The effect of an intervention on one classifier in one cohort."""

    intervention: Intervention
    classifier: ClassifierResult
    row: BiasRow
    effect: Effect
    verdict: Verdict

    @property
    def outcome(self) -> Outcome:
        return self.effect.outcome

    @property
    def size(self) -> float:
        return abs(self.effect.headline.value)

    @property
    def truth(self) -> float | None:
        """The true effect on the images that the estimate is about, where it is known."""
        if self.row.truth is None:
            return None
        return self.row.truth["bias"] if self.effect.truth is None else self.effect.truth


class Section(NamedTuple):
    """The findings in a cohort; with `curve`, those of interventions that set this attribute to the values of a curve."""

    title: str
    cohort: str
    findings: list[Finding]
    curve: str = ""


def sections(result: AuditResult) -> list[Section]:
    """All images first: interventions by the size of their effect, then curves in the order of their values; then cohorts."""
    questions = result.questions
    found: dict[tuple[str, str], list[Finding]] = {}
    for one in result.classifiers:
        for row in one.findings:
            if row.effect is not None and row.verdict is not None:
                finding = Finding(questions.intervention(row.change), one, row, row.effect, row.verdict)
                found.setdefault((row.cohort, row.change), []).append(finding)

    def largest(findings: list[Finding]) -> float:  # of all classes, or the effect on the first classifier
        return max(one.size for one in (findings if findings[0].classifier.class_name else findings[:1]))

    single = [one.name for one in questions.interventions if one.name not in questions.in_curves]
    shown = []
    for cohort in (group.name for group in questions.cohorts):
        title = cohort_title(cohort)
        groups = [found[cohort, name] for name in single if (cohort, name) in found]
        ordered = sorted(groups, key=largest, reverse=True)
        shown.append(Section(title, cohort, [finding for group in ordered for finding in group]))
        for attribute, names in questions.curves.items():
            where = "" if cohort == EVERYONE else f", {title[0].lower()}{title[1:]}"
            points = [finding for name in names for finding in found.get((cohort, name), [])]
            shown.append(Section(f"Values of {attribute}{where}", cohort, points, attribute))
    return [section for section in shown if section.findings]


def cohort_title(name: str) -> str:
    """
    >>> cohort_title("everyone"), cohort_title("Young=0,Bangs=1")
    ('All images', 'Only images with Young=0 and Bangs=1')
    """
    return "All images" if name == EVERYONE else f"Only images with {' and '.join(name.split(','))}"


def few_classes(shown: list[Section]) -> list[Section]:
    """The sections with only those classes of a classifier that change most, or that were chosen."""
    return [section._replace(findings=_few(section.findings)) for section in shown]


def _few(findings: list[Finding]) -> list[Finding]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.intervention.name, one.classifier.classifier), []).append(one)
    shown = []
    for mine in groups.values():
        chosen = not mine[0].classifier.class_name or all(one.classifier.detailed for one in mine)
        shown += mine if chosen else sorted(mine, key=lambda one: -one.size)[:FEW]
    return shown
