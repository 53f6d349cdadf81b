"""StyleALI: CondALI with a style-based generator (Section 3, "Style-Based Generator")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cfgen.contracts import Noise, State
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
        generator: always `style`, in which the attributes reach every layer as styles.
        options: the others of CondALI.
    """

    noise: Tensor
    generators: ClassVar[Mapping[str, Callable[..., nn.Module]]] = {"style": StyleGenerator}

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        mapping_layers: int = 8,
        mapping_rate: float = 0.01,
        generator_rate: float = 1.0,
        generator: str = "style",
        **options: Any,
    ) -> None:
        if options.get("modulated"):
            raise UserError("this is CondALI's: StyleALI's attributes reach every layer as styles already", "modulated")
        self.style = {"mapping_layers": mapping_layers, "mapping_rate": mapping_rate}
        super().__init__(scm, image_shape, generator=generator, **options)
        self.rates[self.G] = generator_rate

    def make_generator(self, name: str, width: float) -> nn.Module:
        sizes = (self.image_shape, self.scm.schema.size, self.latent_dim, width)
        generator: Any = self.generators[name](*sizes, **self.style)
        fixed = torch.randn(1, generator.noise_size, generator=torch.Generator().manual_seed(0))
        self.register_buffer("noise", fixed, persistent=False)
        return generator

    def prior(self, a: Tensor, noise: Noise | None = None) -> State:
        return super().prior(a, noise), self.gaussian(len(a), self.noise.shape[1], noise=noise)

    def latent(self, state: State) -> Tensor:
        return state[0]

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> State:
        return super().abduct(x, a, noise), self.noise.to(x.dtype).expand(len(x), -1)

    def decode(self, z: State, a: Tensor) -> Tensor:
        latent, noise = z
        return self.averaged("G")(latent, a, noise)
