"""How an audit's numbers came about, what they assume and what they cannot say, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cfgen.audit.unit import POINTS
from cfgen.audit.verdict import HALF, LEVEL, NOT_DRAWN, WEAK
from cfgen.effects import ENOUGH
from cfgen.effects.nuisance import FOLDS
from cfgen.effects.real_images import STRANGERS
from cfgen.reporting.numbers import share

if TYPE_CHECKING:
    from cfgen.audit.effect import Effect
    from cfgen.audit.outcome import AuditResult

__all__ = ["Point", "assumptions", "methods", "predictor_text"]


class Point(NamedTuple):
    """One thing to know: what it is called, and a sentence or two."""

    name: str
    text: str


def methods(result: AuditResult) -> list[Point]:
    """What was computed, the parts that were used alone."""
    effects = all_effects(result)
    base = (
        "the images themselves: what the model's reconstruction loses is added to every counterfactual"
        if result.plan.keep_residual
        else "the model's reconstructions of the images"
    )
    found = [
        what_is_measured(result),
        Point(
            "The model's word",
            "The model draws each image as it would have been (its counterfactual), and the classifier's answers are "
            f"compared with those for base images ({base}). Its interval knows of the choice of images alone, and not "
            "of the model's errors. Which image flips, and how many flip in either direction, only the model can "
            "say.",
        ),
        Point(
            "Real images alone",
            "Some real images have the values already. They are weighted until they resemble the images without them "
            "in everything that the intervention does not cause, by the causal graph (see “adjusted for” below); a "
            "regression predicts the classifier's answer from the same attributes; and the weighted images correct "
            "what the regression gets wrong. This is augmented inverse-probability weighting (AIPW): mean over the "
            "changed images of (predicted answer with the values minus answer now) plus the weighted mean over the images with "
            "the values of (answer minus predicted answer). It is right if either the weights or the regression are "
            f"right. Each image is weighted and predicted by models fitted on other images ({FOLDS} parts). “Worth” "
            f"is the effective sample size: unequal weights make many images count as few. Below {ENOUGH} the audit does "
            f"not answer from real images. Where more than {share(STRANGERS)} of the changed images are unlike all that "
            "have the values, these are left out, and the estimate is about the others.",
        ),
        Point(
            "Combined",
            "The same formula with the model's answers as a second prediction, which real images correct in the same "
            "way; the two are mixed so that the interval is narrowest. Whatever the model draws wrongly is "
            "corrected, so that this interval includes the model's error, under the assumptions below.",
        ),
    ]
    found += sometimes(result, effects)
    found.append(
        Point(
            "Verdict",
            "Before any number: do the model's estimate and that of real images (or true pairs) differ by more than "
            f"chance (a test at {share(LEVEL)})? And how strongly does the model draw what was asked for, by a "
            "predictor, real images that have it being 100 %? Where the whole interval of that strength lies below "
            f"{share(NOT_DRAWN)}, the model does not draw it; where it lies below {share(WEAK)} and the estimates "
            f"differ, or the strength itself is below {share(HALF)}, the model draws it too weakly. Where the estimates "
            "differ for no such reason, they disagree.",
        )
    )
    return found


def what_is_measured(result: AuditResult) -> Point:
    if result.unit is not POINTS:
        return Point(
            "Effect",
            "The effect of an intervention is the mean prediction after it minus the mean prediction before it, over the images "
            "that do not have the values yet, in the units of what is predicted.",
        )
    says = f"The classifier says yes where its probability is above {result.threshold:g}."
    if result.classes:
        says = "Each class is asked about against the rest: yes is that it is the most probable of all."
    return Point(
        "Bias",
        f"{says} The bias of an "
        "intervention is the share of yes after it minus the share of yes before it, over the images that do not "
        "have the values yet. It is also the share of answers that flip to yes minus the share that flip to no. "
        "A point is one image in a hundred.",
    )


def sometimes(result: AuditResult, effects: list[Effect]) -> list[Point]:
    """Methods that not every audit uses."""
    found = []
    if any(effect.pairs is not None for effect in effects):
        most = max(effect.pair_count for effect in effects)
        found.append(
            Point(
                "True pairs",
                f"For up to {most:,} images the true picture after the intervention is known. The classifier's "
                "answers for these correct what the model says of all (prediction-powered inference, PPI++), and are "
                "part of the combined estimate.",
            )
        )
    if any(len(effect.generators) > 1 for effect in effects):
        found.append(
            Point(
                "Several models",
                "Their estimates are averaged, and their disagreement widens the intervals (Rubin's rule). Pictures "
                "and flips are those of the first model.",
            )
        )
    if any(effect.window for effect in effects):
        found.append(
            Point(
                "Windows",
                "Hardly any image has exactly a value of a continuous attribute: those within a window of it count "
                "as having it, and the regression allows for the distance.",
            )
        )
    if result.plan.shifts:
        found.append(
            Point(
                "Shifts",
                "A shift adds the same amount to each image's own value; images that would leave the range of the training "
                "images are left out. Real images answer it as a modified treatment policy: a regression on the value and all "
                "that the intervention does not cause predicts the answer at the shifted value, and images weighted to be "
                "distributed as the shifted ones correct it (the weights are odds of telling shifted rows from rows as "
                "they are).",
            )
        )
    if result.plan.start:
        found.append(
            Point(
                "Contrasts",
                "A contrast compares the same images at two values: the second minus the first, over all images. Real images "
                "near either value answer it, each side weighted to be like all images.",
            )
        )
    if any(effect.held for effect in effects):
        held = ", ".join(dict.fromkeys(name for effect in effects for name in effect.held))
        found.append(
            Point(
                "Direct effect",
                f"{held} kept their values although the intervention would change them, so that the number is what the "
                "intervention does in other ways; real images are adjusted for the held attributes too.",
            )
        )
    if result.plan.strengths:
        found.append(
            Point(
                "Strengths",
                "The attributes were also set to a share of the way. The bias at each strength is the model's word, "
                f"on the first {result.plan.explain_count:,} images, and is not corrected by real images.",
            )
        )
    return found


def assumptions(result: AuditResult) -> list[Point]:
    """What has to be true for the combined estimate and its interval, and what no number here says; a sentence each."""
    return [
        Point(
            "Hidden causes",
            "If something that is in no column (the light, the camera) influences both the attribute and the image, "
            "real images credit its effect to the attribute, the model may have learnt the same mistake, and no "
            "interval or verdict is sure to show it; if the data has a column for it, adjusting for that column "
            "(--adjust COLUMN) mends it.",
        ),
        Point(
            "Overlap",
            "Where hardly any image has the attribute and is otherwise like those without it, real images cannot say "
            "what it does, and what is left is the model's word alone.",
        ),
        Point(
            "Images the classifier has seen",
            "If the classifier was trained on the very images that are audited, its answers for them are not those "
            "that it gives to new images; audit a split that it has not seen.",
        ),
        Point(
            "The causal graph",
            "It was assumed, not discovered: if the intervention causes an attribute that the graph says it does not "
            "cause, that part of its effect is adjusted away, and if the graph has an arrow too many, a mere "
            "difference between images is counted as an effect.",
        ),
        Point(
            "Everything else about an image",
            "What the attributes do not describe (pose, background) is taken to be independent of them; the "
            "counterfactuals assume the same.",
        ),
        Point("The predictor", predictor_text(result.facts.get("predictor"))),
        Point(
            "Intervals",
            "Of combined intervals, 95 in 100 contain the true bias if all of this holds; with many interventions, "
            "one in twenty misses by chance. An interval of the model's word alone includes nothing of the model's "
            "error.",
        ),
        Point(
            "No bias found does not mean fair",
            "Flips to yes and to no can cancel, a bias may exist only in a subgroup, and attributes that were not "
            "asked about were not examined.",
        ),
        Point(
            "Other images and people",
            "Nothing is said of images unlike these, of why the classifier does it, of whether it is lawful, or of "
            "people: attributes are somebody's judgements of pictures.",
        ),
    ]


def predictor_text(facts: Mapping[str, Any] | None) -> str:
    """What judged the strength of what is drawn, and how good it is itself."""
    if not facts:
        return "No predictor read the model's images, so that nothing says how strongly they show what was asked for."
    source = {
        "given": "a predictor that was given",
        "trained on the spot": "a predictor trained for this audit on the model's training images",
        "calibration": "the model's calibration, made earlier on other images by a predictor",
    }.get(str(facts.get("source")), "a predictor")
    text = f"How strongly the model draws an attribute was read by {source}, which itself errs"
    known = {
        name: value
        for name, value in (facts.get("accuracy") or {}).items()
        if isinstance(value, (int, float)) and not math.isnan(value)
    }
    if known:
        worst, best = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        text += (
            " (balanced accuracy, or correlation for continuous attributes, on validation images from "
            f"{share(known[worst])} for {worst} to {share(known[best])} for {best})"
        )
    return text + (
        "; its readings are compared with those of real images, and where it cannot tell these apart it does not judge."
    )


def all_effects(result: AuditResult) -> list[Effect]:
    return [row.effect for one in result.audited for row in one.findings.bias if row.effect is not None]
