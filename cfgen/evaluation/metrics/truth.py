"""Distance from the true counterfactual image, on data that knows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from cfgen.attributes import Binary, Columns, Schema
from cfgen.counterfactual import as_unit_float
from cfgen.evaluation.metrics.asked import asked_vectors
from cfgen.evaluation.metrics.batches import batches, levels_apart
from lightning_modules import ImageMechanismModule

__all__ = ["KnowsTruth", "true_counterfactual_errors", "true_images"]


@runtime_checkable
class KnowsTruth(Protocol):
    """A synthetic data set, such as `Faces`, that can say what an image would have been."""

    def true_attributes(self, split: str, rows: Any, do: Mapping[str, Any]) -> dict[str, Tensor]: ...

    def true_counterfactual(self, split: str, rows: Any, a_c: Tensor) -> Tensor: ...


def true_images(data: KnowsTruth, schema: Schema, split: str, rows: Tensor, do: Mapping[str, Any]) -> Tensor:
    """What these rows would truly have looked like under `do`, its effects included: bytes, (N, C, H, W)."""
    attributes = data.true_attributes(split, rows, do)
    a_c = schema.encode({name: attributes[name].to(schema.low.device) for name in schema.names})
    return data.true_counterfactual(split, rows, a_c.cpu())


@torch.inference_mode()
def true_counterfactual_errors(
    mechanism: ImageMechanismModule, data: KnowsTruth, split: str, x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image and binary attribute k under do(k = the other value):

    `true_error/do(k)`: mean |x_c - truth| of pixels in 0..255;
    `true_error/effect(k)`: mean |(x_c - x_r) - (truth - x)|, the error of the change alone, whatever the reconstruction lost;
    `true_error/untouched(k)`: mean |x - truth| of the image left as it is, what doing nothing scores on both;
    `true_error/changed(k)`: of the pixels that truly change (by more than 8 levels), the share whose x_c is nearer to the
    truth than to the image left as it is: 1 changes all that should change, 0 nothing (NaN where nothing should).

    x_c is the model's alone: what follows from k is what its own SCM says.
    """
    scm = mechanism.scm
    device = scm.schema.low.device
    binary = [name for name, attribute in scm.schema.attributes.items() if isinstance(attribute, Binary)]
    asked = asked_vectors(scm, columns, seed)  # of a binary attribute the other value, as below
    for rows, images, a in batches(scm.schema, x, columns):
        z = mechanism.abduct(images, a)
        x_r = mechanism.decode(z, a)
        part: dict[str, Tensor] = {}
        for name in binary:
            other = 1 - columns[name][rows]
            truth = as_unit_float(true_images(data, scm.schema, split, rows, {name: other})).to(device)
            x_c = mechanism.decode(z, asked[name][rows])
            moves = (truth - images).abs() > 8.5 / 255  # of whole levels, whatever the rounding
            nearer = ((x_c - truth).abs() < (x_c - images).abs()) & moves
            part |= {
                f"true_error/do({name})": levels_apart(x_c, truth),
                f"true_error/effect({name})": levels_apart(x_c - x_r, truth - images),
                f"true_error/untouched({name})": levels_apart(images, truth),
                f"true_error/changed({name})": nearer.flatten(1).sum(dim=1) / moves.flatten(1).sum(dim=1),
            }
        yield part
