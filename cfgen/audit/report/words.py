"""What stands before the parts of a report: how each is to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.audit.report.text import ALONE, joined
from cfgen.audit.unit import POINTS

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult

__all__ = ["READING", "words"]

READING = (
    "Read the verdict first. The combined estimate is the answer: real images correct the model in it, and its "
    "interval includes the model's error, as long as the assumptions below hold. Where there is no combined "
    "estimate, the number is the model's word alone, and its interval does not know of the model's error."
)


def words(result: AuditResult) -> dict[str, str]:
    """By part of the report."""
    first = min(result.plan.explain_count, result.findings.images)
    labels = dict.fromkeys(one.label for one in result.audited)
    yes = f"“{next(iter(labels))}”" if len(labels) == 1 else "yes"
    effects = (
        "; ".join(f"{cause} causes {effect}" for cause, effect in result.graph.edges) or "no attribute causes another"
    )
    several = f" of the {len(result.classes[0].classes)} classes" if result.classes else ""
    held = f" {joined(','.join(result.plan.hold))} kept their values where that is said." if result.plan.hold else ""
    found = {
        "classes": (
            f"The answer is the most probable{several}. The bias of a class is the share of images that turn into it minus the "
            "share that leave it, in points. Over all classes it adds up to zero by the model and by real images, and nearly so "
            "combined, for each class is combined to be narrowest. The marks are the verdicts, and the largest bias stands "
            f"first. From which class to which answers go is {ALONE}: the colour of a cell is its share of the row."
        ),
        "flips": (
            f"Drawn at random among the images whose answer flips. Under each image, the probability of {yes}. These "
            "pictures are the model's word: read its verdict before you believe them."
        ),
        "local": (
            f"How many points more probable each attribute makes {yes} for this one image, by the model's "
            "counterfactuals of it. This is the model's word, and no interval can be given for a single image."
        ),
        "bias": (
            "Numbers are in points, one image in a hundred, with 95 % confidence intervals in brackets. "
            "“Significant” says which: the whole interval lies beyond 5 points, it only excludes zero (“not zero”), "
            "or neither. A total effect counts everything that follows from the intervention by the causal graph; a "
            f"direct effect leaves out what goes through held attributes.{held}"
        ),
        "curves": f"Filled: combined estimates with their intervals. Hollow, joined by a line: {ALONE}.",
        "contrasts": (
            "Differences are taken on the same images, so that what the classifiers share cancels: such an interval "
            "is narrower than the two biases' own intervals suggest."
        ),
        "subgroups": (
            "Who looks at many subgroups finds something by chance. The intervals of one intervention are therefore "
            "wider, so that all of them hold at once in 95 of 100 audits (Bonferroni), and the p-values are "
            "corrected for the number of attributes (Holm)."
        ),
        "directions": (
            f"Which answers flip is {ALONE}. The last two columns are bounds: what the shares of yes before the "
            "intervention and after it, by the combined estimate, leave possible (Fréchet), at any value "
            "inside its interval."
        ),
        "scatter": (
            f"Each point is one image: the probability of {yes} for the base image (across) and for the changed image "
            "(up), by the model. Points on the diagonal did not change. Top left: flips to yes. Bottom right: flips "
            "to no."
        ),
        "transformations": (
            "For comparison, transformations of the base images that intervene on no attribute. The classifier's "
            "reaction to these is no bias, but a measure of how easily its answers flip."
        ),
        "importance": (
            f"How many points more probable the attribute makes {yes}, while everything else is what the causal graph "
            f"makes of it; mean over the first {first:,} images. This is {ALONE} and a total effect: real images do "
            "not correct it, and the interval does not know of the model's error."
        ),
        "dose": (
            f"Model-based: {ALONE}, on the first {first:,} images. Strength is what a predictor sees, real images "
            "that have the attribute being 100 %. The bias at full strength is read off between the strengths that "
            "were tried."
        ),
        "graph": (
            "What an intervention changes beside itself follows from this graph: whatever it points at, directly or "
            f"not, may change too, and all attributes show in the image x. Here: {effects}."
        ),
    }
    if result.unit is not POINTS:
        found |= {
            "bias": (
                "Numbers are changes of the mean prediction, in the units of what is predicted, with 95 % confidence intervals "
                "in brackets. “Significant” says whether the interval excludes zero (“not zero”). A total effect counts "
                "everything that follows from the intervention by the causal graph; a direct effect leaves out what goes through "
                f"held attributes.{held}"
            ),
            "local": (
                "How much higher each attribute makes the prediction for this one image, by the model's counterfactuals of it. "
                "This is the model's word, and no interval can be given for a single image."
            ),
            "importance": (
                "How much higher the attribute makes the prediction, while everything else is what the causal graph makes of it; "
                f"mean over the first {first:,} images. This is {ALONE} and a total effect: real images do not correct it, and "
                "the interval does not know of the model's error."
            ),
        }
    return found
