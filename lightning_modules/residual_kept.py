"""An image mechanism that loses nothing: what its reconstruction lacks belongs to the image's state."""

from __future__ import annotations

from torch import Tensor

from cfgen.counterfactual import State
from lightning_modules.image_mechanism import ImageMechanismModule

__all__ = ["ResidualKept"]


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

    def abduct(self, x: Tensor, a: Tensor) -> State:
        z = self.mechanism.abduct(x, a)
        return z, x - self.mechanism.decode(z, a)

    def decode(self, z: State, a: Tensor) -> Tensor:
        inner, residual = z
        return (self.mechanism.decode(inner, a) + residual).clamp(0, 1)

    def prior(self, rows: int) -> State:
        return self.mechanism.prior(rows), self.scm.schema.low.new_zeros(rows, *self.image_shape)
