"""Short texts that the page, the figures and the console share: verdicts, names, numbers and the sentence of a finding."""

from __future__ import annotations

import math

from cfgen.audit._classes import ClassFindings
from cfgen.audit.questions import EVERYONE
from cfgen.audit.report._sections import Finding
from cfgen.audit.result import AuditResult
from cfgen.effects import Effect, Estimate, Outcome
from cfgen.reporting.numbers import share

MODEL_ONLY = "model-only"
MARKS = {"agrees": "✓", "weak": "!", "not_drawn": "✕", "overlap": "?", "disagree": "≠"}  # distinct without colour
SHORT = {
    "agrees": "agrees",
    "weak": "drawn too weakly",
    "not_drawn": "not drawn",
    "overlap": "not enough overlap",
    "disagree": "disagrees",
}
SIGNIFICANT = {"5%": "beyond 5 points", "0": "not zero", "no": "no"}
INTERVAL = {
    "5%": "The whole interval lies beyond 5 points.",
    "0": "The interval excludes zero.",
    "no": "The interval includes zero: there may be no difference.",
}


def marked(code: str) -> str:
    """The mark and the short words of a verdict.

    >>> marked("agrees")
    '✓ agrees'
    """
    return f"{MARKS[code]} {SHORT[code]}"


def sentence(finding: Finding) -> tuple[str, str, str]:
    """A finding in one to three sentences, without its verdict; the second part has the number."""
    effect, outcome = finding.effect, finding.outcome
    who = f"the classifier says “{finding.classifier.label}”" if outcome.flips else "the network predicts"
    start = f"With {finding.intervention.describe()}, {who} "
    emphasis = change_in_words(effect.headline.value, outcome)
    low, high = map(outcome.text, effect.headline.interval)
    rest = f" [95 % confidence interval {low} to {high}] ({effect_kind(effect)})"
    if effect.combined is None:
        rest += ", by the model-only estimate. This interval does not include the error of the model."
        return start, emphasis, rest
    rest += f". {INTERVAL[effect.significant]}"
    if not finding.verdict.good:
        rest += f" The model-only estimate is {outcome.text(effect.model_only.value)} {outcome.unit}."
    return start, emphasis, rest


def change_in_words(value: float, outcome: Outcome) -> str:
    """A change of the mean answer, after the verb.

    >>> from cfgen.effects import Value, YesNo
    >>> change_in_words(-0.02, YesNo()), change_in_words(0.0001, YesNo()), change_in_words(-0.02, Value())
    ('2.0 points less often', 'as often as before', '0.02 units less on average')
    """
    how = "often" if outcome.flips else "on average"
    if float(outcome.size(value)) == 0:
        return "as often as before" if outcome.flips else "the same on average"
    return f"{outcome.size(value)} {outcome.unit} {'more' if value > 0 else 'less'} {how}"


def with_interval(outcome: Outcome, value: float, low: float, high: float) -> str:
    """
    >>> from cfgen.effects import YesNo
    >>> with_interval(YesNo(), 0.25, 0.22, 0.28)
    '+25.0 (+22.0 to +28.0)'
    """
    return f"{outcome.text(value)} ({outcome.text(low)} to {outcome.text(high)})"


def estimate_text(estimate: Estimate | None, outcome: Outcome) -> str:
    return "none" if estimate is None else with_interval(outcome, estimate.value, *estimate.interval)


def headline_text(effect: Effect) -> str:
    """The combined estimate; where there is none, the model-only estimate, which is marked."""
    text = estimate_text(effect.headline, effect.outcome)
    return text if effect.combined is not None else f"{text}, {MODEL_ONLY}"


def effect_kind(effect: Effect) -> str:
    """Which effect a number is, and of which share of the images where some have no overlap."""
    kind = f"direct effect, {' and '.join(effect.held)} held" if effect.held else "total effect"
    return (
        kind if effect.share_compared == 1 else f"{kind}, for the {share(effect.share_compared)} of images with overlap"
    )


def accuracy_text(one: ClassFindings) -> str:
    """Accuracy and calibration of a classifier with several classes; empty where the data has no labels."""
    accuracy, low, high = one.accuracy
    if math.isnan(accuracy):
        return ""
    text = f"accuracy {share(accuracy)} ({share(low)} to {share(high)}) on the real images"
    return text if math.isnan(one.calibration) else f"{text}; expected calibration error {share(one.calibration)}"


def short_names(result: AuditResult) -> dict[str, str]:
    """Classifiers' names in tables and figures: the last part of a path, where these differ."""
    ends = {one.name: one.name.replace("\\", "/").rstrip("/").rpartition("/")[2] for one in result.classifiers}
    return ends if len(set(ends.values())) == len(ends) else {name: name for name in ends}


def next_steps(result: AuditResult) -> list[str]:
    """The advice of bad verdicts, once for all interventions that it is given for."""
    names = short_names(result)
    advised: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in result.classifiers:
        for row in one.findings:
            if row.verdict is not None and row.verdict.advice:
                where = "" if row.cohort == EVERYONE else f" among {row.cohort}"
                title = f"{result.questions.intervention(row.change).title}{where}"
                same = advised.setdefault((row.verdict.words, row.verdict.advice), {})
                same.setdefault(title, []).append(names[one.name])
    steps = []
    for (words, advice), titles in advised.items():
        # advice for all classifiers needs no names
        texts = [title if len(who) == len(names) else f"{title} ({', '.join(who)})" for title, who in titles.items()]
        steps.append(f"{', '.join(texts)}: {words}. {advice}")
    return steps
