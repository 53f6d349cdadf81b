"""What a dataloader hands to a module: images, their attributes and a target."""

from typing import NamedTuple

from torch import Tensor

__all__ = ["Batch"]


class Batch(NamedTuple):
    """Images `x` (N, C, H, W) in [0, 1], the model vector `a` (N, schema.size) and the target `y` (N,).

    Between a dataloader and the device `x` is still uint8: the DataModule scales it after the transfer.
    """

    x: Tensor
    a: Tensor
    y: Tensor
