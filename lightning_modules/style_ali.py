"""StyleALI: CondALI with a style-based generator (Section 3, "Style-Based Generator")."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.counterfactual import State
from cfgen.errors import UserError
from cfgen.networks import StyleGenerator
from lightning_modules.cond_ali import CondALI

__all__ = ["StyleALI"]


class StyleALI(CondALI):
    """Eq. 2 with the style-based G(z, a, noise); all else is CondALI's.

    The noise inputs belong to the exogenous state beside z, so a counterfactual and its reconstruction share them.  An
    image does not say which noise it was made with: abduction gives every image the same, drawn once for the model.

    The generator learns slowly by design: its weights have unit variance, whatever their layer, so a step of Adam moves
    them by a small share, and those of the mapping network by a hundredth of that.  In a few thousand steps the mapping
    would stay the random one it starts as, and the attributes, which pass through it, without effect: raise the rates.

    Args:
        scm: the attributes and their causal graph; comes from the data.
        image_shape: (channels, height, width); comes from the data.
        mapping_layers: how many dense layers lead from (z, a) to the styles.
        mapping_rate: multiplies the learning rate of those layers.
        generator_rate: multiplies the learning rate of all of G.
        options: those of CondALI, but for `modulated`: here the attributes reach every layer as styles.
    """

    noise: Tensor

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        mapping_layers: int = 8,
        mapping_rate: float = 0.01,
        generator_rate: float = 1.0,
        **options: Any,
    ) -> None:
        if options.get("modulated"):
            raise UserError("modulated is CondALI's: StyleALI's attributes reach every layer as styles already")
        self.style_generator = partial(StyleGenerator, mapping_layers=mapping_layers, mapping_rate=mapping_rate)
        super().__init__(scm, image_shape, **options)
        self.rates[self.G] = generator_rate

    def make_generator(self, width: float) -> nn.Module:
        generator = self.style_generator(self.image_shape, self.scm.schema.size, self.latent_dim, width)
        fixed = torch.randn(1, generator.noise_size, generator=torch.Generator().manual_seed(0))
        self.register_buffer("noise", fixed, persistent=False)
        return generator

    def prior(self, rows: int) -> State:
        return super().prior(rows), self.gaussian(rows, self.noise.shape[1])

    def latent(self, state: State) -> Tensor:
        return state[0]

    def abduct(self, x: Tensor, a: Tensor) -> State:
        return super().abduct(x, a), self.noise.to(x.dtype).expand(len(x), -1)

    def decode(self, z: State, a: Tensor) -> Tensor:
        latent, noise = z
        return self.averaged("G")(latent, a, noise)
