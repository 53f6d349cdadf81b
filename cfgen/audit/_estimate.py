"""`estimate`: from tables to results.  A pure function: a folder of tables gives the same results in another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cfgen.audit._classes import class_findings
from cfgen.audit._column import ClassifierColumn
from cfgen.audit._findings import ClassifierResult, compare_classifiers
from cfgen.audit._tables import pictures_of
from cfgen.audit.answers import Answers, Readings, from_parquet
from cfgen.audit.questions import Group, Questions, load_questions
from cfgen.audit.result import AuditResult
from cfgen.effects import OneOfClasses, Sample


def estimate(
    questions: Questions | str | Path, answers: Answers | None = None, readings: Readings | None = None
) -> AuditResult:
    """The results of an audit from its questions, answers and readings; or from the folder that they were saved in."""
    if isinstance(questions, (str, Path)):
        folder = Path(questions)
        questions = load_questions(folder)
        columns = {one.name: one.outcome.columns for one in questions.classifiers}
        table = from_parquet(folder / "answers.parquet")
        answers = Answers.from_frame(table, questions.ids, columns, pictures_of(questions))
        readings = Readings.from_frame(from_parquet(folder / "readings.parquet"), questions.ids)
    assert answers is not None
    assert readings is not None
    samples = {group.name: _sample(questions, group) for group in (*questions.cohorts, *questions.subgroups)}
    several = len(questions.classifiers) > 1
    results = [
        ClassifierColumn(questions, answers, readings, classifier, class_name, samples).result(several)
        for classifier in questions.classifiers
        for class_name in classifier.reported
    ]
    classes = [
        class_findings(questions, answers, one)
        for one in questions.classifiers
        if isinstance(one.outcome, OneOfClasses)
    ]
    results = _detailed(questions, results)
    return AuditResult(questions, answers, readings, results, compare_classifiers(results), classes)


def _sample(questions: Questions, group: Group) -> Sample:
    """The images of a cohort or subgroup."""
    rows = group.members
    return Sample(
        schema=questions.schema,
        graph=questions.graph,
        columns={name: column[rows] for name, column in questions.columns.items()},
        extra={name: column[rows] for name, column in questions.extra.items()},
        hold=questions.hold,
        selected_by=group.selected_by,
        ids=[questions.ids[row] for row in rows.nonzero()[:, 0].tolist()],
        seed=questions.seed,
    )


def _detailed(questions: Questions, results: Sequence[ClassifierResult]) -> list[ClassifierResult]:
    """Marks what a report shows in detail: of all classes of a classifier the one that changes most, or those chosen."""
    chosen = {
        one.name
        for one in questions.classifiers
        if len(one.reported) < len(one.outcome.columns) or one.reported == ("",)
    }
    largest: dict[str, tuple[float, str]] = {}
    for one in results:
        effects = [abs(row.effect.headline.value) for row in one.findings if row.effect is not None]
        largest[one.classifier] = max(
            largest.get(one.classifier, (-1.0, "")), (max(effects, default=0.0), one.class_name)
        )
    return [
        replace(one, detailed=one.classifier in chosen or largest[one.classifier][1] == one.class_name)
        for one in results
    ]
