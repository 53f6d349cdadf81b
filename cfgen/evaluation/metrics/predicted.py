"""Effectiveness as a predictor sees it: does it read the attributes that a counterfactual should have?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from cfgen.attributes import Columns, Continuous, Schema
from cfgen.errors import UserError
from cfgen.evaluation.metrics.asked import asked_values, asked_vectors
from cfgen.evaluation.metrics.batches import batches
from lightning_modules import ImageMechanismModule

__all__ = ["ReadsAttributes", "predicted"]


class ReadsAttributes(Protocol):
    """A predictor: images (N, C, H, W) in [0, 1] -> columns in real units (the position of a categorical value)."""

    schema: Schema

    def read(self, x: Tensor) -> Mapping[str, Tensor]: ...


@torch.inference_mode()
def predicted(
    mechanism: ImageMechanismModule, reader: ReadsAttributes, x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image, intervention and attribute j that the predictor reads:

    `predicted/do(k)/j`: under do(k = the value asked), |read - target| of a continuous j, or 1 where the value read is the
    target and 0 where it is not; the target is the SCM's counterfactual value of j;
    `predicted/floor/j`: the same of the real image against its own value, the predictor's own error;
    `predicted/untouched/j`: of the real image against the value asked of j, what doing nothing scores.
    """
    scm = mechanism.scm
    names = common_attributes(scm.schema, reader.schema)
    device = scm.schema.low.device
    columns = {name: column.to(device) for name, column in columns.items()}
    vectors = asked_vectors(scm, columns, seed)
    targets = {"floor": columns, "untouched": asked_values(columns, scm.schema, seed)}
    targets |= {f"do({k})": scm.schema.decode(a_c) for k, a_c in vectors.items()}
    for rows, images, a in batches(scm.schema, x, columns):
        z = mechanism.abduct(images, a)
        read = {f"do({k})": reader.read(mechanism.decode(z, a_c[rows])) for k, a_c in vectors.items()}
        read["floor"] = read["untouched"] = reader.read(images)
        yield {
            f"predicted/{do}/{j}": agreement(scm.schema, j, read[do][j], target[j][rows])
            for do, target in targets.items()
            for j in names
        }


def common_attributes(schema: Schema, known: Schema) -> list[str]:
    """Those that both know as the same thing; the ranges of continuous ones may differ."""
    common = []
    for name in schema.names:
        ours, theirs = schema[name], known.attributes.get(name)
        if ours == theirs or (isinstance(ours, Continuous) and isinstance(theirs, Continuous)):
            common.append(name)
    if not common:
        raise UserError(
            f"--predictor reads {', '.join(known.names)}, and the run has {', '.join(schema.names)}: nothing in common"
        )
    return common


def agreement(schema: Schema, name: str, read: Tensor, target: Tensor) -> Tensor:
    if isinstance(schema[name], Continuous):
        return (read - target).abs()
    return (read.round() == target).float()
