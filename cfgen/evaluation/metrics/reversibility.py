"""Reversibility: an intervention and the one that undoes it (Monteiro et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from cfgen.counterfactual import Swept
from cfgen.evaluation.metrics.base import LEVELS, Cell, Description, Metric, Values, levels_apart
from cfgen.metrics.asked import do_name

__all__ = ["Reversibility"]


class Reversibility(Metric):
    """For each image and attribute k, `reversibility_l1/do(k)`: mean |x - x''| of pixels in 0..255, where

        x_c = G(E(x, a), a_c),  a_c under do(k = the value asked),     x'' = G(E(x_c, a_c), a).

    An exact counterfactual comes back as the image it was made from.  A way there and back that asks for nothing costs
    `composition_l1/2`, which lies between those of 1 and 10 cycles: only what is above is the intervention's.
    """

    name = "reversibility"
    title = "Reversibility: what an intervention and its undoing change, 0 to 255"
    unit = LEVELS
    place = 60

    def descriptions(self) -> dict[str, Description]:
        return {
            f"reversibility_l1/{do_name(k)}": self.describe(
                direction=-1, attribute=k, cell=Cell("Single interventions", k, "reversibility")
            )
            for k in self.schema.names
        }

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.schema.names)

    def update(self, batch: Swept) -> Values:
        return {
            f"reversibility_l1/{do}": levels_apart(self.mechanism.decode(batch.z_c(do), batch.a), batch.x)
            for do in map(do_name, self.schema.names)
        }
