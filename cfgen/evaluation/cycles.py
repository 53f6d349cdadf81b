"""What is lost on the way through a model and back: MSE(x, x_r), MAE(z, z_r) (Table 2) and composition."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.evaluation.batches import batches
from lightning_modules import ImageMechanismModule

__all__ = ["cycles"]

CYCLES = 10


@torch.inference_mode()
def cycles(mechanism: ImageMechanismModule, x: Tensor, columns: Columns, seed: int = 0) -> dict[str, float]:
    """Means over images:

    `mse_x`: (x - x_r)^2 of pixels in [0, 1], with x_r = G(E(x,a),a);
    `mae_z`: |z - E(G(z,a),a)| of latents z from the prior, one for each image's attributes; for models with such a z;
    `composition_l1/n`: |x - x'| of pixels in 0..255, where x' is x after n null interventions, each of the one before.
    """
    sums: dict[str, float] = {}

    def add(name: str, values: Tensor) -> None:
        sums[name] = sums.get(name, 0.0) + values.flatten(1).mean(dim=1).sum().item()

    latent: Any = getattr(mechanism, "latent", None)
    torch.manual_seed(seed)
    for _, images, a in batches(mechanism.scm.schema, x, columns):
        current = images
        for cycle in range(1, CYCLES + 1):
            current = mechanism.decode(mechanism.abduct(current, a), a)
            if cycle in (1, CYCLES):
                add(f"composition_l1/{cycle}", 255 * (current - images).abs())
            if cycle == 1:
                add("mse_x", (current - images).square())
        if latent is not None:
            state = mechanism.prior(len(images))
            back = mechanism.abduct(mechanism.decode(state, a), a)
            add("mae_z", (latent(state) - latent(back)).abs())
    return {name: total / len(x) for name, total in sorted(sums.items())}
