"""What an audit asks of a model: which attributes each image should have under each intervention, and of which images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cfgen.audit.explained import Line
from cfgen.audit.plan import Plan, held
from cfgen.contracts import CausalImageMechanism
from cfgen.counterfactual import Asked, asked_of
from lightning_modules import ImageMechanismModule

__all__ = ["asked_already", "do_column", "intervention_asked", "interventions_asked", "start_asked", "start_column"]


def do_column(name: str) -> str:
    """The table's column of an intervention, which also is its name in the sweep."""
    return f"do/{name}"


def start_column(name: str) -> str:
    """The table's column of the value that a contrast starts from."""
    return f"start/{name}"


@torch.inference_mode()
def interventions_asked(
    mechanism: ImageMechanismModule, columns: Mapping[str, Tensor], plan: Plan, lines: Sequence[Line]
) -> dict[str, Asked]:
    """`do/NAME` of the images that it changes, `start/NAME` of all under a contrast, `dose/NAME/S` of the first of these, and
    `flip/LINE` of those that are explained and that no `do/NAME` asks the very same of."""
    asked = {do_column(name): intervention_asked(mechanism, columns, plan, name) for name in plan.do}
    asked |= {start_column(name): start_asked(mechanism, columns, plan, name) for name in plan.start}
    a = mechanism.scm.schema.encode({name: columns[name].to(mechanism.device) for name in mechanism.scm.schema.names})
    for name in plan.do:
        full = asked[do_column(name)]
        first = full.of & (torch.arange(len(full.of)) < plan.explain_count)
        for strength in plan.strengths:
            asked[f"dose/{name}/{strength:g}"] = Asked(a + strength * (full.a_c - a), first)
    for line in lines:
        of = line.of.clone()
        for label, same in asked_already(plan, mechanism, line).items():
            of &= ~(same & asked[do_column(label)].of)
        a_c = asked_of(mechanism, columns, {line.attribute: line.wanted.to(mechanism.device)}, plan.seed).a_c
        last = int(of.nonzero()[-1]) + 1 if of.any() else 0
        asked[f"flip/{line.name}"] = Asked(a_c[:last].clone(), of)  # nothing is asked of later rows
    return asked


def intervention_asked(
    mechanism: ImageMechanismModule, columns: Mapping[str, Tensor], plan: Plan, name: str, changed_only: bool = True
) -> Asked:
    """An intervention of the plan: what is held keeps each image's own value."""
    do = plan.do[name]
    own = {kept: columns[kept].to(mechanism.device) for kept in held(plan, mechanism.scm.graph, do)}
    asked = asked_of(mechanism, columns, {**do, **own}, plan.seed)
    if not changed_only or name in plan.start:  # both values of a contrast are asked of all images
        return asked
    wanted = mechanism.scm.schema.check_do(do)
    # in one precision: a shift leaves images as they are to the bit
    of = torch.stack([columns[key].cpu().to(value.dtype) != value.cpu() for key, value in wanted.items()]).any(dim=0)
    return Asked(asked.a_c, of)


def start_asked(mechanism: ImageMechanismModule, columns: Mapping[str, Tensor], plan: Plan, name: str) -> Asked:
    """The value that a contrast of the plan starts from, of all images."""
    return intervention_asked(mechanism, columns, replace(plan, do={name: plan.start[name]}), name, changed_only=False)


def asked_already(plan: Plan, mechanism: CausalImageMechanism, line: Line) -> dict[str, Tensor]:
    """The plan's interventions on that attribute alone, and of which images (N,) the line asks for the very same."""
    schema, graph = mechanism.scm.schema, mechanism.scm.graph
    return {
        label: line.of & (line.wanted == schema.check_do(do)[line.attribute].cpu())
        for label, do in plan.do.items()
        if list(do) == [line.attribute] and not held(plan, graph, do)
    }
