"""An image mechanism that loses nothing: what its reconstruction lacks belongs to the image's state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cfgen.contracts import Noise, State
from lightning_modules.image_mechanism import ImageMechanismModule

__all__ = ["ResidualKept"]


class Kept(NamedTuple):
    """The mechanism's own state, the image and its attributes, and what the mechanism makes of them."""

    z: State
    x: Tensor
    a: Tensor
    x_r: Tensor


class ResidualKept(ImageMechanismModule):
    """Adds x - G(E(x, a), a) to every image made of the state of x, as DeepSCM does with its pixel noise.

    x_r is then x itself, and x_c differs from x only where and as the mechanism's x_c differs from its x_r: a blurred
    reconstruction no longer changes what a classifier says.  What the residual still shows of the old attributes stays in
    the counterfactual.
    """

    def __init__(self, mechanism: ImageMechanismModule) -> None:
        super(ImageMechanismModule, self).__init__()  # not its own: the Attribute-SCM is the mechanism's
        self.mechanism = mechanism
        self.scm, self.image_shape = mechanism.scm, mechanism.image_shape

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> Kept:
        z = self.mechanism.abduct(x, a, noise)
        return Kept(z, x, a, self.mechanism.decode(z, a))

    def decode(self, z: Kept, a: Tensor) -> Tensor:
        same = (a == z.a).all(dim=1)
        if same.all():  # nothing is asked: the images themselves, to the bit and without drawing them
            return z.x
        images = (self.mechanism.decode(z.z, a) + (z.x - z.x_r)).clamp(0, 1)
        return torch.where(same[:, None, None, None], z.x, images)

    def own_reconstruction(self, z: Kept, a: Tensor) -> Tensor:
        return z.x_r if torch.equal(a, z.a) else self.mechanism.decode(z.z, a)

    def prior(self, a: Tensor, noise: Noise | None = None) -> Kept:
        z = self.mechanism.prior(a, noise)
        x = self.mechanism.decode(z, a)
        return Kept(z, x, a, x)  # nobody has seen the image: nothing is lost
