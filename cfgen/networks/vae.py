"""The networks of DeepSCM's conditional VAE: the published ones for Morpho-MNIST, Appendix H's tables for CelebA.

Images of another size have Appendix H's design with as many halvings as lead to 7 pixels or less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cfgen.networks.sizes import check_image_size, filters_for, resolutions

__all__ = ["CelebADecoder", "CelebAEncoder", "DigitDecoder", "DigitEncoder", "VAENetworks", "vae_networks_for"]


class GaussianHead(nn.Module):
    """Location and scale of q(z | x, a) = N(loc, scale^2), from features of x and the attributes."""

    def __init__(self, features: int, latent_dim: int) -> None:
        super().__init__()
        self.loc = nn.Linear(features, latent_dim)
        self.log_variance = nn.Linear(features, latent_dim)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.loc(h), (0.5 * self.log_variance(h)).exp()


class DigitEncoder(nn.Module):
    """q(z | x, a) as published for Morpho-MNIST: two convolutions, 28-14-7, and a dense layer before and after a joins."""

    def __init__(self, channels: int, a_size: int, latent_dim: int = 16, width: float = 1.0) -> None:
        super().__init__()
        first, second, hidden = (max(1, round(width * size)) for size in (64, 128, 100))
        self.features = nn.Sequential(
            nn.Conv2d(channels, first, 4, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(first, second, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(second),
            nn.LeakyReLU(0.1),
            nn.Flatten(),
            nn.Linear(7 * 7 * second, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.LeakyReLU(0.1),
        )
        self.joint = nn.Sequential(nn.Linear(hidden + a_size, hidden), nn.ReLU())
        self.head = GaussianHead(hidden, latent_dim)

    def forward(self, x: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(self.joint(torch.cat([self.features(x), a], dim=1)))


class DigitDecoder(nn.Module):
    """The location of x given z and a, as published for Morpho-MNIST: two dense layers, then 7-14-28.

    The published 1x1 convolution after the last layer is left out: linear after linear, on a single channel.
    """

    def __init__(self, channels: int, a_size: int, latent_dim: int = 16, width: float = 1.0) -> None:
        super().__init__()
        dense, first, second = (max(1, round(width * size)) for size in (1024, 128, 64))
        self.layers = nn.Sequential(
            nn.Linear(latent_dim + a_size, dense, bias=False),
            nn.BatchNorm1d(dense),
            nn.ReLU(),
            nn.Linear(dense, first * 7 * 7, bias=False),
            nn.BatchNorm1d(first * 7 * 7),
            nn.ReLU(),
            nn.Unflatten(1, (first, 7, 7)),
            nn.ConvTranspose2d(first, second, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(second),
            nn.ReLU(),
            nn.ConvTranspose2d(second, channels, 4, stride=2, padding=1),
        )

    def forward(self, z: Tensor, a: Tensor) -> Tensor:
        return self.layers(torch.cat([z, a], dim=1))


class CelebAEncoder(nn.Module):
    """q(z | x, a) of Table CEnc_DSCM: 64-32-16-8-4, then a joins, as in the published DeepSCM, and z's Gaussian."""

    def __init__(
        self, channels: int, a_size: int, latent_dim: int = 256, width: float = 1.0, image_size: int = 64
    ) -> None:
        super().__init__()
        coarsest, *halved = resolutions(image_size)
        filters = [max(1, round(width * count)) for count in filters_for(FILTERS, len(halved))]
        rows: list[nn.Module] = []
        for c_in, c_out in pairwise([channels, *filters]):
            rows += [nn.Conv2d(c_in, c_out, 3, stride=2, padding=1, bias=False), *after(c_out)]
        rows += [nn.Conv2d(filters[-1], filters[-1], 1), nn.LeakyReLU(SLOPE), nn.Flatten()]
        self.features = nn.Sequential(*rows)
        self.head = GaussianHead(coarsest**2 * filters[-1] + a_size, latent_dim)

    def forward(self, x: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(torch.cat([self.features(x), a], dim=1))


class CelebADecoder(nn.Module):
    """The location of x given z and a, of Table CDec_DSCM: a dense layer to 4x4, then 4-8-16-32-64, in (0, 1).

    The table ticks batch norm on the last row too; it is left out for the reason that `Generator` gives.
    """

    def __init__(
        self, channels: int, a_size: int, latent_dim: int = 256, width: float = 1.0, image_size: int = 64
    ) -> None:
        super().__init__()
        coarsest, *doubled = resolutions(image_size)
        found = [max(1, round(width * count)) for count in filters_for(FILTERS, len(doubled))]
        filters = [found[-1], *reversed(found)]
        rows: list[nn.Module] = [nn.Linear(latent_dim + a_size, coarsest**2 * filters[0])]
        rows.append(nn.Unflatten(1, (filters[0], coarsest, coarsest)))
        for c_in, c_out, size in zip(filters, filters[1:], doubled, strict=False):
            # the stride doubles; one pixel less where the size is odd
            up = nn.ConvTranspose2d(c_in, c_out, 3, stride=2, padding=1, output_padding=1 - size % 2, bias=False)
            rows += [up, *after(c_out)]
        self.layers = nn.Sequential(*rows, nn.Conv2d(filters[-1], channels, 3, padding=1), nn.Sigmoid())

    def forward(self, z: Tensor, a: Tensor) -> Tensor:
        return self.layers(torch.cat([z, a], dim=1))


FILTERS = (32, 64, 128, 256)  # of CelebA's encoder, from fine to coarse
SLOPE = 0.02  # of CelebA's LReLU: Appendix H names none, Appendix D has this one


def after(channels: int) -> list[nn.Module]:
    """What follows a convolution of Appendix H: batch norm, activation and a dropout of 0.25."""
    return [nn.BatchNorm2d(channels), nn.LeakyReLU(SLOPE), nn.Dropout(0.25)]


class VAENetworks(NamedTuple):
    """Encoder and decoder for one image size, the size of z they were published with, and the preprocessing flow."""

    encoder: Callable[..., nn.Module]
    decoder: Callable[..., nn.Module]
    latent_dim: int
    preprocessing: str


def vae_networks_for(image_shape: Sequence[int]) -> VAENetworks:
    """The networks for images of this (channels, height, width): Morpho-MNIST's for 28x28, CelebA's for all others."""
    size = check_image_size(image_shape)
    if size == 28:
        return VAENetworks(DigitEncoder, DigitDecoder, 16, "logit")
    return VAENetworks(partial(CelebAEncoder, image_size=size), partial(CelebADecoder, image_size=size), 256, "unit")
