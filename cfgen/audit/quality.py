"""How far an audit's images can be trusted: warnings, and the generator's own figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cfgen.audit.results import EVERYONE, BiasRow, Findings
from cfgen.audit.run import Plan
from cfgen.audit.text import share

__all__ = ["quality_rows", "warnings"]

TURNED = 0.05  # of the answers; as many as the paper calls a significant bias
OVERALL = ("mse_x", "mae_z", "composition", "fid")
# cfgen evaluate's kinds of metrics that are of one intervention or attribute, and what they are measured in
UNITS = {
    "true_error": "levels of 255",
    "reversibility_l1": "levels of 255",
    "composition_l1": "levels of 255",
    "median_abs_error": "the attribute's units",
    "predicted": "share right, or the attribute's units",
    "accuracy": "share right",
    "minimality_cld": "",
}


def warnings(found: Findings, plan: Plan) -> list[str]:
    """In plain text, what a reader of the numbers has to know first."""
    said = (turned_by_the_generator(found, plan), only_one_way(found), further_than_untouched(found))
    return [text for text in said if text]


def turned_by_the_generator(found: Findings, plan: Plan) -> str:
    """Shares of yes differ by no more than the share of answers that do, so that both are looked at."""
    own = found.generator
    wrong = 1 - own["agreement"]
    if wrong <= TURNED:
        return ""
    yes = f"it says yes to {share(own['positive_real'])} of the images and {share(own['positive_own'])} of the reconstructions"
    if plan.keep_residual:
        return (
            f"the generator alone would turn {share(wrong)} of the classifier's answers, with no intervention at all ({yes}). "
            "What it loses is given back, what it draws wrongly is not: it may not show what the classifier looks at."
        )
    return (
        f"for {share(wrong)} of the images the classifier's answer for the generator's reconstruction differs from its answer "
        f"for the image itself ({yes}). The generator may not show what the classifier looks at."
    )


def only_one_way(found: Findings) -> str:
    """Said where all base images get the same answer."""
    positive = found.generator["positive_base"]
    if 0 < positive < 1:
        return ""
    same, other = ("no", "yes") if positive == 0 else ("yes", "no")
    return (
        f"the classifier says {same} to every base image, so that answers can turn to {other} only and nothing in the other "
        "direction can be seen. --threshold moves the line between yes and no."
    )


def further_than_untouched(found: Findings) -> str:
    """Said of interventions whose images are no nearer to the truth than the images they were made of."""
    rows = [row for row in of_everyone(found) if row.truth and row.error >= row.untouched]
    if not rows:
        return ""
    told = "; ".join(f"do({row.change}): {levels(row.error)} against {levels(row.untouched)}" for row in rows)
    return (
        "the images made are no nearer to the true counterfactual images than the images left as they were, in levels of 255: "
        f"{told}."
    )


def quality_rows(found: Findings, plan: Plan, evaluated: Mapping[str, Any], reader: bool) -> list[tuple[str, str]]:
    """What is measured and what came out; distances of images in levels of 255, as `cfgen evaluate` has them."""
    own = found.generator
    rows = [
        ("mean squared error of reconstructions, MSE(x, x_r), pixels in 0..1", f"{own['mse_x']:.5f}"),
        ("same answer for an image and its reconstruction", share(own["agreement"])),
        ("answers yes, real images", share(own["positive_real"])),
        ("answers yes, reconstructions", share(own["positive_own"])),
    ]
    for row in of_everyone(found):
        if row.truth:
            distance = f"{levels(row.error)} (image left as it was: {levels(row.untouched)})"
            rows.append((f"do({row.change}): distance to the true counterfactual, levels of 255", distance))
        if reader:
            rows.append((f"do({row.change}): seen as asked by the reader", seen(row)))
    if not reader:
        rows.append(("seen as asked by a reader", "not measured: give --reader"))
    named = {name for do in plan.do.values() for name in do}
    return rows + [(f"{key}{unit(key)} (cfgen evaluate)", f"{evaluated[key]:.4g}") for key in chosen(evaluated, named)]


def seen(row: BiasRow) -> str:
    if math.isnan(row.seen):
        return "not measured: the reader does not decide this"
    return f"{share(row.seen)} (real images that have it: {share(row.seen_floor)})"


def of_everyone(found: Findings) -> Iterable[BiasRow]:
    return [row for row in found.bias if row.do and row.n and row.among == EVERYONE]


def levels(distance: float) -> str:
    return f"{255 * distance:.2f}"


def unit(key: str) -> str:
    if key.startswith("true_error/changed"):
        return ", share of pixels"
    words = UNITS.get(key.partition("/")[0])
    return f", {words}" if words else ""


def chosen(evaluated: Mapping[str, Any], named: set[str]) -> list[str]:
    """The metrics of the model as a whole and of the named attributes; not those of other classifiers or interventions."""
    of_attributes = tuple(f"{kind}/" for kind in UNITS)
    numbers = [key for key, value in evaluated.items() if isinstance(value, (int, float))]
    return [
        key for key in numbers if key.startswith(OVERALL) or (key.startswith(of_attributes) and attribute(key) in named)
    ]


def attribute(key: str) -> str:
    """Whose metric it is: NAME of `kind/do(NAME)/...`, `kind/untouched(NAME)` and `kind/floor/NAME`."""
    found = re.match(r"[^/]+/(?:\w+\(([^)]*)\)|(?:floor|untouched)/(.*))", key)
    return (found[1] or found[2]) if found else ""
