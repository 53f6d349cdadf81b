"""The style-based generator (Karras et al., 2019) that turns ALI into StyleALI (Section 3, Appendix D).

Written from the published description: a mapping network from z and the embedded a to w, a learned constant, and at each
resolution two convolutions, each followed by noise, bias, leaky ReLU and AdaIN.  No progressive growing, no style mixing, no
truncation, no path length regularisation: the paper leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfgen.networks.sizes import check_image_size, resolutions

__all__ = ["StyleGenerator"]

SLOPE = 0.2


class EqualLinear(nn.Module):
    """A dense layer whose weights have unit variance and are scaled when used, so that Adam's steps suit every layer."""

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0, rate: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / rate)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.rate, self.scale = rate, gain * rate / math.sqrt(inputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.scale, self.bias * self.rate)


class EqualConv(nn.Module):
    """A convolution with scaled unit-variance weights, size kept; its bias comes after the noise."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.scale = 1 / math.sqrt(inputs * kernel * kernel)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * self.scale, padding=self.weight.shape[-1] // 2)


class StyledLayer(nn.Module):
    """Convolution (or the constant), noise, bias, leaky ReLU, AdaIN: y_s (x - mean) / deviation + y_b, y = A(w)."""

    def __init__(self, inputs: int | None, channels: int, w_size: int) -> None:
        super().__init__()
        self.convolution = None if inputs is None else EqualConv(inputs, channels, 3)
        self.noise_strength = nn.Parameter(torch.zeros(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))
        # a small gain: styles that vary as much as they scale make the image a chaotic function of w at first
        self.style = EqualLinear(w_size, 2 * channels, gain=0.1)
        with torch.no_grad():
            self.style.bias[:channels] = 1.0  # scales start at 1, shifts at 0

    def forward(self, x: Tensor, w: Tensor, noise: Tensor) -> Tensor:
        if self.convolution is not None:
            x = self.convolution(x)
        x = F.leaky_relu(x + self.noise_strength * noise + self.bias, SLOPE)
        scale, shift = self.style(w)[:, :, None, None].chunk(2, dim=1)
        mean = x.mean(dim=(2, 3), keepdim=True)
        # torch.var_mean takes several times as long
        variance = x.square().mean(dim=(2, 3), keepdim=True) - mean.square()
        scale = scale * torch.rsqrt(variance.clamp(min=0) + 1e-5)
        return torch.addcmul(shift - mean * scale, x, scale)  # half as many passes over x as normalising it first


class StyleGenerator(nn.Module):
    """G(z, a, noise): an image in [0, 1] from a latent, attributes and one noise plane a layer.

    z decides by its direction alone: it and the embedding of a are brought to the same length before the mapping network.

    Args:
        image_shape: (channels, size, size); the size is a small number doubled a few times, e.g. 28 = 7 x 4, 64 = 4 x 16.
        a_size: the size of the attribute vector, whose linear embedding enters the mapping network beside z.
        latent_dim: the size of z, and of w.
        width: multiplies the channel counts, at most 512 and halved as the resolution doubles beyond 16.
        mapping_layers: how many dense layers lead from (z, a) to w.
        mapping_rate: multiplies their learning rate.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        a_size: int,
        latent_dim: int = 512,
        width: float = 1.0,
        mapping_layers: int = 8,
        mapping_rate: float = 0.01,
    ) -> None:
        super().__init__()
        channels, size = image_shape[0], check_image_size(image_shape)
        self.sizes = resolutions(size)
        self.noise_size = sum(2 * size * size for size in self.sizes)
        counts = [max(8, round(width * min(512, 8192 // s))) for s in self.sizes]
        w_size = latent_dim
        mapping: list[nn.Module] = []
        for inputs in [2 * latent_dim, *[w_size] * (mapping_layers - 1)]:
            # the gain makes up for the ReLUs: without it, eight layers leave next to nothing of z
            mapping += [EqualLinear(inputs, w_size, gain=math.sqrt(2), rate=mapping_rate), nn.LeakyReLU(SLOPE)]
        self.embedding = EqualLinear(a_size, latent_dim)  # a weighs as much as z, however few attributes there are
        self.mapping = nn.Sequential(*mapping)
        self.constant = nn.Parameter(torch.randn(1, counts[0], self.sizes[0], self.sizes[0]))
        layers = [StyledLayer(None, counts[0], w_size), StyledLayer(counts[0], counts[0], w_size)]
        for before, after in pairwise(counts):
            layers += [StyledLayer(before, after, w_size), StyledLayer(after, after, w_size)]
        self.layers = nn.ModuleList(layers)
        self.to_image = EqualConv(counts[-1], channels, 1)
        self.image_bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, z: Tensor, a: Tensor, noise: Tensor | None = None) -> Tensor:
        """`noise` is (N, noise_size) or (1, noise_size), one plane a layer; without any, each image gets new noise."""
        noise = torch.randn(len(z), self.noise_size, device=z.device, dtype=z.dtype) if noise is None else noise
        planes = noise.split([size * size for size in self.sizes for _ in range(2)], dim=1)
        w = self.mapping(torch.cat([of_unit_length(z), of_unit_length(self.embedding(a))], dim=1))
        x = self.constant.expand(len(z), -1, -1, -1)
        for index, (layer, plane) in enumerate(zip(self.layers, planes, strict=True)):
            size = self.sizes[index // 2]
            if x.shape[-1] != size:
                x = F.interpolate(x, (size, size), mode="bilinear", align_corners=False)
            x = layer(x, w, plane.reshape(-1, 1, size, size))
        return (self.to_image(x) + self.image_bias).sigmoid()


def of_unit_length(x: Tensor) -> Tensor:
    """Rows scaled to components of mean square 1."""
    return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-8)
