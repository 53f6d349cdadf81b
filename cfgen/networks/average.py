"""Exponential moving average of a network's weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MovingAverage"]


class MovingAverage(nn.Module):
    """theta_bar <- d theta_bar + (1 - d) theta after every step, with d = min(decay, (1 + t) / (10 + t)) at step t.

    The warm-up lets short runs forget the initial weights.  The running statistics of batch norm are averaged alike.
    The average takes no gradient.
    """

    updates: Tensor

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        self.updates += 1
        t = self.updates.item()
        weight = 1 - min(self.decay, (1 + t) / (10 + t))
        averages, values = self.network.state_dict(), network.state_dict()
        floating = [name for name, average in averages.items() if average.is_floating_point()]
        torch._foreach_lerp_([averages[name] for name in floating], [values[name] for name in floating], weight)
        for name in averages.keys() - set(floating):  # batch norm's count of batches
            averages[name].copy_(values[name])

    def forward(self, *inputs: Any) -> Any:
        return self.network(*inputs)
