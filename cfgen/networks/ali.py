"""CondALI's generator, encoder and discriminator (Appendix D), conditioned on the attributes directly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfgen.networks.layers import initialise, layers, scaled
from cfgen.networks.tables import Tables

__all__ = ["AttributePredictor", "Discriminator", "Encoder", "Generator", "ModulatedGenerator"]

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
    """G(z, a) of Table MGen or CGen in which a, besides entering with z, scales and shifts the filters of every layer.

    The table leaves it to the first layer to say what, say, a grey level means for every pixel; here each layer is told.
    As with `plain`, the last row has no batch norm.
    """

    def __init__(self, tables: Tables, channels: int, a_size: int, latent_dim: int = 512, width: float = 1.0) -> None:
        super().__init__()
        rows = [row._replace(F=max(row.F, LANES)) for row in scaled(tables.generator[:-1], width)]
        inputs = [latent_dim + a_size, *(row.F for row in rows)]
        self.convolutions = nn.ModuleList(
            nn.Sequential(*layers([row._replace(A="Linear")], size, tables.slope))
            for size, row in zip(inputs, rows, strict=False)
        )
        self.modulations = nn.ModuleList(nn.Linear(a_size, 2 * row.F, bias=False) for row in rows)
        self.activation = nn.LeakyReLU(tables.slope)
        self.last = nn.Conv2d(inputs[-1], channels, 1)
        initialise(self)

    def forward(self, z: Tensor, a: Tensor) -> Tensor:
        h = torch.cat([z, a], dim=1)[:, :, None, None]
        for convolution, modulation in zip(self.convolutions, self.modulations, strict=True):
            scale, shift = modulation(a)[:, :, None, None].chunk(2, dim=1)
            h = self.activation(torch.addcmul(shift, convolution(h), 1 + scale))
        return self.last(h).sigmoid()


class Encoder(nn.Module):
    """E(x, a) of Table MEnc or CEnc: an image with its attribute planes, down to z."""

    def __init__(self, tables: Tables, channels: int, a_size: int, latent_dim: int = 512, width: float = 1.0) -> None:
        super().__init__()
        # The two last rows both have F = 512: the last one is z itself and so has latent_dim, whatever the width.
        rows = [*scaled(tables.encoder[:-1], width), tables.encoder[-1]._replace(F=latent_dim)]
        first, *rest = layers(rows, channels, tables.slope, planes=a_size)
        self.first, self.rest = first, nn.Sequential(*rest)
        initialise(self)

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
        for module in self.layers:
            if isinstance(module, nn.Conv2d):  # six layers of torch's own initialisation let so little through that, on
                nn.init.kaiming_normal_(module.weight, a=tables.slope)  # photographs, it never began to learn
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]  # there is one: no batch norm

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)
