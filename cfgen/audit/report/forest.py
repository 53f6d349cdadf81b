"""The drawn estimates of an audit (a forest plot): what is drawn where, for the page and for the figure beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cfgen.audit.effect import Effect
from cfgen.audit.report.text import ALONE, MARKS, capitalized, cohort_title, do_title, interval, points
from cfgen.audit.results import EVERYONE, BiasRow
from cfgen.audit.verdict import VERDICTS
from cfgen.effects import Estimate

if TYPE_CHECKING:
    from cfgen.audit.outcome import Audited, AuditResult

__all__ = ["BAND", "Answered", "Asked", "Badge", "Group", "Scale", "Strip", "badge", "groups", "scale_of", "strip"]

BAND = 0.05  # either side of zero: the bias that the paper calls significant lies beyond
LEAST = 0.1  # of the scale, either side of zero


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
        largest = sorted(asked(among, alone), key=lambda one: -abs(one.answers[0].effect.headline.value))
        shown.append(Group(cohort_title(among), among, largest))
        for name, texts in result.plan.curves.items():
            shown.append(Group(f"Values of {name}{where}", among, asked(among, texts), name))
    return [group for group in shown if group.asked]


@dataclass(frozen=True)
class Scale:
    """From `low` to `high`, with a place for each value, in per cent of the width."""

    low: float
    high: float
    ticks: Sequence[float]

    def place(self, value: float) -> float:
        return round(100 * (value - self.low) / (self.high - self.low), 3)


def scale_of(shown: Iterable[Group]) -> Scale:
    """Wide enough for every interval and ground truth."""
    ends = [-LEAST, LEAST]
    for group in shown:
        for one in group.asked:
            for _, row, effect in one.answers:
                known = [estimate for estimate in (effect.combined, effect.generator) if estimate is not None]
                ends += [end for estimate in known for end in estimate.interval]
                ends += [row.truth["bias"]] if row.truth else []
    low, high = min(ends), max(ends)
    step = nice_step(high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [round(number * step, 6) for number in range(first, last + 1)]
    margin = 0.04 * (ticks[-1] - ticks[0])  # room for half of a number under the ends
    return Scale(ticks[0] - margin, ticks[-1] + margin, ticks)


def nice_step(width: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that makes three to eight of the width.

    >>> nice_step(0.6), nice_step(0.2)
    (0.1, 0.05)
    """
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        if width / step <= 8:
            return step
    return 1.0


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
    left, right = scale.place(-BAND), scale.place(BAND)

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
    parts = [f"{do_title(row.change)}: {effect.verdict.words}"]
    if effect.combined is not None:
        parts.append(f"combined estimate {points(effect.combined.value)} points, interval {interval(effect.combined)}")
    parts.append(f"{ALONE} {points(effect.generator.value)} points, interval {interval(effect.generator)}")
    if row.truth:
        parts.append(f"ground truth {points(row.truth['bias'])} points")
    return "; ".join(parts)
