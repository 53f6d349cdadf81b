"""Reversibility: an intervention and the one that undoes it (Monteiro et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.evaluation.metrics.asked import asked_vectors
from cfgen.evaluation.metrics.batches import batches, levels_apart
from lightning_modules import ImageMechanismModule

__all__ = ["reversibility"]


@torch.inference_mode()
def reversibility(
    mechanism: ImageMechanismModule, x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image and attribute k, `reversibility_l1/do(k)`: mean |x - x''| of pixels in 0..255, where

        x_c = G(E(x, a), a_c),  a_c under do(k = the value asked),     x'' = G(E(x_c, a_c), a).

    An exact counterfactual comes back as the image it was made from.  A way there and back that asks for nothing costs
    `composition_l1/2`, which lies between those of 1 and 10 cycles: only what is above is the intervention's.
    """
    scm = mechanism.scm
    vectors = asked_vectors(scm, columns, seed)
    for rows, images, a in batches(scm.schema, x, columns):
        z = mechanism.abduct(images, a)
        part = {}
        for k, changed in vectors.items():
            a_c = changed[rows]
            back = mechanism.decode(mechanism.abduct(mechanism.decode(z, a_c), a_c), a)
            part[f"reversibility_l1/do({k})"] = levels_apart(back, images)
        yield part
