"""What is lost on the way through a model and back: MSE(x, x_r), MAE(z, z_r) (Table 2) and composition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.evaluation.metrics.batches import batches, levels_apart
from lightning_modules import ImageMechanismModule

__all__ = ["cycles"]

CYCLES = 10


@torch.inference_mode()
def cycles(mechanism: ImageMechanismModule, x: Tensor, columns: Columns, seed: int = 0) -> Iterator[dict[str, Tensor]]:
    """For each image:

    `mse_x`: mean (x - x_r)^2 of pixels in [0, 1], with x_r = G(E(x,a),a);
    `mae_z`: mean |z - E(G(z,a),a)| of a latent z from the prior, with the image's attributes; for models with such a z;
    `composition_l1/n`: mean |x - x'| of pixels in 0..255, where x' is x after n null interventions, each of the one before
    (Monteiro et al., 2023): what it costs to ask for nothing.
    """
    latent: Any = getattr(mechanism, "latent", None)
    torch.manual_seed(seed)
    for _, images, a in batches(mechanism.scm.schema, x, columns):
        part = {}
        current = images
        for cycle in range(1, CYCLES + 1):
            current = mechanism.decode(mechanism.abduct(current, a), a)
            if cycle in (1, CYCLES):
                part[f"composition_l1/{cycle}"] = levels_apart(current, images)
            if cycle == 1:
                part["mse_x"] = (current - images).square().flatten(1).mean(dim=1)
        if latent is not None:
            state = mechanism.prior(len(images))
            back = mechanism.abduct(mechanism.decode(state, a), a)
            part["mae_z"] = (latent(state) - latent(back)).abs().flatten(1).mean(dim=1)
        yield part
