"""The baselines of Table 3 that intervene on no attribute: a mirrored image and a brighter one."""

from __future__ import annotations

from torch import Tensor

__all__ = ["brighten", "horizontal_flip"]


def horizontal_flip(x: Tensor) -> Tensor:
    """Images (N, C, H, W), left and right exchanged."""
    return x.flip(-1)


def brighten(x: Tensor, factor: float = 1.5) -> Tensor:
    """Images in [0, 1] with every value multiplied by `factor` and cut at 1.

    The paper names no amount.  Half as bright again is plain to see and leaves the face readable.
    """
    if not factor >= 1:
        raise ValueError(f"a factor below 1 darkens: brighten takes one from 1, not {factor}")
    return x.mul(factor).clamp(max=1)
