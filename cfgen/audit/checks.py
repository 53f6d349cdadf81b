"""What an audit is asked for, checked and refused before any image is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Binary, Continuous, Schema, unknown_name
from cfgen.audit.plan import Plan
from cfgen.audit.run import readable
from cfgen.checkpoints import load_module
from cfgen.command_line import parse_assignments
from cfgen.contracts import ReadsAttributes
from cfgen.errors import UserError
from cfgen.reporting.numbers import count_of
from lightning_modules import ImageMechanismModule, Predictor

__all__ = [
    "check_intervention_work",
    "check_numbers",
    "fitting_predictor",
    "parse_cohorts",
    "parse_explained",
    "parse_interventions",
]

Assignments = Sequence[Mapping[str, Any] | str]


def check_numbers(*, threshold: float, seed: int, **counts: int | None) -> None:
    """Refuses a threshold that is no probability, a negative seed, and counts below 1."""
    if not 0 < threshold < 1:
        raise UserError(f"expected a probability between 0 and 1, not {threshold}", argument="threshold")
    if seed < 0:
        raise UserError(f"expected a whole number of 0 or more, not {seed}", argument="seed")
    for name, number in counts.items():
        if number is not None and number < 1:
            raise UserError(f"expected a whole number of 1 or more, not {number}", argument=name)


def parse_interventions(schema: Schema, do: Assignments) -> dict[str, dict[str, Any]]:
    """Interventions by name, which is the text they are written in."""
    interventions = by_text(do, "do")
    if not interventions:
        raise UserError("expected at least one intervention, such as Young=0", argument="do")
    for values in interventions.values():
        checked(schema, values, "do")
    return interventions


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


def by_text(assignments: Assignments, argument: str) -> dict[str, dict[str, Any]]:
    """Assignments by the text they are written in, given as text or as mappings.

    >>> by_text(["Bangs=1", {"Black_Hair": 1, "Pale_Skin": 1}], "do")
    {'Bangs=1': {'Bangs': 1}, 'Black_Hair=1,Pale_Skin=1': {'Black_Hair': 1, 'Pale_Skin': 1}}
    """
    several = [assignments] if isinstance(assignments, (str, Mapping)) else assignments
    named: dict[str, dict[str, Any]] = {}
    for one in several:
        if isinstance(one, str):
            named[one] = parse_assignments(one, argument)
        elif isinstance(one, Mapping) and one:
            named[",".join(f"{name}={value}" for name, value in one.items())] = dict(one)
        else:
            raise UserError(f"expected text like Young=0, or {{'Young': 0}}, not {one!r}", argument=argument)
    return named


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
    """The binary attributes whose importance is wanted."""
    binary = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Binary)]
    if explain == "all":
        return binary
    names = [explain] if isinstance(explain, str) else list(explain)
    for name in names:
        if name not in binary:
            raise UserError(unknown_name("binary attribute", name, binary), argument="explain")
    return list(dict.fromkeys(names))


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
        changed[name] = torch.stack([columns[k] != value.cpu() for k, value in values]).any(dim=0)
        if not changed[name].any():
            number = count_of(len(changed[name]), "image")
            raise UserError(f"all {number} have {name} already, so it changes nothing", argument="do")
    for among, chosen in members.items():
        if not any((which & chosen).any() for which in changed.values()):
            number = count_of(int(chosen.sum()), "image")
            raise UserError(f"no intervention changes any of the {number} with {among}", argument="among")


def fitting_predictor(
    predictor: str | Path | ReadsAttributes | None, mechanism: ImageMechanismModule, plan: Plan
) -> ReadsAttributes | None:
    """The predictor, if it can read the model's images and something that is asked of them."""
    if predictor is None:
        return None
    if isinstance(predictor, (str, Path)):
        try:
            predictor = load_module(predictor, Predictor).eval()
        except UserError as error:
            raise UserError(str(error), argument="predictor") from error
    theirs, ours = tuple(predictor.image_shape), tuple(mechanism.image_shape)
    if theirs != ours:
        raise UserError(
            f"it reads images of shape {theirs}, and the model makes images of {ours}", argument="predictor"
        )
    if not readable(mechanism.scm.schema, predictor, plan):
        known = (
            ", ".join(name for name in predictor.schema.names if name not in predictor.schema.continuous)
            or "no attribute"
        )
        raise UserError(f"it decides {known}, and none of the interventions is about these alone", argument="predictor")
    return predictor
