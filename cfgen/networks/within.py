"""Bounds that a gradient can call values back from, and cannot push them beyond."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["within"]


class _Within(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, low: float, high: float) -> Tensor:
        context.save_for_backward(x)
        context.bounds = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (x,), (low, high) = context.saved_tensors, context.bounds
        further = ((x < low) & (gradient > 0)) | ((x > high) & (gradient < 0))
        return gradient.masked_fill(further, 0), None, None


def within(x: Tensor, low: float, high: float) -> Tensor:
    """x cut to [low, high].  A gradient that would bring a value back passes, one that would take it further does not.

    >>> x = torch.tensor([-0.5, 0.5, -0.5], requires_grad=True)
    >>> (within(x, 0, 1) * torch.tensor([1.0, 1.0, -1.0])).sum().backward()
    >>> x.grad
    tensor([ 0.,  1., -1.])
    """
    return _Within.apply(x, low, high)
