"""Exponential moving average of a network's weights, by torch's `AveragedModel`."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

__all__ = ["moving_average"]


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    """theta_bar <- d theta_bar + (1 - d) theta after every step, with d = min(decay, (1 + t) / (10 + t)) after t steps.

    The warm-up lets short runs forget their first weights.  The running statistics of batch norm are averaged alike.  The
    average takes no gradient.
    """
    average = AveragedModel(network, multi_avg_fn=partial(_update, decay), use_buffers=True)
    return average.requires_grad_(False)


@torch.no_grad()
def _update(decay: float, averages: Any, values: Any, t: Any) -> None:
    if not averages[0].is_floating_point():  # batch norm's count of batches
        torch._foreach_copy_(averages, values)
        return
    t = float(t)
    torch._foreach_lerp_(averages, values, 1 - min(decay, (1 + t) / (10 + t)))
