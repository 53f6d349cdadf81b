"""Networks of judges: they read attributes from an image, and share no architecture with any part of a mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from cfgen.errors import UserError
from cfgen.networks.sizes import SIZES

__all__ = ["JUDGES", "PatchJudge", "ResidualJudge", "judge_network"]

TOKENS = 8  # patches along a side, at most


class Residual(nn.Module):
    """x + two normalised convolutions of it (He et al., 2016, with the activations before them); `stride` halves the image.

    The sum is not normalised: it carries how bright an image is to the end.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1, bias=False),
        )  # fmt: skip
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, bias=False)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        # the stride is taken here: torch 2.15 writes beyond its memory in the backward pass of a 1x1 convolution with a stride,
        # few filters and channels last
        return self.shortcut(x[:, :, :: self.stride, :: self.stride]) + self.convolutions(x)


class ResidualJudge(nn.Module):
    """A residual convolutional network with batch norm, 20 filters at first and up to 80; the mean over pixels is read.

    >>> ResidualJudge((3, 64, 64), outputs=15)(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2, 15])
    """

    def __init__(self, image_shape: Sequence[int], outputs: int, width: float = 1.0) -> None:
        super().__init__()
        channels, size = image_shape[0], image_shape[1]
        filters = max(4, round(20 * width))
        stages = max(3, round(math.log2(size)) - 4)
        small = size <= 32  # larger images are halved at once by the first stage too: a quarter of the time
        counts = [filters, *(filters * 2 ** min(stage, 2) for stage in range(stages))]
        self.stem = nn.Conv2d(channels, filters, 5, stride=2, padding=2)
        self.stages = nn.Sequential(
            *(
                Residual(before, after, 1 if small and not stage else 2)
                for stage, (before, after) in enumerate(pairwise(counts))
            )
        )
        self.last = nn.Sequential(nn.BatchNorm2d(counts[-1]), nn.ReLU())
        self.head = nn.Linear(counts[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        return whole(self.head, self.last(self.stages(self.stem(x - 0.5))).mean(dim=(2, 3)))


class Mixing(nn.Module):
    """A layer of MLP-Mixer (Tolstikhin et al., 2021): patches exchange what they know, then each thinks for itself."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.across = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.within = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, h: Tensor) -> Tensor:
        h = h + self.across(self.first(h).transpose(1, 2)).transpose(1, 2)
        return h + self.within(self.second(h))


class PatchJudge(nn.Module):
    """An MLP-Mixer of four layers over at most 8x8 patches, 80 numbers each: no convolution but the cutting into patches.

    Patches overlap by half, and an image is continued by its border as far as they reach.

    >>> PatchJudge((1, 28, 28), outputs=13)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 13])
    """

    def __init__(self, image_shape: Sequence[int], outputs: int, width: float = 1.0) -> None:
        super().__init__()
        channels, size = image_shape[0], image_shape[1]
        patch = math.ceil(size / TOKENS)
        along = math.ceil(size / patch)
        numbers = max(8, round(80 * width))
        overlap = patch // 2
        before, after = overlap, overlap + along * patch - size
        self.padding = (before, after, before, after)
        self.patches = nn.Conv2d(channels, numbers, patch + 2 * overlap, stride=patch)
        self.layers = nn.Sequential(*(Mixing(along**2, numbers) for _ in range(4)))
        self.norm = nn.LayerNorm(numbers)
        self.head = nn.Linear(numbers, outputs)

    def forward(self, x: Tensor) -> Tensor:
        padded = nn.functional.pad(x - 0.5, self.padding, mode="replicate")
        h = self.patches(padded).flatten(2).transpose(1, 2)
        return whole(self.head, self.norm(self.layers(h)).mean(dim=1))


def whole(head: nn.Module, h: Tensor) -> Tensor:
    """The last layer in full precision: half of it rounds a continuous attribute to a hundredth of its range."""
    with torch.autocast(h.device.type, enabled=False):
        return head(h.float())


JUDGES: Mapping[str, Callable[[Sequence[int], int, float], nn.Module]] = {
    "residual": ResidualJudge,
    "patches": PatchJudge,
}


def judge_network(name: str, image_shape: Sequence[int], outputs: int, width: float = 1.0) -> nn.Module:
    """The network of that name for images of this (channels, height, width)."""
    _, height, across = image_shape
    # not multiples of 4 alone: a model of one's own may make others
    if height != across or not SIZES[0] <= height <= SIZES[-1]:
        raise UserError(
            f"network {name} takes square images of {SIZES[0]} to {SIZES[-1]} pixels, not image_shape={list(image_shape)}"
        )
    return JUDGES[name](image_shape, outputs, width)
