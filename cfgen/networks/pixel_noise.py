"""Images as a mean and noise of their pixels, x = mu + sigma u, and what a counterfactual keeps of the noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from cfgen.networks.hierarchy import Drawn

__all__ = ["NoisyState", "abducted", "counterfactual", "moves", "stays", "visible"]

NEAR = 5  # pixels a side over which a change is averaged before it is believed or not


class NoisyState(NamedTuple):
    """Of images: z by level, the noise u of their pixels, and mean and log scale that x = mean + scale u was solved with."""

    z: dict[str, Tensor]
    u: Tensor
    mean: Tensor
    log_scale: Tensor


def visible(drawn: Drawn) -> Drawn:
    """With means within [0, 1]."""
    return drawn._replace(mean=drawn.mean.clamp(0, 1))


def abducted(x: Tensor, z: dict[str, Tensor], drawn: Drawn) -> NoisyState:
    """The state with which x comes back: u = (x - mu) / sigma."""
    drawn = visible(drawn)
    return NoisyState(z, (x - drawn.mean) / drawn.log_scale.exp(), *drawn)


def counterfactual(state: NoisyState, drawn: Drawn, threshold: float, fade: float) -> Tensor:
    """The images of a state with other means and scales, those of its z under other attributes; in [0, 1].

    u stays, at the smaller of both scales: what an image does not show cannot be had by making its noise larger.
    """
    drawn = visible(drawn)
    x = state.mean + state.log_scale.exp() * state.u  # the image itself
    noise = torch.minimum(drawn.log_scale, state.log_scale).exp() * state.u
    x_c = drawn.mean + (noise * stays(state, drawn, fade) if fade else noise)
    return (torch.lerp(x, x_c, moves(state, drawn, threshold)) if threshold else x_c).clamp(0, 1)


def stays(state: NoisyState, drawn: Drawn, fade: float) -> Tensor:
    """How much of each pixel's noise stays, 0 to 1: the less, the more scales the mean moves around it, 1/e at `fade`.

    Where the mean goes elsewhere, what it had missed belonged to something that is no longer there.
    """
    change = around((drawn.mean - state.mean).abs())
    return (-(change / (fade * around(state.log_scale.exp()))).square()).exp()


def moves(state: NoisyState, drawn: Drawn, threshold: float) -> Tensor:
    """Which pixels move, 0 to 1, (N, 1, H, W): those around which means move by more than `threshold` times the scale."""
    change = around((drawn.mean - state.mean).abs().amax(dim=1, keepdim=True))
    scale = around(state.log_scale.exp().amax(dim=1, keepdim=True))
    return (4 * (change / (threshold * scale) - 1)).sigmoid()


def around(values: Tensor) -> Tensor:
    """The mean of each pixel's neighbourhood."""
    return F.avg_pool2d(F.pad(values, (NEAR // 2,) * 4, mode="replicate"), NEAR, stride=1)
