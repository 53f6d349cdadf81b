"""The questions of an audit as a user gives them, checked before any image is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Columns, Continuous, Schema, unknown_name
from cfgen.audit.questions import EVERYONE, Group
from cfgen.command_line import parse_assignments
from cfgen.contracts import ImageData, other_columns
from cfgen.errors import UserError, require_different
from cfgen.interventions import Intervention, Set, parse_intervention
from cfgen.reporting.numbers import count_of
from cfgen.scm.graph import CausalGraph

Assignments = Sequence[Mapping[str, Any] | str]
CURVE_POINTS = 7  # over the range of an attribute, its ends left out


def parse_interventions(schema: Schema, do: Assignments, optional: bool = False) -> list[Intervention]:
    """The interventions, not yet bound; none only where they are `optional`."""
    interventions = [parse_intervention(one) for one in do]
    if not interventions and not optional:
        raise UserError("expected at least one intervention, such as Young=0", argument="do")
    for one in interventions:
        one.bind(schema, lambda name: 1.0)  # refuses unknown names and values before the data is read
    different = [replace(one, name="") for one in interventions]  # type: ignore[type-var]  # all are dataclasses
    require_different(different, "do", names=[one.name for one in interventions])
    return interventions


def parse_curves(schema: Schema, curves: Sequence[str]) -> dict[str, list[Intervention]]:
    """For each continuous attribute its interventions: at the values given, or at seven over its range."""
    found: dict[str, list[Intervention]] = {}
    for text in curves:
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
        for value in points:
            Set("", {name: value}).bind(schema, argument="curve")
        texts = dict.fromkeys(f"{value:.4g}" for value in points)  # each value once
        found[name] = [Set(f"{name}={text}", {name: float(text)}) for text in texts]
    return found


def parse_held(graph: CausalGraph, hold: Sequence[str], interventions: Sequence[Intervention]) -> tuple[str, ...]:
    """Attributes that keep their values; refuses one that no intervention would change."""
    effects = set().union(*(graph.descendants(one.attributes) - set(one.attributes) for one in interventions))
    for name in hold:
        if name not in graph.names:
            raise UserError(unknown_name("attribute", name, graph.names), argument="hold")
        if name not in effects:
            known = ", ".join(sorted(effects)) or "nothing"
            raise UserError(
                f"no intervention changes {name}, so there is nothing to hold; by the causal graph they change {known}",
                argument="hold",
            )
    return tuple(hold)


def parse_cohorts(schema: Schema, among: Assignments) -> dict[str, Set]:
    """Cohorts by name, each with the values that its images have."""
    cohorts: list[tuple[str, Set]] = []
    for one in among:
        values = parse_assignments(one, "among") if isinstance(one, str) else dict(one)
        name = one if isinstance(one, str) else ",".join(f"{key}={value}" for key, value in one.items())
        cohorts.append((name, Set("", values).bind(schema, argument="among")))
        for key in values:
            if isinstance(schema[key], Continuous):
                raise UserError(
                    f"{key} is continuous; choose images by binary and categorical attributes", argument="among"
                )
    require_different([values for _, values in cohorts], "among", names=[name for name, _ in cohorts])
    return dict(cohorts)


def cohorts_of(cohorts: Mapping[str, Set], columns: Columns, n: int) -> tuple[Group, ...]:
    """All images, and those of each cohort; refuses a cohort without images."""
    groups = [Group(EVERYONE, torch.ones(n, dtype=torch.bool))]
    for name, values in cohorts.items():
        members = torch.stack([columns[key] == value for key, value in values.values.items()]).all(dim=0)
        if not members.any():
            raise UserError(f"none of the {count_of(n, 'image')} has {name}", argument="among")
        groups.append(Group(name, members, values.attributes))
    return tuple(groups)


def check_targets(interventions: Sequence[Intervention], columns: Columns, cohorts: Sequence[Group]) -> None:
    """Refuses an intervention that changes no image, and a cohort that no intervention changes."""
    targets = {}
    for one in interventions:
        targets[one.name] = torch.from_numpy(one.target(columns))
        if not targets[one.name].any():
            raise UserError(one.without_target(count_of(len(targets[one.name]), "image")), argument="do")
    for cohort in cohorts:
        if not any((target & cohort.members).any() for target in targets.values()):
            number = count_of(int(cohort.members.sum()), "image")
            raise UserError(f"no intervention changes any of the {number} with {cohort.name}", argument="among")


def parse_explained(schema: Schema, explain: str | Sequence[str]) -> list[str]:
    """The attributes to rank by importance."""
    if explain == "all":
        return schema.names
    for name in explain:
        if name not in schema.names:
            raise UserError(unknown_name("attribute", name, schema.names), argument="explain")
    return list(explain)


def parse_local(local: Sequence[int], n: int, explained: Sequence[str]) -> tuple[int, ...]:
    """Numbers of images that are explained one by one."""
    for number in local:
        if not 0 <= number < n:
            raise UserError(f"expected numbers of images from 0 to {n - 1}, not {number}", argument="local")
    if local and not explained:
        raise UserError("explaining an image needs attributes to explain it by", argument="explain")
    return tuple(local)


def parse_adjusted(data: ImageData, split: str, adjust: Sequence[str]) -> dict[str, Tensor]:
    """The columns of the data, apart from the model's attributes, to adjust for."""
    known = other_columns(data, split) if adjust else {}
    for name in adjust:
        if name in data.schema.names:
            raise UserError(
                f"{name} is an attribute of the model: it is adjusted for already wherever the causal graph allows it",
                argument="adjust",
            )
        if name == getattr(data, "target", None):
            raise UserError(
                f"{name} is the label, which the attributes may cause; do not adjust for it", argument="adjust"
            )
        if name not in known:
            raise UserError(unknown_name("column", name, known), argument="adjust")
    return {name: known[name] for name in adjust}
