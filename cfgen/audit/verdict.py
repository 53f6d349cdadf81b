"""A verdict for every intervention: do the model and the real images agree?"""

from __future__ import annotations

from dataclasses import dataclass

from cfgen.effects import Effect, Estimate, Outcome
from cfgen.effects.strength import Strength
from cfgen.reporting.numbers import share

__all__ = ["VERDICTS", "Verdict", "judge"]

NOT_DRAWN = 0.25  # an attribute is not drawn where the whole interval of its strength lies below
WEAK = 0.8  # and drawn too weakly where it lies below this and the estimates differ
HALF = 0.5  # below this strength, agreement says little
LEVEL = 0.01  # of the test that both estimates are equal: an audit makes several such tests

DO_NOT_USE = "Do not use the model's images for this attribute; read the combined estimate, which real images correct."
COLLECT_IMAGES = "Do not use the model's images for this attribute, and collect images that have it."
ASK_LESS = (
    "Audit more images, set fewer attributes at once, or measure a few true pairs. "
    "Until then this is the model-only estimate."
)
ONLY_THE_MODEL = "Only the model can answer; measure a few true pairs if you can make them."
TOO_CLOSE_TO_ZERO = "Read the combined estimate; the model-only estimate is too close to zero."
LOOK_FOR_CAUSE = (
    "Read the combined estimate if you trust the graph. Look for a cause of both the attribute and the image that is missing "
    "from the graph (adjust for it), or compare with another model."
)
UNDERSTATED = "Read the combined estimate; the model's pictures understate the change."

VERDICTS = {
    "agrees": "real images and model agree",
    "weak": "the model draws it too weakly",
    "not_drawn": "the model does not draw it",
    "overlap": "not enough overlap to tell",
    "disagree": "real images and model disagree: the causal graph or the model is wrong",
}


@dataclass(frozen=True)
class Verdict:
    """A verdict on an intervention: `code` is a key of `VERDICTS`, `reason` gives its numbers, `advice` says what to do next."""

    code: str
    reason: str
    advice: str

    @property
    def good(self) -> bool:
        return self.code == "agrees"

    @property
    def words(self) -> str:
        return VERDICTS[self.code]

    def to_dict(self) -> dict[str, str]:
        return {"code": self.code, "words": self.words, "reason": self.reason, "advice": self.advice}


def judge(effect: Effect, strength: Strength | None) -> Verdict:
    """The verdict on the model-only estimate of an effect, given how strongly the model draws the intervention."""
    judged = strength if strength is not None and strength.judged else None
    drawn = drawn_sentence(strength)
    if judged is not None and judged.high < NOT_DRAWN:
        return Verdict("not_drawn", drawn, DO_NOT_USE if effect.independent is not None else COLLECT_IMAGES)
    if effect.independent is None or effect.gap is None:
        reason = f"{effect.problem[0].upper()}{effect.problem[1:]}. {drawn}".strip()
        return Verdict("overlap", reason, ASK_LESS if effect.more_images_help else ONLY_THE_MODEL)
    gap = f"The model-only estimate minus that from real images is {in_words(effect.gap, effect.outcome)}."
    if effect.gap.p_value() < LEVEL:
        if judged is not None and judged.high < WEAK:
            return Verdict("weak", f"{drawn} {gap}", TOO_CLOSE_TO_ZERO)
        return Verdict("disagree", f"{gap} {drawn}".strip(), LOOK_FOR_CAUSE)
    if judged is not None and judged.value < HALF:
        return Verdict("weak", f"{drawn} {gap}", UNDERSTATED)
    return Verdict("agrees", f"{gap} {drawn}".strip(), "")


def drawn_sentence(strength: Strength | None) -> str:
    if strength is None:
        return ""
    if not strength.judged:
        return "The predictor cannot tell the attribute in real images, so its strength in counterfactuals is unknown."
    return (
        f"It is drawn at {share(strength.value)} of its strength in real images "
        f"(95 % confidence interval {share(strength.low)} to {share(strength.high)})."
    )


def in_words(estimate: Estimate, outcome: Outcome) -> str:
    """A difference in its unit, with its interval.

    >>> import numpy as np
    >>> from cfgen.effects import YesNo
    >>> in_words(Estimate(-0.12, np.array([-0.1, 0.1] * 50), 100), YesNo())
    '-12.0 points (95 % confidence interval -14.0 to -10.0)'
    """
    value, low, high = (outcome.text(number) for number in (estimate.value, *estimate.interval))
    return f"{value} {outcome.unit} (95 % confidence interval {low} to {high})"
