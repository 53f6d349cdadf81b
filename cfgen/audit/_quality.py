"""Warnings about the model's images, which a reader should know before the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from cfgen.audit._findings import ClassifierResult
from cfgen.audit.questions import EVERYONE
from cfgen.reporting.numbers import share

FLIPPED = 0.05  # of the answers; as many as the paper calls a significant bias


def warnings_of_all(results: Mapping[str, ClassifierResult], keep_residual: bool) -> list[str]:
    """The warnings about several classifiers, by name; a warning that all of them share is given once, without names."""
    by_text: dict[str, list[str]] = {}
    for name, one in results.items():
        for text in warnings(one, keep_residual):
            by_text.setdefault(text, []).append(name)
    return [text if len(names) == len(results) else f"{', '.join(names)}: {text}" for text, names in by_text.items()]


def warnings(result: ClassifierResult, keep_residual: bool) -> list[str]:
    """The warnings about one classifier, as sentences."""
    about_answers = (
        [flipped_by_the_model(result, keep_residual), one_direction_only(result)] if result.outcome.flips else []
    )
    return [text for text in (*about_answers, worse_than_untouched(result)) if text]


def flipped_by_the_model(result: ClassifierResult, keep_residual: bool) -> str:
    """Given where reconstructions change many answers; shares of yes may still agree, so both are shown."""
    error = result.model_error
    flipped = 1 - error["agreement"]
    if flipped <= FLIPPED:
        return ""
    real, own = share(error["positive_real"]), share(error["positive_own"])
    yes = f"it says yes to {real} of the images and to {own} of the reconstructions"
    if keep_residual:
        return (
            f"the model's reconstruction alone flips {share(flipped)} of the classifier's answers, without any intervention "
            f"({yes}). The residual of the reconstruction is added back, but errors of the drawn change are not corrected."
        )
    return (
        f"for {share(flipped)} of the images, the classifier's answer to the model's reconstruction differs from its answer to "
        f"the image itself ({yes}). The model may not show what the classifier looks at."
    )


def one_direction_only(result: ClassifierResult) -> str:
    """Given where all base images get the same answer."""
    positive = result.model_error["positive_base"]
    if 0 < positive < 1:
        return ""
    same, other = ("no", "yes") if positive == 0 else ("yes", "no")
    return (
        f"the classifier says {same} to every base image, so answers can only flip to {other}, and a bias in the other "
        "direction cannot be measured. Try another threshold."
    )


def worse_than_untouched(result: ClassifierResult) -> str:
    """Given for interventions whose counterfactuals are no closer to the ground truth than the unchanged images."""
    rows = [row for row in result.findings if row.cohort == EVERYONE and row.truth and row.error >= row.untouched]
    if not rows:
        return ""
    distances = "; ".join(
        f"do({row.change}): {grey_levels(row.error)} against {grey_levels(row.untouched)}" for row in rows
    )
    return (
        "these counterfactuals are no closer to the ground truth than the unchanged images are, in grey levels of 255: "
        f"{distances}."
    )


def grey_levels(distance: float) -> str:
    """A distance of pixels in 0..1, in grey levels of 255.

    >>> grey_levels(0.1)
    '25.50'
    """
    return f"{255 * distance:.2f}"
