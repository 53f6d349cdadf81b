"""Commutativity: two interventions in either order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.evaluation.metrics.asked import asked_values, asked_vectors
from cfgen.evaluation.metrics.batches import batches, levels_apart
from lightning_modules import ImageMechanismModule

__all__ = ["commutativity", "intervention_pairs"]

ALL_PAIRS = 6  # attributes, up to which every pair is tried


def intervention_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair of at most six attributes; of more, each with the next one, the last with the first."""
    if len(names) <= ALL_PAIRS:
        return list(combinations(names, 2))
    return list(zip(names, [*names[1:], names[0]], strict=True))


@torch.inference_mode()
def commutativity(
    mechanism: ImageMechanismModule, x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image and pair of attributes, `commutativity_l1/do(k),do(j)`: mean |x_kj - x_jk| of pixels in 0..255, where

        x_k  = G(E(x, a), a_k),         a_k under do(k = the value asked),
        x_kj = G(E(x_k, a_k), a_kj),    a_kj under both: the first intervention stays in force,

    and x_jk is made in the other order.  Both end with the same attributes, so exact counterfactuals are the same image.
    """
    scm = mechanism.scm
    device = scm.schema.low.device
    columns = {name: column.to(device) for name, column in columns.items()}
    asked, one = asked_values(columns, scm.schema, seed), asked_vectors(scm, columns, seed)
    every = scm.schema.encode(columns)
    both = {
        (k, j): scm.counterfactual_vector(every, {k: asked[k], j: asked[j]}, torch.Generator(device).manual_seed(seed))
        for k, j in intervention_pairs(scm.schema.names)
    }
    for rows, images, a in batches(scm.schema, x, columns):
        z = mechanism.abduct(images, a)
        after = {k: mechanism.abduct(mechanism.decode(z, a_k[rows]), a_k[rows]) for k, a_k in one.items()}
        part = {}
        for (k, j), changed in both.items():
            x_kj, x_jk = (mechanism.decode(after[first], changed[rows]) for first in (k, j))
            part[f"commutativity_l1/do({k}),do({j})"] = levels_apart(x_kj, x_jk)
        yield part
