"""The sentences of an audit's findings: the verdict first, then the number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cfgen.audit.effect import Effect
from cfgen.audit.results import EVERYONE, BiasRow
from cfgen.audit.unit import POINTS, Unit
from cfgen.effects import Estimate
from cfgen.interventions import Contrast, Shift
from cfgen.interventions.parse import parse_value
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult

__all__ = [
    "ALONE",
    "MARKS",
    "SHORT",
    "Sentence",
    "capitalized",
    "cohort_title",
    "do_title",
    "finding",
    "how_often",
    "in_words",
    "interval",
    "kind",
    "marked",
    "next_steps",
    "points",
    "short_names",
    "significance",
    "which_effect",
]

ALONE = "the model's word alone"
MARKS = {"agrees": "✓", "weak": "!", "not_drawn": "✕", "overlap": "?", "disagree": "≠"}  # told apart without colour
SHORT = {
    "agrees": "agrees",
    "weak": "drawn too weakly",
    "not_drawn": "not drawn",
    "overlap": "not enough overlap",
    "disagree": "disagrees",
}
SIGNIFICANT = {"5%": "beyond 5 points", "0": "not zero", "no": "neither"}
BEYOND = {
    "5%": "The whole interval lies beyond 5 points.",
    "0": "The interval excludes zero, but not a bias of less than 5 points.",
    "no": "The interval includes zero: there may be no difference.",
}
BEYOND_ZERO = {"0": "The interval excludes zero.", "no": BEYOND["no"]}


class Sentence(NamedTuple):
    """A finding in words: its verdict, and what it says, with the part that is emphasised."""

    verdict: str
    start: str
    emphasis: str
    rest: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.start}{self.emphasis}{self.rest}"


def finding(row: BiasRow, label: str) -> Sentence:
    """One sentence or two for those who read nothing else, of an intervention that was judged."""
    effect = row.effect
    assert effect is not None, "a transformation is not judged"
    change, unit = in_words(row.change), effect.unit
    who, says = ("the classifier", f"says “{label}”") if unit is POINTS else ("the network", "predicts")
    verdict = capitalized(effect.verdict.words)
    number = how_often(effect.headline.value) if unit is POINTS else how_much(effect.headline.value, unit)
    span = f"[95 % confidence interval {interval(effect.headline, unit)}]"
    which = f" ({kind(effect)})"
    if effect.combined is None:
        return Sentence(
            verdict,
            f"with {change}, by {ALONE}, {who} ",
            f"{says} {number}",
            f" {span}{which}. This interval knows of the choice of images, not of the model's error.",
        )
    beyond = BEYOND[effect.significant] if unit is POINTS else BEYOND_ZERO[effect.significant]
    rest = f" {span}{which}. {beyond}"
    if not effect.verdict.good:
        value = effect.generator.value
        rest += f" By {ALONE} it would be {how_often(value) if unit is POINTS else how_much(value, unit)}."
    return Sentence(verdict, f"with {change}, {who} ", f"{says} {number}", rest)


def how_much(change: float, unit: Unit) -> str:
    """A change of predicted values in words.

    >>> from cfgen.audit.unit import VALUES
    >>> how_much(-0.02, VALUES)
    '0.02 less on average'
    """
    return f"{unit.size(change)} {'more' if change > 0 else 'less'} on average" if change else "the same on average"


def in_words(change: str) -> str:
    """An intervention in a sentence.

    >>> in_words("Young=0,Bangs=1"), in_words("size=-0.5sd"), in_words("size=10:20")
    ('Young=0 and Bangs=1', 'size 0.5 standard deviations lower', 'size at 20 rather than at 10')
    """
    name, _, text = change.partition("=")
    value = None if "," in change else parse_value(text)
    if isinstance(value, Contrast):
        return f"{name} at {value.end:g} rather than at {value.start:g}"
    if isinstance(value, Shift):
        amount, one = abs(value.amount), abs(value.amount) == 1
        what = f" standard deviation{'' if one else 's'}" if value.sd else ""
        return f"{name} {amount:g}{what} {'higher' if value.amount > 0 else 'lower'}"
    return joined(change)


def how_often(bias: float) -> str:
    """A bias in words.

    >>> how_often(-0.02), how_often(0.0001)
    ('2.0 points less often', 'as often as before')
    """
    if abs(bias) < 0.0005:
        return "as often as before"
    return f"{100 * abs(bias):.1f} points {'more' if bias > 0 else 'less'} often"


def interval(estimate: Estimate, unit: Unit = POINTS) -> str:
    """The ends of an interval in points (or another unit), in words where they lie on different sides.

    >>> import numpy as np
    >>> interval(Estimate(-0.12, np.array([-0.1, 0.1] * 50), 100)), interval(Estimate(0.01, np.array([-0.1, 0.1] * 50), 100))
    ('10.0 to 14.0', '1.0 less to 3.0 more')
    """
    low, high = estimate.interval
    if low < 0 < high:
        return f"{unit.size(low)} less to {unit.size(high)} more"
    near, far = sorted((abs(low), abs(high)))
    return f"{unit.size(near)} to {unit.size(far)}"


def points(value: float, unit: Unit = POINTS) -> str:
    """A difference of shares in points (or one in another unit), with its sign.

    >>> points(0.2614), points(-0.00001)
    ('+26.1', '0.0')
    """
    return unit.text(value)


def which_effect(effect: Effect) -> str:
    """The total effect, or the direct one and what is held."""
    return f"direct effect, {' and '.join(effect.held)} held" if effect.held else "total effect"


def kind(effect: Effect) -> str:
    """Which effect a number is, and of how many of the images, where some cannot be compared."""
    which = which_effect(effect)
    return which if effect.about == 1 else f"{which}, on the {share(effect.about)} of the images that are comparable"


def significance(effect: Effect) -> str:
    """In which sense an estimate is significant: beyond 5 points, not zero, or neither."""
    text = SIGNIFICANT[effect.significant]
    return text if effect.combined is not None else f"{text}, model alone"


def marked(code: str) -> str:
    """A verdict's mark and short words.

    >>> marked("agrees")
    '✓ agrees'
    """
    return f"{MARKS[code]} {SHORT[code]}"


def cohort_title(among: str) -> str:
    """What a cohort is called.

    >>> cohort_title("Young=0,Bangs=1")
    'Only images with Young=0 and Bangs=1'
    """
    return "All images" if among == EVERYONE else f"Only images with {joined(among)}"


def do_title(change: str) -> str:
    """An intervention as tables and figures have it.

    >>> do_title("Black_Hair=1,Pale_Skin=1")
    'do(Black_Hair=1, Pale_Skin=1)'
    """
    return f"do({change.replace(',', ', ')})"


def joined(assignments: str) -> str:
    return " and ".join(assignments.split(","))


def capitalized(text: str) -> str:
    """With a capital at the start.

    >>> capitalized("with Bangs=1")
    'With Bangs=1'
    """
    return text[:1].upper() + text[1:]


def next_steps(result: AuditResult) -> list[str]:
    """What to do about each bad verdict, once for all interventions with the same advice."""
    names = short_names(result)
    advised: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in result.audited:
        for row in one.findings.bias:
            if row.effect is not None and row.effect.verdict.advice:
                verdict = row.effect.verdict
                where = "" if row.among == EVERYONE else f" among {row.among}"
                asked = advised.setdefault((verdict.words, verdict.advice), {})
                asked.setdefault(f"{do_title(row.change)}{where}", []).append(names[one.name])
    steps = []
    for (words, advice), asked in advised.items():
        # what holds for all classifiers needs no names
        texts = [text if len(who) == len(names) else f"{text} ({', '.join(who)})" for text, who in asked.items()]
        steps.append(f"{', '.join(texts)}: {words}. {advice}")
    return steps


def short_names(result: AuditResult) -> dict[str, str]:
    """What classifiers are called in tables and figures: the last part of a path, where that tells them apart."""
    ends = {one.name: one.name.replace("\\", "/").rstrip("/").rpartition("/")[2] for one in result.audited}
    return ends if len(set(ends.values())) == len(ends) else {name: name for name in ends}
