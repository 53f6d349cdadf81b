"""A verdict for every intervention, before any number: may the model's counterfactuals be believed here?"""

from __future__ import annotations

from dataclasses import dataclass

from cfgen.audit.strength import Strength
from cfgen.audit.unit import POINTS, Unit
from cfgen.effects import Estimate, difference
from cfgen.reporting.numbers import share

__all__ = ["VERDICTS", "Verdict", "judge"]

NOT_DRAWN = 0.25  # a strength whose whole interval lies below is that of an attribute that is not drawn
WEAK = 0.8  # and below this, of one that is drawn too weakly to explain a difference otherwise
HALF = 0.5  # drawn so weakly, agreement says little
LEVEL = 0.01  # of the test that the two estimates agree: an audit makes several

ASK_LESS = (
    "Audit more images, ask for fewer attributes at once, or measure a few true pairs. Until then this is the model's "
    "word alone."
)

VERDICTS = {
    "agrees": "real images and model agree",
    "weak": "the model draws it too weakly",
    "not_drawn": "the model does not draw it",
    "overlap": "not enough overlap to tell",
    "disagree": "real images and model disagree: the causal graph or the model is wrong",
}


@dataclass(frozen=True)
class Verdict:
    """`code` is a key of `VERDICTS`; `reason` gives its numbers and `advice` says what to do next."""

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


def judge(
    generator: Estimate,
    checked: Estimate | None,
    strength: Strength | None,
    problem: str,
    more_images_help: bool,
    unit: Unit = POINTS,
) -> Verdict:
    """`checked` is what real images or true pairs say without the model's word, None where they cannot; `problem` says why."""
    judged = strength is not None and strength.judged
    drawn = drawn_sentence(strength)
    if strength is not None and judged and strength.high < NOT_DRAWN:
        advice = (
            "Do not use the model's images for this attribute; read the combined estimate, which real images correct."
            if checked is not None
            else "Do not use the model's images for this attribute, and collect images that have it."
        )
        return Verdict("not_drawn", drawn, advice)
    if checked is None:
        advice = (
            ASK_LESS if more_images_help else "Only the model can say; measure a few true pairs if you can make them."
        )
        return Verdict("overlap", f"{problem[0].upper()}{problem[1:]}. {drawn}".strip(), advice)
    apart = difference(generator, checked)
    gap = f"The model's estimate minus that of real images: {in_words(apart, unit)}."
    if apart.p_value() < LEVEL:
        if strength is not None and judged and strength.high < WEAK:
            return Verdict(
                "weak", f"{drawn} {gap}", "Read the combined estimate; the model's own is too close to zero."
            )
        return Verdict(
            "disagree",
            f"{gap} {drawn}".strip(),
            "Read the combined estimate if you trust the graph. Look for a cause of both the attribute and the image that is "
            "missing from the graph (adjust for it), or compare with another model.",
        )
    if strength is not None and judged and strength.value < HALF:
        return Verdict(
            "weak", f"{drawn} {gap}", "Read the combined estimate; pictures of the model understate the change."
        )
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


def in_words(estimate: Estimate, unit: Unit) -> str:
    """A difference in its unit, with its interval.

    >>> import numpy as np
    >>> in_words(Estimate(-0.12, np.array([-0.1, 0.1] * 50), 100), POINTS)
    '-12.0 points (95 % confidence interval -14.0 to -10.0)'
    """
    value, low, high = (f"{unit.factor * number:+{unit.digits}}" for number in (estimate.value, *estimate.interval))
    return f"{value} {unit.name} (95 % confidence interval {low} to {high})"
