"""What is lost on the way through a model and back: MSE(x, x_r), MAE(z, z_r) (Table 2) and composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cfgen.contracts import State
from cfgen.counterfactual import Swept
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import LEVELS, Description, Metric, Values, levels_apart
from cfgen.evaluation.subject import Subject
from lightning_modules import ImageMechanismModule

__all__ = ["Cycles"]

CYCLES = 10
PRIOR, BACK, CYCLE = 16, 17, 20  # streams of an image's noise: of its latent, of its return, and of its second cycle on
NETWORK = "/network"
COMPOSITION = "Composition: what null interventions change, 0 to 255"


class Cycles(Metric):
    """For each image:

    `mse_x`: mean (x - x_r)^2 of pixels in [0, 1], with x_r = G(E(x,a),a);
    `mae_z`: mean |z - E(G(z,a),a)| of a latent z from the prior, with the image's attributes; for models with such a z;
    `composition_l1/n`: mean |x - x'| of pixels in 0..255, where x' is x after n null interventions, each of the one before
    (Monteiro et al., 2023): what it costs to ask for nothing.

    Of a model whose state keeps what its network does not draw, such as the noise of the pixels, both are 0; beside them stand
    `mse_x/network` and `composition_l1/n/network`, of the network alone.
    """

    name = "cycles"
    title = "Reconstruction and quality (Table 2)"
    unit = ""
    place = 50

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        self.latent: Any = getattr(self.mechanism, "latent", None)
        drawn = getattr(type(self.mechanism), "own_reconstruction", None)
        self.keeps = drawn not in (None, ImageMechanismModule.own_reconstruction)

    def descriptions(self) -> dict[str, Description]:
        names = ["mse_x", *(["mae_z"] if self.latent is not None else [])]
        composition = self.describe(unit=LEVELS, group=COMPOSITION, direction=-1)
        found = {name: self.describe(direction=-1) for name in names}
        found |= {f"composition_l1/{n}": composition for n in (1, CYCLES)}
        if self.keeps:
            found |= {f"{name}{NETWORK}": found[name] for name in found if name != "mae_z"}
        return found

    def update(self, batch: Swept) -> Values:
        a = batch.a
        found = self.cycled(batch, batch.x_r, self.mechanism.decode)
        if self.keeps:
            own = self.cycled(batch, batch.own_x_r, self.mechanism.own_reconstruction)
            found |= {f"{name}{NETWORK}": values for name, values in own.items()}
        if self.latent is not None:
            state = self.mechanism.prior(a, batch.noise(PRIOR))
            back = self.mechanism.abduct(self.mechanism.decode(state, a), a, batch.noise(BACK))
            found["mae_z"] = (self.latent(state) - self.latent(back)).abs().flatten(1).mean(dim=1)
        return found

    def cycled(self, batch: Swept, current: Tensor, draw: Callable[[State, Tensor], Tensor]) -> dict[str, Tensor]:
        """The scores of x_r, `current`, and of what further cycles make of it."""
        x, a = batch.x, batch.a
        found = {"mse_x": (current - x).square().flatten(1).mean(dim=1), "composition_l1/1": levels_apart(current, x)}
        for cycle in range(2, CYCLES + 1):
            current = draw(self.mechanism.abduct(current, a, batch.noise(CYCLE + cycle)), a)
        return found | {f"composition_l1/{CYCLES}": levels_apart(current, x)}
