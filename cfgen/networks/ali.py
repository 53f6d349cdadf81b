"""CondALI's generator, encoder and discriminator (Appendix D), conditioned on the attributes directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from cfgen.networks.layers import ConvTranspose2d, initialise, initialise_he, layers, scaled
from cfgen.networks.sizes import resolutions
from cfgen.networks.tables import Tables

__all__ = [
    "DISCRIMINATORS",
    "ENCODERS",
    "GENERATORS",
    "AttributePredictor",
    "Discriminator",
    "Encoder",
    "Generator",
    "ModulatedGenerator",
]

LANES = 16  # what a CPU multiplies at once: fewer filters cost the same and starve the layers that draw the pixels


class Generator(nn.Module):
    """G(z, a) of Table MGen or CGen: z and a concatenated, up to an image in [0, 1].

    `plain` leaves out the batch norm that the tables tick on the last row, before the sigmoid: a black background asks for
    logits far below the mean, so for a scale of 10 or so, and Adam moves a scale by about the learning rate a step.
    """

    def __init__(
        self,
        tables: Tables,
        channels: int,
        a_size: int,
        latent_dim: int = 512,
        width: float = 1.0,
        plain: bool = False,
    ) -> None:
        super().__init__()
        last = tables.generator[-1]._replace(F=channels)
        rows = [*scaled(tables.generator[:-1], width), last._replace(BN=False) if plain else last]
        self.layers = nn.Sequential(*layers(rows, latent_dim + a_size, tables.slope), nn.Sigmoid())
        initialise(self)

    def forward(self, z: Tensor, a: Tensor) -> Tensor:
        return self.layers(torch.cat([z, a], dim=1)[:, :, None, None])


class ModulatedGenerator(nn.Module):
    """G(z, a) with the filters of Table MGen or CGen, in which a also scales and shifts those of every layer.

    The table leaves it to the first layer to say what, say, a grey level means for every pixel; here each layer is told.
    An image is grown as by the style-based generator, by repeating every pixel and then convolving: the table's transposed
    convolutions leave a grid, above all where the stride does not divide the kernel (7 and 5 by 2), and take longer.
    As with `plain`, there is no batch norm before the sigmoid.
    """

    def __init__(self, tables: Tables, channels: int, a_size: int, latent_dim: int = 512, width: float = 1.0) -> None:
        super().__init__()
        self.sizes = resolutions(tables.image_shape[1])
        filters = [max(row.F, LANES) for row in scaled(tables.generator[: len(self.sizes)], width)]
        self.convolutions = nn.ModuleList(
            [
                ConvTranspose2d(latent_dim + a_size, filters[0], self.sizes[0], bias=False),
                *(nn.Conv2d(before, after, 3, padding=1, bias=False) for before, after in pairwise(filters)),
            ]
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(count) for count in filters)
        self.modulations = nn.ModuleList(nn.Linear(a_size, 2 * count, bias=False) for count in filters)
        self.activation = nn.LeakyReLU(tables.slope)
        self.last = nn.Conv2d(filters[-1], channels, 1)
        initialise(self)
        initialise_he(self.convolutions, tables.slope)

    def forward(self, z: Tensor, a: Tensor) -> Tensor:
        h = torch.cat([z, a], dim=1)[:, :, None, None]
        parts = zip(self.sizes, self.convolutions, self.norms, self.modulations, strict=True)
        for index, (size, convolution, norm, modulation) in enumerate(parts):
            if index:
                h = nn.functional.interpolate(h, (size, size))
            scale, shift = modulation(a)[:, :, None, None].chunk(2, dim=1)
            h = self.activation(torch.addcmul(shift, norm(convolution(h)), 1 + scale))
        return self.last(h).sigmoid()


class Encoder(nn.Module):
    """E(x, a) of Table MEnc or CEnc: an image with its attribute planes, down to z.

    `he` starts it from He's weights in place of the paper's of 0.01: half the reconstruction error after 400 steps.
    """

    def __init__(
        self,
        tables: Tables,
        channels: int,
        a_size: int,
        latent_dim: int = 512,
        width: float = 1.0,
        he: bool = False,
    ) -> None:
        super().__init__()
        # The two last rows both have F = 512: the last one is z itself and so has latent_dim, whatever the width.
        rows = [*scaled(tables.encoder[:-1], width), tables.encoder[-1]._replace(F=latent_dim)]
        first, *rest = layers(rows, channels, tables.slope, planes=a_size)
        self.first, self.rest = first, nn.Sequential(*rest)
        initialise(self)
        if he:
            initialise_he(self, tables.slope)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return self.rest(self.first(x, a)).flatten(1)


class Discriminator(nn.Module):
    """D(x, z, a) of Table MDisc or CDisc, as a logit: D_x on x with attribute planes, D_z on z and a, D_xz on both.

    `plain` leaves out batch norm and dropout, for training with a gradient penalty instead: a penalty on the gradient
    of each image's verdict has no meaning when the verdict depends on the rest of the batch.
    """

    def __init__(
        self,
        tables: Tables,
        channels: int,
        a_size: int,
        latent_dim: int = 512,
        width: float = 1.0,
        plain: bool = False,
    ) -> None:
        super().__init__()
        d_x, d_z = scaled(tables.d_x, width), scaled(tables.d_z, width)
        d_xz = [*scaled(tables.d_xz[:-1], width), tables.d_xz[-1]]
        if plain:
            d_x, d_z, d_xz = ([row._replace(BN=False, D=0.0) for row in rows] for rows in (d_x, d_z, d_xz))
        # The first row's dropout falls on pixels; the attributes, which every pixel of a plane repeats, stay whole.
        modules = layers(d_x, channels, tables.slope, planes=a_size)
        start = 1 if d_x[0].D else 0
        self.drop_x = nn.Sequential(*modules[:start])
        self.first_x = modules[start]
        self.d_x = nn.Sequential(*modules[start + 1 :])
        self.d_z = nn.Sequential(*layers(d_z, latent_dim + a_size, tables.slope))
        self.d_xz = nn.Sequential(*layers(d_xz, d_x[-1].F + d_z[-1].F, tables.slope))
        if not plain:  # without batch norm, weights of 0.01 would let nothing through nine layers
            initialise(self)

    def forward(self, x: Tensor, z: Tensor, a: Tensor) -> Tensor:
        """Logits, (N,): positive where D takes (x, z, a) for a real image with its inferred latent."""
        h_x = self.d_x(self.first_x(self.drop_x(x), a))
        h_z = self.d_z(torch.cat([z, a], dim=1)[:, :, None, None])
        return self.d_xz(torch.cat([h_x, h_z], dim=1)).flatten()


class AttributePredictor(nn.Module):
    """Reads the attributes back from an image: the encoder's table without planes, a's size at the end, no batch norm.

    One output for each entry of a: the value of a continuous attribute, a logit for the others.  Batch norm is left out
    because it is trained on real images only and then judges generated ones.
    """

    def __init__(self, tables: Tables, channels: int, a_size: int, width: float = 1.0) -> None:
        super().__init__()
        rows = [*scaled(tables.encoder[:-1], width), tables.encoder[-1]._replace(F=a_size)]
        self.layers = nn.Sequential(*layers([row._replace(BN=False) for row in rows], channels, tables.slope))
        # six layers of torch's own initialisation let so little through that, on photographs, it never began to learn
        initialise_he(self, tables.slope)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)


# what a config may name; each is called with (tables, channels, a_size, latent_dim, width)
Maker = Callable[..., nn.Module]
ENCODERS: Mapping[str, Maker] = {"paper": Encoder, "he": partial(Encoder, he=True)}
GENERATORS: Mapping[str, Maker] = {
    "paper": Generator,
    "plain": partial(Generator, plain=True),
    "modulated": ModulatedGenerator,
}
DISCRIMINATORS: Mapping[str, Maker] = {"paper": Discriminator, "plain": partial(Discriminator, plain=True)}
