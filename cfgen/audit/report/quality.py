"""How far an audit's images can be trusted: warnings, and figures of the model's quality."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from cfgen.audit.plan import Plan
from cfgen.audit.results import EVERYONE, BiasRow, Findings
from cfgen.reporting.numbers import share

__all__ = ["quality_rows", "warnings", "warnings_of_all"]

FLIPPED = 0.05  # of the answers; as many as the paper calls a significant bias
OVERALL = ("mse_x", "mae_z", "composition", "fid")  # shown from files of scores that do not describe themselves


def warnings(findings: Findings, plan: Plan) -> list[str]:
    """What has to be known before the numbers are believed, in sentences."""
    of_answers = [] if findings.value else [flipped_by_the_model(findings, plan), one_direction_only(findings)]
    texts = (*of_answers, worse_than_untouched(findings))
    return [text for text in texts if text]


def warnings_of_all(found: Mapping[str, Findings], plan: Plan) -> list[str]:
    """Of several classifiers, by name: what all of them share is said once, and the rest says of whom it is."""
    by_text: dict[str, list[str]] = {}
    for name, one in found.items():
        for text in warnings(one, plan):
            by_text.setdefault(text, []).append(name)
    return [text if len(names) == len(found) else f"{', '.join(names)}: {text}" for text, names in by_text.items()]


def flipped_by_the_model(findings: Findings, plan: Plan) -> str:
    """Shares of yes may agree where many answers do not, so that both are said."""
    error = findings.model_error
    flipped = 1 - error["agreement"]
    if flipped <= FLIPPED:
        return ""
    real, own = share(error["positive_real"]), share(error["positive_own"])
    yes = f"it says yes to {real} of the images and to {own} of the reconstructions"
    if plan.keep_residual:
        return (
            f"the model's reconstruction alone flips {share(flipped)} of the classifier's answers, without any intervention "
            f"({yes}). What the reconstruction loses is added back, but what the model draws wrongly is not: it may not show "
            "what the classifier looks at."
        )
    return (
        f"for {share(flipped)} of the images, the classifier's answer for the model's reconstruction differs from its answer "
        f"for the image itself ({yes}). The model may not show what the classifier looks at."
    )


def one_direction_only(findings: Findings) -> str:
    """Said where all base images get the same answer."""
    positive = findings.model_error["positive_base"]
    if 0 < positive < 1:
        return ""
    same, other = ("no", "yes") if positive == 0 else ("yes", "no")
    return (
        f"the classifier says {same} to every base image, so answers can only flip to {other}, and a bias in the other "
        "direction cannot be seen. Another threshold moves the line between yes and no."
    )


def worse_than_untouched(findings: Findings) -> str:
    """Said of interventions whose counterfactuals are no closer to the ground truth than the images they were made of."""
    rows = [row for row in interventions(findings) if row.truth and row.error >= row.untouched]
    if not rows:
        return ""
    distances = "; ".join(f"do({row.change}): {levels(row.error)} against {levels(row.untouched)}" for row in rows)
    return (
        "these counterfactuals are no closer to the ground truth than the unchanged images are, in grey levels of 255: "
        f"{distances}."
    )


def quality_rows(findings: Findings, plan: Plan, scores: Mapping[str, Any], predictor: bool) -> list[tuple[str, str]]:
    """What is measured and its value; `scores` are the content of the model's metrics.json.

    Distances of images are in grey levels of 255, as `cfgen evaluate` has them.
    """
    error = findings.model_error
    rows = [
        ("mean squared error of reconstructions, MSE(x, x_r), pixels in 0..1", f"{error['mse_x']:.5f}"),
        ("same answer for an image and its reconstruction", share(error["agreement"])),
        ("answers yes, real images", share(error["positive_real"])),
        ("answers yes, reconstructions", share(error["positive_own"])),
    ]
    if findings.value:
        rows[1:] = [
            ("correlation of the predictions for an image and its reconstruction", f"{error['agreement']:.3f}"),
            ("mean prediction, real images", f"{error['positive_real']:.4g}"),
            ("mean prediction, reconstructions", f"{error['positive_own']:.4g}"),
        ]
    for row in interventions(findings):
        if row.truth:
            distance = f"{levels(row.error)} (unchanged image: {levels(row.untouched)})"
            rows.append((f"do({row.change}): distance to the ground truth, grey levels of 255", distance))
        if predictor:
            rows.append(
                (f"do({row.change}): strength of what is drawn, real images that have it being 100 %", recognised(row))
            )
    if not predictor:
        rows.append(("strength of what is drawn", "not measured: no predictor was asked"))
    attributes = {name for do in plan.do.values() for name in do}
    return rows + [(f"{name} (cfgen evaluate)", f"{value:.4g}") for name, value in scores_of(scores, attributes)]


def recognised(row: BiasRow) -> str:
    """How strongly the model draws what an intervention asks for, by the predictor."""
    drawn = None if row.effect is None else row.effect.strength
    if drawn is None:
        return "not measured: the predictor does not know these attributes"
    if not drawn.judged:
        return "not known: the predictor cannot tell it in real images either"
    return f"{share(drawn.value)} (95 % confidence interval {share(drawn.low)} to {share(drawn.high)})"


def interventions(findings: Findings) -> list[BiasRow]:
    """The rows of interventions among all images."""
    return [row for row in findings.bias if row.do and row.n and row.among == EVERYONE]


def levels(distance: float) -> str:
    return f"{255 * distance:.2f}"


def scores_of(scores: Mapping[str, Any], attributes: set[str]) -> list[tuple[str, float]]:
    """The scores of the model as a whole and those of these attributes, with their units.

    >>> about = {"mse_x": {"unit": "", "attribute": None}, "error/a": {"unit": "mm", "attribute": "a"},
    ...          "error/b": {"unit": "mm", "attribute": "b"}}
    >>> scores_of({"mse_x": 0.5, "error/a": 2.0, "error/b": 3.0, "about": about}, {"a"})
    [('mse_x', 0.5), ('error/a, mm', 2.0)]
    """
    numbers = {
        key: float(value)
        for key, value in scores.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not abs(value) > sys.float_info.max
    }
    about = scores.get("about")
    if not isinstance(about, Mapping):
        return [(key, value) for key, value in numbers.items() if key.startswith(OVERALL)]
    rows = []
    for key, value in numbers.items():
        what = about.get(key)
        if not isinstance(what, Mapping):  # not one of ours: anybody may have written the file
            continue
        if what.get("attribute") is None or str(what["attribute"]) in attributes:
            unit = what.get("unit")
            rows.append((f"{key}, {unit}" if unit else key, value))
    return rows
