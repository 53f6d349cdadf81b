"""The drawn estimates of an audit (a forest plot): what is drawn where, for the page and for the figure beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cfgen.audit.effect import Effect
from cfgen.audit.report.text import ALONE, MARKS, capitalized, cohort_title, do_title, interval, points
from cfgen.audit.results import EVERYONE, BiasRow
from cfgen.audit.unit import POINTS, Unit
from cfgen.audit.verdict import VERDICTS
from cfgen.effects import Estimate

if TYPE_CHECKING:
    from cfgen.audit.outcome import Audited, AuditResult

__all__ = [
    "BAND",
    "Answered",
    "Asked",
    "Badge",
    "Group",
    "Scale",
    "Strip",
    "badge",
    "drawn_answers",
    "groups",
    "scale_of",
    "strip",
]

BAND = 0.05  # either side of zero: the bias that the paper calls significant lies beyond
LEAST = 0.1  # of the scale, either side of zero
FEW = 3  # classes of a classifier that are drawn for an intervention


class Answered(NamedTuple):
    """What was found about one classifier."""

    audited: Audited
    row: BiasRow
    effect: Effect


class Asked(NamedTuple):
    """An intervention and what was found about each classifier."""

    change: str
    answers: list[Answered]


class Group(NamedTuple):
    """Interventions that are shown together: of a cohort, or the values of an attribute (`curve`) in it."""

    title: str
    among: str
    asked: list[Asked]
    curve: str = ""


class Badge(NamedTuple):
    """A verdict as it stands beside a number: told by mark and words, not by colour alone."""

    good: bool
    mark: str
    words: str


def badge(code: str) -> Badge:
    """Of a key of `VERDICTS`.

    >>> badge("agrees").words
    'Real images and model agree'
    """
    return Badge(code == "agrees", MARKS[code], capitalized(VERDICTS[code]))


def groups(result: AuditResult) -> list[Group]:
    """All images first, the largest bias first; then the curves, in the order of their values; then the cohorts."""
    rows = {
        (one.name, row.among, row.change): Answered(one, row, row.effect)
        for one in result.audited
        for row in one.findings.bias
        if row.effect is not None and row.n
    }
    cohorts = list(dict.fromkeys(row.among for row in result.bias))
    in_curves = {text for texts in result.plan.curves.values() for text in texts}
    alone = [change for change in result.plan.do if change not in in_curves]

    def asked(among: str, changes: Iterable[str]) -> list[Asked]:
        found = []
        for change in changes:
            answers = [rows[key] for one in result.audited if (key := (one.name, among, change)) in rows]
            found += [Asked(change, answers)] if answers else []
        return found

    shown = []
    for among in sorted(cohorts, key=lambda among: among != EVERYONE):
        where = "" if among == EVERYONE else f", only images with {among}"
        largest = sorted(asked(among, alone), key=lambda one: -leading(one))
        shown.append(Group(cohort_title(among), among, largest))
        for name, texts in result.plan.curves.items():
            shown.append(Group(f"Values of {name}{where}", among, asked(among, texts), name))
    return [group for group in shown if group.asked]


def leading(one: Asked) -> float:
    """What interventions are ordered by: the bias of the first classifier, or of the class that changes most."""
    answers = one.answers if one.answers[0].audited.of_class else one.answers[:1]
    return max(abs(answered.effect.headline.value) for answered in answers)


def drawn_answers(one: Asked) -> list[Answered]:
    """The answers that are drawn and told in sentences: of every class of a classifier the few that change most, or those that
    were chosen; tables have all."""
    shown = []
    for network in dict.fromkeys(answered.audited.network for answered in one.answers):
        mine = [answered for answered in one.answers if answered.audited.network == network]
        if mine[0].audited.of_class and not all(answered.audited.detailed for answered in mine):
            mine = sorted(mine, key=lambda answered: -abs(answered.effect.headline.value))[:FEW]
        shown += mine
    return shown


@dataclass(frozen=True)
class Scale:
    """From `low` to `high`, with a place for each value, in per cent of the width."""

    low: float
    high: float
    ticks: Sequence[float]

    def place(self, value: float) -> float:
        return round(100 * (value - self.low) / (self.high - self.low), 3)


def scale_of(shown: Iterable[Group], unit: Unit = POINTS) -> Scale:
    """Wide enough for every interval and ground truth."""
    ends = [-LEAST, LEAST] if unit is POINTS else [0.0]
    for group in shown:
        for one in group.asked:
            for _, row, effect in drawn_answers(one):
                known = [estimate for estimate in (effect.combined, effect.generator) if estimate is not None]
                ends += [end for estimate in known for end in estimate.interval]
                ends += [row.truth["bias"]] if row.truth else []
    low, high = min(ends), max(ends)
    step = nice_step(high - low)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    ticks = [round(number * step, 12) for number in range(first, last + 1)]
    margin = 0.04 * (ticks[-1] - ticks[0])  # room for half of a number under the ends
    return Scale(ticks[0] - margin, ticks[-1] + margin, ticks)


def nice_step(width: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that makes three to eight of the width.

    >>> nice_step(0.6), nice_step(0.2), nice_step(300)
    (0.1, 0.05, 50.0)
    """
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        if 0.08 < width <= 8 * step:
            return step
    power = 10.0 ** (math.floor(math.log10(width)) - 1) if width > 0 else 1.0
    return next(step * power for step in (1, 2, 5, 10, 20, 50) if width <= 8 * step * power)


class Span(NamedTuple):
    """An estimate and its interval, in per cent of the width."""

    value: float
    low: float
    high: float


class Strip(NamedTuple):
    """One line of the drawing; `description` is for those who cannot see it."""

    band: tuple[float, float]
    zero: float
    ticks: list[float]
    combined: Span | None
    model: Span
    truth: float | None
    description: str


def strip(answered: Answered, scale: Scale) -> Strip:
    _, row, effect = answered
    band = BAND if effect.unit is POINTS else 0.0
    left, right = scale.place(-band), scale.place(band)

    def span(estimate: Estimate) -> Span:
        return Span(*(scale.place(value) for value in (estimate.value, *estimate.interval)))

    return Strip(
        (left, round(right - left, 3)),
        scale.place(0),
        [scale.place(tick) for tick in scale.ticks],
        None if effect.combined is None else span(effect.combined),
        span(effect.generator),
        scale.place(row.truth["bias"]) if row.truth else None,
        description(row, effect),
    )


def description(row: BiasRow, effect: Effect) -> str:
    unit = effect.unit

    def told(estimate: Estimate) -> str:
        return f"{points(estimate.value, unit)} {unit.name}, interval {interval(estimate, unit)}"

    parts = [f"{do_title(row.change)}: {effect.verdict.words}"]
    if effect.combined is not None:
        parts.append(f"combined estimate {told(effect.combined)}")
    parts.append(f"{ALONE} {told(effect.generator)}")
    if row.truth:
        parts.append(f"ground truth {points(row.truth['bias'], unit)} {unit.name}")
    return "; ".join(parts)
