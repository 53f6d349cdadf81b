"""DeepSCM: the image by a conditional VAE with abducted pixel noise (Pawlowski et al., 2020; the paper's Appendix H)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor, nn

from cfgen.batch import Batch
from cfgen.contracts import Noise
from cfgen.errors import UserError
from cfgen.networks.pixel_flow import LEVELS, PixelFlow
from cfgen.networks.vae import vae_networks_for
from lightning_modules.decay import decaying
from lightning_modules.image_mechanism import ImageMechanismModule

__all__ = ["DeepSCM"]

DECODED_AT_ONCE = 256  # images: bounds the memory of many particles, and more at once is no faster


class DeepSCM(ImageMechanismModule):
    """Eq. A.4: x = flow(mu(z, a) + sigma eps), z ~ N(0, 1), eps ~ N(0, 1) for each pixel, log sigma^2 fixed.

    mu is the decoder of a conditional VAE, trained on the ELBO.  Abduction draws z from the encoder's q(z | x, a) and
    solves for eps, so a null intervention returns the very image.  The flows of the attributes are mechanisms of the
    Attribute-SCM: `kind: deepscm` there is the published one.

    Args:
        scm: the attributes and their causal graph; comes from the data.
        image_shape: (channels, height, width); 28x28 takes the networks published for Morpho-MNIST, 64x64 Appendix H's,
            and every other size those, resized.
        width: multiplies every layer's size; less than 1 trains on a laptop.
        latent_dim: the size of z; without one, as published: 16 for 28x28, 256 for 64x64 and all others.
        log_variance: log sigma^2 of the pixels.
        preprocessing: `logit` or `unit`, the space of y; without one, as published: logit for 28x28, unit for all
            others.
        elbo_particles: draws of z an image in the ELBO.
        particles: draws of z an image in counterfactuals, which are their average.
        seed: of those draws.  They are the same for every image, so none depends on the batch it comes in.
        lr: Adam's learning rate.
        lr_decay: lower the learning rate to 0 along a cosine until training ends.
    """

    eps_z: Tensor

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        width: float = 1.0,
        latent_dim: int | None = None,
        log_variance: float = -5.0,
        preprocessing: str | None = None,
        elbo_particles: int = 4,
        particles: int = 32,
        seed: int = 0,
        lr: float = 1e-4,
        lr_decay: bool = False,
    ) -> None:
        super().__init__(scm, image_shape)
        self.save_hyperparameters()
        for name, value in (("elbo_particles", elbo_particles), ("particles", particles)):
            if value < 1:
                raise UserError(f"{name} is at least 1, not {value}")
        networks, channels, a_size = vae_networks_for(image_shape), self.image_shape[0], self.scm.schema.size
        self.latent_dim = latent_dim or networks.latent_dim
        self.sigma = math.exp(0.5 * log_variance)
        self.flow = PixelFlow(preprocessing or networks.preprocessing)
        self.elbo_particles, self.lr, self.lr_decay = elbo_particles, lr, lr_decay
        self.E = networks.encoder(channels, a_size, self.latent_dim, width)
        self.G = networks.decoder(channels, a_size, self.latent_dim, width)
        self.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
        generator = torch.Generator().manual_seed(seed)
        draws = torch.randn(particles, self.latent_dim, generator=generator)
        self.register_buffer("eps_z", draws, persistent=False)

    def model(self, v: Tensor, a: Tensor) -> None:
        """p(v, z | a) of grey levels v."""
        with pyro.plate("images", len(v)):
            z = pyro.sample("z", dist.Normal(v.new_zeros(self.latent_dim), 1.0).to_event(1))
            pixels = dist.Normal(self.locations(z, a), self.sigma).to_event(3)
            pyro.sample("v", dist.TransformedDistribution(pixels, self.flow.transform), obs=v)

    def guide(self, v: Tensor, a: Tensor) -> None:
        """q(z | v, a)."""
        with pyro.plate("images", len(v)):
            pyro.sample("z", dist.Normal(*self.posterior(v, a)).to_event(1))

    def elbo(self, x: Tensor, a: Tensor) -> Tensor:
        """E_q[log p(v | z, a)] - KL(q(z | v, a) || p(z)) in nats an image, of dequantised x; KL in closed form."""
        estimator = TraceMeanField_ELBO(self.elbo_particles, max_plate_nesting=1, vectorize_particles=True)
        return -estimator.differentiable_loss(self.model, self.guide, self.flow.dequantised(x), a) / len(x)

    def posterior(self, v: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale of q(z | v, a)."""
        loc, scale = self.E(v / LEVELS, a)
        return loc.to(v.dtype), scale.to(v.dtype)

    def locations(self, z: Tensor, a: Tensor) -> Tensor:
        """mu(z, a) for z (..., N, latent) and a (N, size): (..., N, C, H, W)."""
        a = a.expand(*z.shape[:-1], -1)
        return self.G(z.flatten(0, -2), a.flatten(0, -2)).to(z.dtype).unflatten(0, z.shape[:-1])

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> tuple[Tensor, Tensor]:
        """z, (N, particles, latent), and the pixel noise eps that makes each of them yield x, (N, particles, C, H, W)."""
        v = self.flow.centred(x)
        loc, scale = self.posterior(v, a)
        z = loc[:, None] + scale[:, None] * self.eps_z
        y = self.flow.unconstrained(v)
        eps = [(y[rows, None] - self.by_particle(z[rows], a[rows])) / self.sigma for rows in self.parts(z)]
        return z, torch.cat(eps)

    def decode(self, z: tuple[Tensor, Tensor], a: Tensor) -> Tensor:
        """The average of the particles' images."""
        latent, eps = z
        images = [
            self.flow.image(self.by_particle(latent[rows], a[rows]) + self.sigma * eps[rows]).mean(dim=1)
            for rows in self.parts(latent)
        ]
        return torch.cat(images)

    def prior(self, a: Tensor, noise: Noise | None = None) -> tuple[Tensor, Tensor]:
        """z and eps from N(0, 1), one particle each."""
        z = self.gaussian(len(a), 1, self.latent_dim, noise=noise)
        return z, self.gaussian(len(a), 1, *self.image_shape, noise=noise)

    def by_particle(self, z: Tensor, a: Tensor) -> Tensor:
        """mu(z, a) for z (N, particles, latent): (N, particles, C, H, W)."""
        return self.locations(z.transpose(0, 1), a).transpose(0, 1)

    def parts(self, z: Tensor) -> Iterator[slice]:
        """Rows of z (N, particles, latent) that are decoded at once; in training all, for batch norm sees them together."""
        step = len(z) if self.training else max(1, DECODED_AT_ONCE // z.shape[1])
        return (slice(start, start + step) for start in range(0, max(1, len(z)), max(1, step)))

    def training_step(self, batch: Batch, _: int) -> Tensor:
        elbo = self.elbo(batch.x, batch.a)
        self.log("train/elbo", elbo.detach())
        return -elbo

    def validation_step(self, batch: Batch, _: int) -> None:
        """`val/elbo`, and `val/mse_x_mean`: between x and the decoder's mean at q's mean, pixel noise left out.

        With the pixel noise the reconstruction is x itself.
        """
        x, a = batch.x, batch.a
        mean = self.flow.image(self.locations(self.posterior(self.flow.centred(x), a)[0], a))
        values = {"val/elbo": self.elbo(x, a), "val/mse_x_mean": nn.functional.mse_loss(mean, x)}
        self.log_dict(values, batch_size=len(x), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam([*self.E.parameters(), *self.G.parameters()], self.lr)
        return decaying(self, optimiser) if self.lr_decay else optimiser
