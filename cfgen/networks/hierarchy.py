"""A hierarchical image network: states at several resolutions, attributes at every level, any size of image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfgen.errors import UserError, unknown_name
from cfgen.networks.sizes import check_image_size
from cfgen.networks.within import within

__all__ = ["GLOBAL", "Drawn", "Gaussian", "Hierarchy", "Level", "levels_for"]

GLOBAL = "global"  # the name of the part of the state that has no place in the image
STEM = 2  # pixels that the stem folds into channels, each way
COARSEST = 10  # the largest grid on which the hierarchy ends
WIDTHS = {64: 24, 32: 32, 16: 64, 8: 96, 4: 128}  # channels from this grid on, at width 1
MEAN = (-8.0, 8.0)  # of q: its prior is N(0, 1), and a state that runs away would take the readers with it
LOG_SCALE = (-6.0, 1.0)  # of q: beyond them an exponential overflows before anything is learned
PIXEL_LOG_SCALE = (-5.0, -1.0)  # of a pixel's noise: from 2 to 90 levels of 255
START = -3.0  # log scale of q before training: nearly no noise, so reconstructing is learned first


class Level(NamedTuple):
    """One resolution of the hierarchy: a grid of so many places a side, its channels, blocks and channels of z."""

    grid: int
    width: int
    blocks: int
    latents: int

    @property
    def name(self) -> str:
        return grid_name(self.grid)


class Gaussian(NamedTuple):
    """N(mean, exp(log_scale)^2), independent in every entry."""

    mean: Tensor
    log_scale: Tensor

    def sample(self, eps: Tensor) -> Tensor:
        return self.mean + self.log_scale.exp() * eps


class Drawn(NamedTuple):
    """What the network makes of a state: the mean of every pixel and the log scale of its noise, (N, C, H, W)."""

    mean: Tensor
    log_scale: Tensor


def grids(size: int) -> list[int]:
    """The resolutions for an image of this size, from fine to coarse: halved until small, or odd and not large.

    The half of a grid that is odd all the same is rounded up.

    >>> grids(64), grids(28), grids(60)
    ([32, 16, 8, 4], [14, 7], [30, 15, 8, 4])
    """
    found = [size // STEM]
    while found[-1] > COARSEST or (found[-1] % 2 == 0 and found[-1] > 4):
        found.append((found[-1] + 1) // 2)
    return found


def grid_name(grid: int) -> str:
    return f"{grid}x{grid}"


def levels_for(image_shape: Sequence[int], width: float = 1.0, latents: Mapping[str, int] | None = None) -> list[Level]:
    """The levels for images of this (channels, height, width), from fine to coarse.

    `latents` are the channels of z by grid, such as {"7x7": 8}; a grid that is not named has none.
    """
    found, latents = grids(check_image_size(image_shape)), latents or {}
    for name in latents:
        if name not in map(grid_name, found):
            raise UserError(unknown_name("grid", name, map(grid_name, found)), argument="latents")
    return [Level(grid, channels(grid, width), 1 if grid > 8 else 2, latents.get(grid_name(grid), 0)) for grid in found]


def channels(grid: int, width: float) -> int:
    """More the coarser the grid: about the same cost on every level."""
    return max(8, 8 * round(width * next(count for least, count in WIDTHS.items() if grid >= least or least == 4) / 8))


class Residual(nn.Module):
    """h + a 3x3 and a 1x1 convolution of it, with a bias for each image between the two."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.near, self.mix = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 1)
        with torch.no_grad():  # starts near the identity: no normalisation is needed, and none depends on the batch
            self.mix.weight.mul_(0.3)

    def forward(self, h: Tensor, bias: Tensor | None = None) -> Tensor:
        inner = self.near(F.silu(h))
        if bias is not None:
            inner = inner + bias[:, :, None, None]
        return h + self.mix(F.silu(inner))


class AttributeGate(nn.Module):
    """Lets the attributes act on features: where, is read from the features; what they do, is the attributes' own.

    Each entry of a has some heads, masks in (0, 1) over the image; the entry times its masks is mixed into the features.
    So an attribute of one place, such as eyeglasses, need not be undone everywhere else.
    """

    def __init__(self, width: int, a_size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.where, self.what = nn.Conv2d(width, a_size * heads, 1), nn.Conv2d(a_size * heads, width, 1, bias=False)
        self.everywhere = nn.Linear(a_size, width)

    def forward(self, h: Tensor, a: Tensor) -> Tensor:
        masks = self.where(h).sigmoid() * a.repeat_interleave(self.heads, dim=1)[:, :, None, None]
        return h + self.what(masks) + self.everywhere(a)[:, :, None, None]


class LevelNetworks(nn.Module):
    """What looks at images on one level, infers z there and draws with it; all of it is told the attributes."""

    def __init__(self, level: Level, a_size: int, heads: int) -> None:
        super().__init__()
        self.level = level
        self.seeing = nn.ModuleList(Residual(level.width) for _ in range(level.blocks))
        self.told = nn.Linear(a_size, level.width * level.blocks)
        self.drawing = nn.ModuleList(Residual(level.width) for _ in range(level.blocks))
        self.gates = nn.ModuleList(AttributeGate(level.width, a_size, heads) for _ in range(level.blocks))
        if level.latents:
            outputs = nn.Conv2d(level.width, 2 * level.latents, 3, padding=1)
            self.infer = nn.Sequential(nn.Conv2d(2 * level.width, level.width, 1), nn.SiLU(), start_quiet(outputs))
            self.use = nn.Conv2d(level.latents, level.width, 1)

    def see(self, h: Tensor, a: Tensor) -> Tensor:
        for block, bias in zip(self.seeing, self.told(a).chunk(self.level.blocks, dim=1), strict=True):
            h = block(h, bias)
        return h

    def draw(self, h: Tensor, a: Tensor) -> Tensor:
        for block, gate in zip(self.drawing, self.gates, strict=True):
            h = gate(block(h), a)
        return h


class Hierarchy(nn.Module):
    """Top-down: the part of z without a place first, then that of coarse grids, then finer ones, each in the light of those
    before and of a.

    `infer` finds the state of images: for every part q(z | x, coarser z, a) = N(mean, scale^2).  `draw` makes images of a
    state: the mean and the noise of every pixel.  The prior of every z is N(0, 1) whatever a is, so attributes come in by a
    alone.
    """

    centre: Tensor
    opened: Tensor

    def __init__(
        self, channels: int, a_size: int, levels: Sequence[Level], latent_dim: int, heads: int, deviation: float
    ) -> None:
        super().__init__()
        self.register_buffer("centre", torch.full((a_size,), 0.5))  # the attributes' means, once they are known
        self.register_buffer("opened", torch.ones(()))  # how far the states on grids take part, 0 to 1
        self.nets = nn.ModuleList(LevelNetworks(level, a_size, heads) for level in levels)
        steps = list(pairwise(level.width for level in levels))
        self.down = nn.ModuleList(nn.Conv2d(4 * fine, coarse, 1) for fine, coarse in steps)
        self.up = nn.ModuleList(nn.Conv2d(coarse, 4 * fine, 1) for fine, coarse in steps)
        top, pixels = levels[-1], channels * STEM**2
        self.start = nn.Parameter(0.1 * torch.randn(1, top.width, top.grid, top.grid))
        self.infer_global = start_quiet(nn.Linear(top.width * top.grid**2, 2 * latent_dim))
        self.use_global = nn.Linear(latent_dim, top.width * top.grid**2)
        self.stem = nn.Conv2d(pixels, levels[0].width, 3, padding=1)
        self.paint = nn.Conv2d(levels[0].width, pixels, 3, padding=1)
        self.noise = nn.Conv2d(levels[0].width, pixels, 3, padding=1)
        nn.init.zeros_(self.noise.weight)
        nn.init.constant_(self.noise.bias, math.log(deviation))  # type: ignore[arg-type]  # it has one

    @property
    def levels(self) -> list[LevelNetworks]:
        """From fine to coarse."""
        return list(self.nets)  # type: ignore[arg-type]  # a ModuleList does not say of what

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each part of a state, from coarse to fine."""
        levels = [net.level for net in reversed(self.levels) if net.level.latents]
        on_grids = {level.name: (level.latents, level.grid, level.grid) for level in levels}
        return {GLOBAL: (self.use_global.in_features,), **on_grids}

    def infer(
        self, x: Tensor, a: Tensor, eps: Mapping[str, Tensor] | None = None
    ) -> tuple[Drawn, dict[str, Tensor], dict[str, Gaussian]]:
        """x_r, the state and q of every part; without `eps`, the standard normal numbers, the state is the means of q."""
        return self._down(a, {}, self._seen(x, a), eps)

    def draw(self, z: Mapping[str, Tensor], a: Tensor) -> Drawn:
        return self._down(a, dict(z), None, None)[0]

    def _seen(self, x: Tensor, a: Tensor) -> list[Tensor]:
        """What is seen of images on every level, from fine to coarse."""
        h = self.stem(F.pixel_unshuffle(x - 0.5, STEM))
        found = [self.levels[0].see(h, a - self.centre)]
        for down, net in zip(self.down, self.levels[1:], strict=True):
            found.append(net.see(down(folded(found[-1])), a - self.centre))
        return found

    def _down(
        self, a: Tensor, z: dict[str, Tensor], seen: list[Tensor] | None, eps: Mapping[str, Tensor] | None
    ) -> tuple[Drawn, dict[str, Tensor], dict[str, Gaussian]]:
        """From coarse to fine; with what is seen of images, z is inferred on the way."""
        q: dict[str, Gaussian] = {}

        def infer(part: str, outputs: Tensor) -> None:
            mean, log_scale = outputs.float().chunk(2, dim=1)
            q[part] = Gaussian(within(mean, *MEAN), log_scale.clamp(*LOG_SCALE))
            z[part] = q[part].mean if eps is None else q[part].sample(eps[part])
            if part != GLOBAL:
                z[part] = self.opened * z[part]

        if seen is not None:
            infer(GLOBAL, self.infer_global(seen[-1].flatten(1)))
        h = self.start + self.use_global(z[GLOBAL]).unflatten(1, self.start.shape[1:])
        for i in reversed(range(len(self.nets))):
            net = self.levels[i]
            if net.level.latents:
                part = net.level.name
                if seen is not None:
                    infer(part, net.infer(torch.cat([seen[i], h], dim=1)))
                h = h + net.use(z[part])
            h = net.draw(h, a - self.centre)
            if i:
                grid = self.levels[i - 1].level.grid
                h = F.pixel_shuffle(self.up[i - 1](h), 2)[..., :grid, :grid]
        h = F.silu(h)
        # the noise is fitted to what the mean leaves: its gradient must not make the mean worse
        mean, log_scale = (F.pixel_shuffle(part, STEM).float() for part in (self.paint(h), self.noise(h.detach())))
        return Drawn(mean, log_scale.clamp(*PIXEL_LOG_SCALE)), z, q


def folded(h: Tensor) -> Tensor:
    """2x2 places as one with four times the channels; an odd grid is continued by zeros."""
    odd = h.shape[-1] % 2
    return F.pixel_unshuffle(F.pad(h, (0, odd, 0, odd)) if odd else h, 2)


Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


@torch.no_grad()
def start_quiet(layer: Layer) -> Layer:
    """The same layer, so that the posterior it puts out starts near 0 with little noise."""
    assert layer.bias is not None
    layer.weight.mul_(0.1)
    layer.bias.zero_()
    layer.bias[len(layer.bias) // 2 :] = START
    return layer
