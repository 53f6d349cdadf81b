"""What an audit is asked for, checked and refused before any image is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Continuous, Schema, unknown_name
from cfgen.audit.plan import Plan
from cfgen.command_line import parse_assignments
from cfgen.contracts import ImageData, other_columns
from cfgen.errors import UserError, require_different
from cfgen.interventions import Contrast, Shift, as_intervention
from cfgen.interventions.settle import check_intervention, deviation_in, settle
from cfgen.reporting.numbers import count_of
from cfgen.scm import AttributeSCM
from cfgen.scm.graph import CausalGraph

__all__ = [
    "check_intervention_work",
    "check_numbers",
    "check_used",
    "parse_adjusted",
    "parse_cohorts",
    "parse_curves",
    "parse_explained",
    "parse_held",
    "parse_interventions",
    "parse_local",
    "parse_plan",
    "parse_strengths",
    "settled",
    "shift_notes",
]

Assignments = Sequence[Mapping[str, Any] | str]
CURVE_POINTS = 7  # over the range of an attribute, its ends left out
STRONGEST = 3.0  # times what was asked for: further off the model has never been


def check_numbers(*, threshold: float, seed: int, **counts: int | None) -> None:
    """Refuses a threshold that is no probability, a negative seed, and counts below 1."""
    if not 0 < threshold < 1:
        raise UserError(f"expected a probability between 0 and 1, not {threshold}", argument="threshold")
    if seed < 0:
        raise UserError(f"expected a whole number of 0 or more, not {seed}", argument="seed")
    for name, number in counts.items():
        if number is not None and number < 1:
            raise UserError(f"expected a whole number of 1 or more, not {number}", argument=name)


def check_used(defaults: Mapping[str, Any], *, output: str, threshold: float, plan: Plan) -> None:
    """Refuses numbers that the others leave without effect; `defaults` are what they are where nobody gives them."""
    if output == "class" and threshold != defaults["threshold"]:
        raise UserError(
            "a classifier that returns classes has no probabilities to compare with it; leave it out",
            argument="threshold",
        )
    if not plan.explain and not plan.strengths and plan.explain_count != defaults["explain_count"]:
        raise UserError("nothing is ranked (explain is none); leave it out", argument="explain_count")


def parse_plan(
    scm: AttributeSCM,
    do: Assignments,
    curves: Sequence[str],
    hold: Sequence[str],
    strengths: Sequence[float],
    explain: str | Sequence[str],
    **numbers: Any,
) -> Plan:
    """What is asked of images; `numbers` are the other fields of `Plan`."""
    points = parse_curves(scm.schema, curves)
    asked = parse_interventions(scm.schema, do, optional=bool(points))
    asked |= {text: values for of_one in points.values() for text, values in of_one.items()}
    return Plan(
        do=asked,
        explain=parse_explained(scm.schema, explain),
        hold=parse_held(scm.graph, hold, asked),
        strengths=parse_strengths(strengths),
        curves={name: list(of_one) for name, of_one in points.items()},
        **numbers,
    )


def parse_interventions(schema: Schema, do: Assignments, optional: bool = False) -> dict[str, dict[str, Any]]:
    """Interventions by name, which is the text they are written in; none only where they are `optional`."""
    interventions = by_text(do, "do", as_intervention)
    if not interventions and not optional:
        raise UserError("expected at least one intervention, such as Young=0", argument="do")
    for values in interventions.values():
        check_intervention(schema, values)
        checked(schema, {name: one for name, one in values.items() if not isinstance(one, Shift | Contrast)}, "do")
    return interventions


def settled(plan: Plan, schema: Schema, columns: Mapping[str, Tensor], training: Mapping[str, Tensor]) -> Plan:
    """The plan in values of these images; `training` are the attributes of the images that the model was trained on."""
    deviation = deviation_in(training)
    found = {name: settle(schema, do, columns, deviation) for name, do in plan.do.items()}
    return replace(
        plan,
        do={name: one.do for name, one in found.items()},
        shifts={name: one.amount for name, one in found.items() if one.amount is not None},
        start={name: one.start for name, one in found.items() if one.start is not None},
    )


def shift_notes(plan: Plan, schema: Schema, columns: Mapping[str, Tensor]) -> list[str]:
    """Of each shift, how many images it leaves out."""
    notes = []
    for name in plan.shifts:
        ((attribute, wanted),) = plan.do[name].items()
        if left := int((wanted == columns[attribute].to(wanted.dtype)).sum()):
            low, high = schema.bounds(attribute)
            notes.append(
                f"do({name}) leaves out {count_of(left, 'image')} of {len(wanted):,}, whose {attribute} would leave the range "
                f"of the training images, {low:.4g} to {high:.4g}"
            )
    return notes


def parse_cohorts(schema: Schema, among: Assignments) -> dict[str, dict[str, Tensor]]:
    """Cohorts by name, with the values that their images have."""
    cohorts = {}
    for text, values in by_text(among, "among").items():
        cohorts[text] = checked(schema, values, "among")
        for name in values:
            if isinstance(schema[name], Continuous):
                raise UserError(
                    f"{name} is continuous; images are chosen by binary and categorical attributes", argument="among"
                )
    return cohorts


def by_text(
    assignments: Assignments, argument: str, parse: Callable[..., dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Assignments by the text they are written in, given as text or as mappings.

    >>> by_text(["Bangs=1", {"Black_Hair": 1, "Pale_Skin": 1}], "do")
    {'Bangs=1': {'Bangs': 1}, 'Black_Hair=1,Pale_Skin=1': {'Black_Hair': 1, 'Pale_Skin': 1}}
    """
    several = [assignments] if isinstance(assignments, (str, Mapping)) else assignments
    named: list[tuple[str, dict[str, Any]]] = []
    for one in several:
        if isinstance(one, str):
            named.append((one, (parse or parse_assignments)(one, argument)))
        elif isinstance(one, Mapping) and one:
            values = parse(one, argument) if parse else dict(one)
            named.append((",".join(f"{name}={value}" for name, value in one.items()), values))
        else:
            raise UserError(f"expected text like Young=0, or {{'Young': 0}}, not {one!r}", argument=argument)
    require_different([values for _, values in named], argument, names=[text for text, _ in named])
    return dict(named)


def checked(schema: Schema, values: Mapping[str, Any], argument: str) -> dict[str, Tensor]:
    """Values as tensors, one for all images."""
    try:
        tensors = schema.check_do(values)
    except ValueError as error:
        raise UserError(str(error), argument=argument) from error
    for name, tensor in tensors.items():
        if tensor.ndim:
            raise UserError(f"expected one value of {name} for all images, not {len(tensor)}", argument=argument)
    return tensors


def parse_explained(schema: Schema, explain: str | Sequence[str]) -> list[str]:
    """The attributes whose importance is wanted."""
    if explain == "all":
        return schema.names
    names = [explain] if isinstance(explain, str) else list(explain)
    for name in names:
        if name not in schema.names:
            raise UserError(unknown_name("attribute", name, schema.names), argument="explain")
    require_different(names, "explain")
    return names


def parse_curves(schema: Schema, curves: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """For each continuous attribute its interventions by name: at the values given, or at seven over its range."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for text in [curves] if isinstance(curves, str) else curves:
        name, _, values = text.partition("=")
        if name not in schema.continuous:
            known = ", ".join(schema.continuous) or "none"
            raise UserError(f"expected a continuous attribute ({known}), not {name!r}", argument="curve")
        if name in found:
            raise UserError(f"{name} has two curves; join their values by commas", argument="curve")
        low, high = schema.bounds(name)
        try:
            points = [float(value) for value in values.split(",")] if values else []
        except ValueError:
            raise UserError(
                f"expected numbers joined by commas after {name}=, not {values!r}", argument="curve"
            ) from None
        points = points or [low + (high - low) * k / (CURVE_POINTS + 1) for k in range(1, CURVE_POINTS + 1)]
        found[name] = {}
        for value in points:
            checked(schema, {name: value}, "curve")
            found[name][f"{name}={value:.4g}"] = {name: float(f"{value:.4g}")}
    return found


def parse_held(graph: CausalGraph, hold: Sequence[str], do: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Attributes that keep their values; refuses one that no intervention would change."""
    names = [hold] if isinstance(hold, str) else list(hold)
    effects = set().union(*(graph.descendants(values) - set(values) for values in do.values()))
    for name in names:
        if name not in graph.names:
            raise UserError(unknown_name("attribute", name, graph.names), argument="hold")
        if name not in effects:
            known = ", ".join(sorted(effects)) or "nothing"
            raise UserError(
                f"no intervention changes {name}, so there is nothing to hold; by the causal graph they change {known}",
                argument="hold",
            )
    require_different(names, "hold")
    return names


def parse_strengths(strengths: Sequence[float]) -> list[float]:
    """Strengths other than 1."""
    for strength in strengths:
        if not 0 < strength <= STRONGEST:
            raise UserError(f"expected numbers above 0 and up to {STRONGEST:g}, not {strength:g}", argument="strengths")
        if strength == 1:
            raise UserError("full strength, 1, is always measured; give others", argument="strengths")
    require_different(strengths, "strengths")
    return sorted(map(float, strengths))


def parse_adjusted(data: ImageData, split: str, adjust: Sequence[str]) -> dict[str, Tensor]:
    """The columns of the data, beside the model's attributes, that are adjusted for."""
    names = [adjust] if isinstance(adjust, str) else list(adjust)
    require_different(names, "adjust")
    known = other_columns(data, split) if names else {}
    for name in names:
        if name in data.schema.names:
            raise UserError(
                f"{name} is an attribute of the model: it is adjusted for already wherever the causal graph allows it",
                argument="adjust",
            )
        if name == getattr(data, "target", None):
            raise UserError(
                f"{name} is the label, which the attributes may cause; it cannot be adjusted for", argument="adjust"
            )
        if name not in known:
            raise UserError(unknown_name("column", name, known), argument="adjust")
    return {name: known[name] for name in names}


def parse_local(local: Sequence[int], images: int, plan: Plan) -> list[int]:
    """Numbers of images that are explained one by one."""
    most = min(images, plan.explain_count)
    for number in local:
        if not 0 <= number < most:
            raise UserError(f"expected numbers of images from 0 to {most - 1}, not {number}", argument="local")
    if local and not plan.explain:
        raise UserError("explaining an image needs attributes to explain it by", argument="explain")
    require_different(local, "local")
    return list(local)


def check_intervention_work(
    schema: Schema, columns: Mapping[str, Tensor], plan: Plan, members: Mapping[str, Tensor]
) -> None:
    """Refuses a cohort without images, an intervention that changes none, and a cohort that no intervention changes."""
    for among, chosen in members.items():
        if not chosen.any():
            raise UserError(f"none of the {count_of(len(chosen), 'image')} has {among}", argument="among")
    changed = {}
    for name, do in plan.do.items():
        values = schema.check_do(do).items()
        changed[name] = torch.stack([columns[k].to(value.dtype) != value.cpu() for k, value in values]).any(dim=0)
        changed[name] |= torch.tensor(name in plan.start)  # both values are asked of all images
        if not changed[name].any():
            number = count_of(len(changed[name]), "image")
            if name in plan.shifts:
                raise UserError(f"{name} takes all {number} out of the range of the training images", argument="do")
            raise UserError(f"all {number} have {name} already, so it changes nothing", argument="do")
    for among, chosen in members.items():
        if not any((which & chosen).any() for which in changed.values()):
            number = count_of(int(chosen.sum()), "image")
            raise UserError(f"no intervention changes any of the {number} with {among}", argument="among")
