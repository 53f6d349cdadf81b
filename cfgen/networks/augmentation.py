"""Augmentation of training images for judges: changes that an image's attributes survive, drawn for each image, in batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from cfgen.attributes import Schema

__all__ = ["augmented"]

SHIFT = 1 / 14  # of the side, at most: 2 of 28 pixels
ERASED = 1 / 6  # of the side: the largest square that is blanked out
NOISE = 0.08  # standard deviation
TURN, SCALE = math.radians(6), 0.06
BRIGHTNESS, CONTRAST = 0.06, 0.12  # mild: hair and skin are known by their colours


def augmented(x: Tensor, schema: Schema, strength: float) -> Tensor:
    """Images x (N, C, H, W) in [0, 1], each changed at random by up to `strength` times the most.

    Images are shifted, half of them are partly blanked out, and noise is added.  If their attributes are all binary or
    categorical, they are also turned, scaled, blurred, and made a little brighter, darker or flatter.  A continuous attribute
    is a quantity of the pixels themselves, such as thickness, slant or intensity: all of that would change its value, so
    images that have one are shifted by whole pixels and left as they are otherwise.
    """
    if not strength:
        return x
    x = shifted(x, strength) if schema.continuous else toned(blurred(turned(x, strength), strength), strength)
    x = erased(x, strength)
    return (x + strength * NOISE * uniform(x) * torch.randn_like(x)).clamp(0, 1)


def uniform(x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """A number for each image, (N, 1, 1, 1)."""
    return low + (high - low) * torch.rand(len(x), 1, 1, 1, device=x.device, dtype=x.dtype)


def shifted(x: Tensor, strength: float) -> Tensor:
    """By whole pixels, so that no pixel changes; the border is repeated."""
    most = round(strength * SHIFT * x.shape[-1])
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape[2:])
    down, right = torch.randint(-most, most + 1, (2, len(x), 1), device=x.device)
    rows, columns = (rows + down).clamp(0, len(rows) - 1), (columns + right).clamp(0, len(columns) - 1)
    image = torch.arange(len(x), device=x.device)[:, None, None]
    return x.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def erased(x: Tensor, strength: float) -> Tensor:
    """Half of the images lose a square, which gets the image's mean colour."""
    height, width = x.shape[2:]
    half = uniform(x) * strength * ERASED * width / 2 * (uniform(x) < 0.5)
    top, left = uniform(x, 0, height), uniform(x, 0, width)
    rows = (torch.arange(height, device=x.device)[:, None] + 0.5 - top).abs() < half
    columns = (torch.arange(width, device=x.device) + 0.5 - left).abs() < half
    return torch.where(rows & columns, x.mean(dim=(2, 3), keepdim=True), x)


def turned(x: Tensor, strength: float) -> Tensor:
    """Turned and scaled about the middle, then shifted; the border is repeated."""
    angle, scale = uniform(x, -TURN, TURN) * strength, 1 + strength * uniform(x, -SCALE, SCALE)
    cos, sin = (scale * angle.cos())[:, :, 0, 0], (scale * angle.sin())[:, :, 0, 0]
    right, down = (2 * strength * uniform(x, -SHIFT, SHIFT)[:, :, 0, 0] for _ in range(2))  # an image is 2 wide here
    matrix = torch.stack([torch.cat([cos, -sin, right], 1), torch.cat([sin, cos, down], 1)], dim=1)
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def blurred(x: Tensor, strength: float) -> Tensor:
    """Mixed with the mean of 3x3 pixels."""
    mean = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return torch.lerp(x, mean, strength * uniform(x))


def toned(x: Tensor, strength: float) -> Tensor:
    """Contrast and brightness."""
    contrast = 1 + strength * uniform(x, -CONTRAST, CONTRAST)
    middle = x.mean(dim=(1, 2, 3), keepdim=True)
    return (x - middle) * contrast + middle + strength * uniform(x, -BRIGHTNESS, BRIGHTNESS)
