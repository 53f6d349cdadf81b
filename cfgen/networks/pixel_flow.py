"""DeepSCM's preprocessing flow: 8-bit pixels, dequantised, to the space in which a Gaussian describes them (Eq. A.4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions.transforms import AffineTransform, ComposeTransform, SigmoidTransform, Transform

from cfgen.attributes import unknown_name
from cfgen.errors import UserError

__all__ = ["PixelFlow"]

LEVELS = 256
ALPHA = 0.05  # keeps black away from 0, whose logit is infinite


class PixelFlow:
    """Between images in [0, 1], grey levels v in [0, 256) and unconstrained pixels y.

    A grey level n stands for the interval [n, n + 1): `dequantised` draws a point of it, `centred` takes its middle, and
    `image` undoes `centred`.  `transform` maps y to v:

    - logit: v = 256 (sigmoid(y) - 0.05) / 0.95, published for Morpho-MNIST;
    - unit: v = 256 y, so that y is the image scaled to [0, 1), as Appendix H has it for CelebA.
    """

    def __init__(self, kind: str) -> None:
        stretch = LEVELS / (1 - ALPHA)
        kinds: dict[str, list[Transform]] = {
            "logit": [SigmoidTransform(), AffineTransform(-ALPHA * stretch, stretch)],
            "unit": [AffineTransform(0.0, float(LEVELS))],
        }
        if kind not in kinds:
            raise UserError(unknown_name("preprocessing", kind, kinds))
        self.transform = ComposeTransform(kinds[kind])

    def dequantised(self, x: Tensor) -> Tensor:
        return x * (LEVELS - 1) + torch.rand_like(x)

    def centred(self, x: Tensor) -> Tensor:
        return x * (LEVELS - 1) + 0.5

    def unconstrained(self, v: Tensor) -> Tensor:
        """y with transform(y) = v."""
        return self.transform.inv(v)

    def image(self, y: Tensor) -> Tensor:
        """The image in [0, 1] of unconstrained pixels y; what lies beyond black or white is black or white."""
        return ((self.transform(y) - 0.5) / (LEVELS - 1)).clamp(0, 1)
