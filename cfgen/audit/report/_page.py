"""`report_page`: the data that templates/audit.html shows.  All explanations are in the templates."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cfgen.audit import verdict
from cfgen.audit._quality import grey_levels
from cfgen.audit.questions import EVERYONE
from cfgen.audit.report import _tables, _words
from cfgen.audit.report._figures import ReportFigure
from cfgen.audit.report._sections import cohort_title, few_classes, sections
from cfgen.audit.result import AuditResult
from cfgen.effects import ENOUGH
from cfgen.effects.nuisance import FOLDS
from cfgen.effects.real_images import MAX_OFF_SUPPORT
from cfgen.reporting.numbers import count_of, share
from cfgen.reporting.pages import page, page_picture

OVERALL = ("mse_x", "mae_z", "composition", "fid")  # shown from files of scores that do not describe themselves
ELSEWHERE = ("command", "model_scores")  # facts that have their own place on the page


def report_page(result: AuditResult, figures: Sequence[ReportFigure], drawn: Mapping[str, bytes]) -> str:
    """One HTML page that needs no other file; `drawn` has the figures' PNG files by name."""
    every, questions, names = sections(result), result.questions, _words.short_names(result)
    findings = [finding for section in every for finding in section.findings]
    codes = [finding.verdict.code for finding in findings if finding.row.cohort == EVERYONE]
    known = [f.row.truth_within for f in findings if f.row.cohort == EVERYONE and f.row.truth_within is not None]
    pictures = {one.name: page_picture(drawn[one.name], one.description) for one in figures}
    attributes = {name for one in questions.interventions for name in one.attributes}
    by_name = {one.name: one for one in result.classifiers}
    facts = {key: value for key, value in {**questions.facts, **result.provenance}.items() if key not in ELSEWHERE}
    return page(
        "audit.html",
        result=result,
        questions=questions,
        outcome=result.outcome,
        effects=[finding.effect for finding in findings],
        sections=few_classes(every),
        every_section=every,
        summary=[(code, codes.count(code), len(codes)) for code in verdict.VERDICTS if code in codes],
        truths=(sum(known), len(known)) if known else None,
        next_steps=_words.next_steps(result),
        bias_tables=[_tables.bias_table(result, section) for section in every],
        figures=lambda part: [(one, pictures[one.name]) for one in figures if one.part == part],
        names=names,
        shown_names=[names[one.name] for one in result.detailed],
        who=partial(_tables.who, result),
        attribute_verdict=partial(_tables.attribute_verdict, result),
        compared=lambda one: [by_name[name].finding(one.cohort, one.change) for name in (one.classifier, one.against)],
        rules=verdict,
        folds=FOLDS,
        enough=ENOUGH,
        off_support=MAX_OFF_SUPPORT,
        predictor=predictor_facts(questions.facts.get("predictor")),
        scores=scores_of(questions.facts.get("model_scores") or {}, attributes),
        facts=json.dumps(facts, indent=1, default=str),
        words=_words,
        cohort_title=cohort_title,
        share=share,
        count_of=count_of,
        grey_levels=grey_levels,
    )


def predictor_facts(facts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The source of the predictor, and the attributes with its lowest and highest accuracy."""
    if not facts:
        return None
    accuracy = {name: value for name, value in (facts.get("accuracy") or {}).items() if isinstance(value, (int, float))}
    known = sorted((value, name) for name, value in accuracy.items() if not math.isnan(value))
    return {
        "source": str(facts.get("source")),
        "worst": known[0] if known else None,
        "best": known[-1] if known else None,
    }


def scores_of(scores: Mapping[str, Any], attributes: set[str]) -> list[tuple[str, float]]:
    """The scores in a metrics.json of the whole model and of these attributes, with their units.

    >>> about = {"mse_x": {"unit": "", "attribute": None}, "error/a": {"unit": "mm", "attribute": "a"},
    ...          "error/b": {"unit": "mm", "attribute": "b"}}
    >>> scores_of({"mse_x": 0.5, "error/a": 2.0, "error/b": 3.0, "about": about}, {"a"})
    [('mse_x', 0.5), ('error/a, mm', 2.0)]
    """
    numbers = {
        key: float(value)
        for key, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not abs(value) > sys.float_info.max
    }
    about = scores.get("about")
    if not isinstance(about, Mapping):
        return [(key, value) for key, value in numbers.items() if key.startswith(OVERALL)]
    rows = []
    for key, value in numbers.items():
        what = about.get(key)
        if not isinstance(what, Mapping):  # the file may come from elsewhere
            continue
        if what.get("attribute") is None or str(what["attribute"]) in attributes:
            unit = what.get("unit")
            rows.append((f"{key}, {unit}" if unit else key, value))
    return rows
