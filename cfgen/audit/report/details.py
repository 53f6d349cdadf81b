"""Further tables of an audit's report: importance, strengths, what estimates rest on, and the quality of the model's images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfgen.audit.dose import Dose
from cfgen.audit.effect import Effect
from cfgen.audit.report.forest import groups
from cfgen.audit.report.quality import quality_rows
from cfgen.audit.report.tables import Row, Table, doubtful, short_kind
from cfgen.audit.report.text import SHORT, do_title, marked, points, short_names
from cfgen.audit.results import EVERYONE
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.outcome import Audited, AuditResult

__all__ = ["dose_tables", "importance_tables", "method_tables", "quality_tables"]

NOT_JUDGED = "not judged"
QUALITY = ("measure", "value")


def importance_tables(result: AuditResult) -> list[Table]:
    """One for each classifier, with the verdict of an intervention on the attribute, where one was judged."""
    heads = ["attribute", "more of it is", "importance", "images", "verdict on its images"]
    tables = []
    unit = result.unit
    for one in result.detailed:
        rows = []
        for line in one.findings.importance:
            verdict = attribute_verdict(one, line.attribute)
            number = f"{points(line.score, unit)} ({points(line.low, unit)} to {points(line.high, unit)})"
            good = verdict in (NOT_JUDGED, marked("agrees"))
            rows.append(Row(line.attribute, [line.meaning, number, f"{line.n:,}", verdict], doubtful(good)))
        if rows:
            tables.append(Table(titled(result, one, "All attributes"), heads, rows))
    return tables


def attribute_verdict(one: Audited, name: str) -> str:
    """Of an intervention on this attribute (or value) alone, among all images; a bad one counts where there are several."""
    codes = [
        row.effect.verdict.code
        for row in one.findings.bias
        if row.effect is not None and row.among == EVERYONE and (row.change == name or set(row.do or ()) == {name})
    ]
    if not codes:
        return NOT_JUDGED
    return marked(max(codes, key=list(SHORT).index))


def dose_tables(result: AuditResult) -> list[Table]:
    """One for each classifier: the model's word at several strengths, and read off at full strength."""
    asked = [strength for strength in sorted({*result.plan.strengths, 1.0}) if strength]
    heads = ["intervention", "verdict", "effect", *(f"bias at {share(strength)} of the way" for strength in asked)]
    heads += ["read off at full strength", "images"]
    tables = []
    for one in result.detailed:
        rows = [
            dose_row(row.change, row.dose, row.effect)
            for row in one.findings.bias
            if row.dose is not None and row.effect is not None and row.among == EVERYONE
        ]
        if rows:
            tables.append(Table(titled(result, one, "Bias by strength"), heads, rows))
    return tables


def dose_row(change: str, dose: Dose, effect: Effect) -> Row:
    cells = [marked(effect.verdict.code), short_kind(effect)]
    for point in dose.points:
        if point.asked:
            seen = "" if math.isnan(point.strength) else f" (strength seen {share(point.strength)})"
            cells.append(f"{points(point.bias, effect.unit)}{seen}")
    full = "not reached" if math.isnan(dose.full) else f"{points(dose.full, effect.unit)}, model-based"
    return Row(do_title(change), [*cells, full, f"{dose.points[0].n:,}"], doubtful(effect.verdict.good))


def method_tables(result: AuditResult) -> list[Table]:
    """What each estimate rests on, which is the same for all classifiers."""
    heads = ["intervention", "adjusted for", "images changed", "images that have it", "worth", "weights cut", "window"]
    heads += ["strength drawn"]
    tables = []
    for group in groups(result):
        rows = []
        for asked in group.asked:
            effect = asked.answers[0].effect
            window = ", ".join(f"{name} ± {width:.3g}" for name, width in effect.window.items())
            cells = [adjusted_text(effect.adjusted, result.graph.names), f"{effect.changed:,}", f"{effect.have:,}"]
            cells += [f"{effect.effective:.0f}", share(effect.clipped), window or "exact", strength_text(effect)]
            rows.append(Row(do_title(asked.change), cells))
        tables.append(Table(group.title, heads, rows))
    return tables


def adjusted_text(adjusted: Sequence[str], attributes: Sequence[str]) -> str:
    """What is adjusted for, where that is shorter as what is not.

    >>> adjusted_text(["b", "c", "d", "e", "light"], ["a", "b", "c", "d", "e"])
    'all attributes but a; also light'
    """
    left = [name for name in attributes if name not in adjusted]
    if len(adjusted) <= max(3, len(left)):
        return ", ".join(adjusted) or "nothing"
    others = ", ".join(name for name in adjusted if name not in attributes)
    return f"all attributes but {', '.join(left)}{f'; also {others}' if others else ''}"


def strength_text(effect: Effect) -> str:
    drawn = effect.strength
    if drawn is None:
        return "not measured"
    if not drawn.judged:
        return "the predictor cannot tell"
    return f"{share(drawn.value)} ({share(drawn.low)} to {share(drawn.high)})"


def quality_tables(result: AuditResult) -> list[Table]:
    """The model's images: what is the same for all classifiers, and what each makes of them."""
    scores, predicted = result.facts.get("model_scores") or {}, bool(result.facts.get("predictor"))
    rows = {one.name: quality_rows(one.findings, result.plan, scores, predicted) for one in result.detailed}
    shared = [row for row in rows[result.detailed[0].name] if all(row in mine for mine in rows.values())]
    tables = [Table("Quality of the model's images", QUALITY, [Row(name, [value]) for name, value in shared])]
    own = {
        one.name: [Row(name, [value]) for name, value in rows[one.name] if (name, value) not in shared]
        for one in result.detailed
    }
    return tables + [Table(short_names(result)[name], QUALITY, mine) for name, mine in own.items() if mine]


def titled(result: AuditResult, one: Audited, title: str) -> str:
    """The title of a table of one classifier."""
    return short_names(result)[one.name] if len(result.audited) > 1 else title
