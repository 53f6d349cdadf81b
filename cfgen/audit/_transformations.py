"""The baselines of Table 3 that change no attribute: a mirrored image and a brighter one."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def horizontal_flip(x: Tensor) -> Tensor:
    """Images (N, C, H, W), left and right exchanged.

    >>> import torch
    >>> horizontal_flip(torch.tensor([[[[1, 2, 3]]]]))
    tensor([[[[3, 2, 1]]]])
    """
    return x.flip(-1)


def brighten(x: Tensor, factor: float = 1.5) -> Tensor:
    """Images in [0, 1] with every value multiplied by `factor` and cut at 1.

    The paper names no amount.  Half as bright again is visible and leaves the face readable.
    """
    if not factor >= 1:
        raise ValueError(f"a factor below 1 darkens: brighten takes one from 1, not {factor}")
    return x.mul(factor).clamp(max=1)


# applied to the base image, so that pairs differ in the transformation alone, as counterfactual pairs do
AFFINE: dict[str, Callable[[Tensor], Tensor]] = {"horizontal_flip": horizontal_flip, "brightness": brighten}
