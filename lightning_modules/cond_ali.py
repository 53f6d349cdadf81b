"""CondALI: conditional Adversarially Learned Inference (Section 3, Eq. 2; networks of Appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cfgen import losses
from cfgen.attributes import unknown_name
from cfgen.batch import Batch
from cfgen.contracts import Noise, State
from cfgen.errors import UserError
from cfgen.networks import DISCRIMINATORS, ENCODERS, GENERATORS, AttributePredictor, tables_for
from lightning_modules.two_optimisers import TwoOptimisers

__all__ = ["CondALI"]

Triple = tuple[Tensor, Tensor, Tensor]  # an image, a latent, attributes

R1_EVERY = 4  # steps: the penalty changes slowly and costs a second derivative


class CondALI(TwoOptimisers):
    """Eq. 2: D tells (x, E(x,a), a) from (G(z,a), z, a); E and G make it wrong on both.

    With `r1_gamma`, `reconstruction`, `counterfactual` and `ema_decay` 0 and the networks named `paper` it is the paper to the
    letter.

    Args:
        scm: the attributes and their causal graph; comes from the data.
        image_shape: (channels, height, width); 28x28 takes the Morpho-MNIST tables, 64x64 the CelebA ones, and every
            other size those of CelebA, resized.
        width: multiplies every filter count of the tables; 0.25 trains on a laptop.
        latent_dim: the size of z.
        lr: Adam's learning rate, for both players.
        betas: Adam's decay rates, for both players.
        lr_decay: lower the learning rate to 0 along a cosine until training ends; sharpens the last digits.
        r1_gamma: weight of the R1 penalty on D, for a discriminator without batch norm.
        reconstruction: weight of the mean squared error between x and x_r = G(E(x,a), a).  Without it x_r only resembles
            x; with 20, G still drew from a alone, ignoring z, after 1000 steps.
        counterfactual: weight of the error in reading a_c back from x_c = G(E(x,a), a_c), by a predictor that learns
            from the real images meanwhile.  Without it z goes on carrying attributes and do() is half ignored.
        ema_decay: evaluate a moving average of E and G with this decay, steadier than their last weights.
        reconstruction_l1: weight of the mean absolute error between x and x_r, which composition is measured by; beside the
            squared one it keeps black backgrounds black.
        generator: G. `paper` is the appendix's table; `plain` leaves out its batch norm before the sigmoid, which keeps
            backgrounds grey; `modulated` lets the attributes scale and shift every layer, not enter at the first alone, and
            grows images without the grid of transposed convolutions.
        encoder: E, the appendix's table. `paper` starts from weights of 0.01, `he` from He's.
        discriminator: D. `paper` is the appendix's table; `plain` leaves out its batch norm and dropout, with which D tends to
            win the game outright, and takes the R1 penalty in their place.
        modulated: as configs of earlier versions named the networks; leave it out.
    """

    training_only: ClassVar[tuple[str, ...]] = ("D", "P")
    generators: ClassVar[Mapping[str, Callable[..., nn.Module]]] = GENERATORS

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        width: float = 1.0,
        latent_dim: int = 512,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.5, 0.999),
        lr_decay: bool = False,
        r1_gamma: float = 1.0,
        reconstruction: float = 500.0,
        counterfactual: float = 2.0,
        ema_decay: float = 0.999,
        reconstruction_l1: float = 0.0,
        generator: str = "plain",
        encoder: str = "paper",
        discriminator: str = "plain",
        modulated: bool | None = None,
    ) -> None:
        super().__init__(scm, image_shape, lr=lr, betas=betas, lr_decay=lr_decay, ema_decay=ema_decay)
        self.save_hyperparameters()
        if modulated is not None:
            # until version 0.2, `modulated` and `r1_gamma` decided what the networks are
            discriminator = "plain" if r1_gamma else "paper"
            encoder = "he" if modulated else "paper"
            generator = generator if generator not in GENERATORS else "modulated" if modulated else discriminator
            self.hparams.update(generator=generator, encoder=encoder, discriminator=discriminator, modulated=None)
        for part, name, valid in (
            ("generator", generator, self.generators),
            ("encoder", encoder, ENCODERS),
            ("discriminator", discriminator, DISCRIMINATORS),
        ):
            if name not in valid:
                raise UserError(unknown_name(part, name, valid), argument=part)
        if r1_gamma and discriminator == "paper":
            raise UserError(
                "r1_gamma is for the discriminator `plain`: batch norm lets an image's verdict depend on the others, and a "
                "penalty on its gradient has no meaning then",
                argument="r1_gamma",
            )
        self.latent_dim = latent_dim
        self.r1_gamma, self.reconstruction, self.counterfactual = r1_gamma, reconstruction, counterfactual
        self.reconstruction_l1, self.batch_norm_in_d = reconstruction_l1, discriminator == "paper"
        tables, channels, a_size = tables_for(image_shape), self.image_shape[0], self.scm.schema.size
        self.G = self.make_generator(generator, width)
        self.E = ENCODERS[encoder](tables, channels, a_size, latent_dim, width)
        self.D = DISCRIMINATORS[discriminator](tables, channels, a_size, latent_dim, width)
        self.P = AttributePredictor(tables, channels, a_size, width) if counterfactual else None
        self.to(memory_format=torch.channels_last)  # up to twice as fast on a CPU
        self.keep_average("E", "G")

    def make_generator(self, name: str, width: float) -> nn.Module:
        sizes = (tables_for(self.image_shape), self.image_shape[0], self.scm.schema.size, self.latent_dim, width)
        return self.generators[name](*sizes)

    def players(self) -> dict[str, list[nn.Module]]:
        # the predictor learns from real images at D's turn: the two share no weights, so one optimiser serves both
        return {"d": [self.D] if self.P is None else [self.D, self.P], "eg": [self.E, self.G]}

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> State:
        return self.averaged("E")(x, a)

    def decode(self, z: State, a: Tensor) -> Tensor:
        return self.averaged("G")(z, a)

    def prior(self, a: Tensor, noise: Noise | None = None) -> State:
        return self.gaussian(len(a), self.latent_dim, noise=noise)

    def latent(self, state: State) -> Tensor:
        """z within a state: here it is all there is."""
        return state

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        x, a = batch.x, batch.a
        z, a_c = self.gaussian(len(x), self.latent_dim), self.shuffled(a)
        # E and G run once for both turns: D's step leaves them as they are
        z_x = self.E(x, a)
        x_z, x_r, x_c = self.generate(z, z_x, a, a_c)
        log: dict[str, Tensor] = {}

        real, fakes = (x, z_x, a), [(x_z, z, a)]
        if x_c is not None:  # or G would please the predictor with images that no D ever sees
            fakes.append((x_c, z_x, a_c))

        with self.updating("d") as step:  # D tells (x, E(x,a), a) from (G(z,a), z, a)
            loss = log["loss_d"] = losses.ali_d(*self.scores(*(detached(triple) for triple in (real, *fakes))))
            if self.r1_gamma and batch_idx % R1_EVERY == 0:
                loss = loss + R1_EVERY * self.r1_gamma * self.penalty(x, z_x, a)
            if self.P is not None:
                log["loss_p"] = losses.attributes(self.P(x), a, self.scm.schema)
                loss = loss + log["loss_p"]
            step(loss)

        with self.updating("eg") as step:  # E and G make D wrong on both
            loss = log["loss_eg"] = losses.ali_eg(*self.scores(real, *fakes))
            if x_r is not None:
                log["mse_x"] = nn.functional.mse_loss(x_r, x)
                loss = loss + self.reconstruction * log["mse_x"]
                if self.reconstruction_l1:
                    loss = loss + self.reconstruction_l1 * nn.functional.l1_loss(x_r, x)
            if x_c is not None and self.P is not None:
                log["loss_c"] = losses.attributes(self.P(x_c), a_c, self.scm.schema)
                loss = loss + self.counterfactual * log["loss_c"]
            step(loss)

        for name, value in log.items():
            self.log(f"train/{name}", value.detach(), prog_bar=name in ("loss_d", "loss_eg"))

    def shuffled(self, a: Tensor) -> Tensor:
        """Attributes to intervene with: each one's column in an order of its own, so no combination is left out."""
        columns = [a[:, part] for part in self.scm.schema.slices.values()]
        return torch.cat([column[torch.randperm(len(a), device=a.device)] for column in columns], dim=1)

    def generate(self, z: Tensor, z_x: Tensor, a: Tensor, a_c: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """G(z, a), and x_r and x_c where asked for, in one forward: batch norm then sees all that G has to serve."""
        pairs = [(z, a)]
        reconstructing = bool(self.reconstruction or self.reconstruction_l1)
        if reconstructing:
            pairs.append((z_x, a))
        if self.counterfactual:
            pairs.append((z_x, a_c))
        latents, attributes = zip(*pairs, strict=True)
        images = iter(self.G(torch.cat(latents), torch.cat(attributes)).split(len(z)))
        return next(images), next(images) if reconstructing else None, next(images, None)

    def scores(self, real: Triple, *fakes: Triple) -> tuple[Tensor, Tensor]:
        """D's logits of the real triples (x, E(x,a), a) and of all the fake ones."""
        if not self.batch_norm_in_d:
            logits = self.D(*(torch.cat(parts) for parts in zip(real, *fakes, strict=True))).to(self.dtype)
            return logits[: len(real[0])], logits[len(real[0]) :]
        # with batch norm in D, real and fake in one batch would be another function: each has its own statistics
        return self.D(*real).to(self.dtype), torch.cat([self.D(*fake).to(self.dtype) for fake in fakes])

    def penalty(self, x: Tensor, z_x: Tensor, a: Tensor) -> Tensor:
        """R1 at the real triples."""
        return self.r1_penalty(self.D, (x, z_x), a)

    def validation_step(self, batch: Batch, _: int) -> None:
        errors = {f"val/{name}": value for name, value in self.cycle_errors(batch.x, batch.a).items()}
        self.log_dict(errors, batch_size=len(batch.x), sync_dist=True)

    def cycle_errors(self, x: Tensor, a: Tensor) -> dict[str, Tensor]:
        """Table 2: MSE(x, x_r) of the images, and MAE(z, z_r) of latents drawn for the same attributes."""
        x_r = self.decode(self.abduct(x, a), a)
        state = self.prior(a)
        z_r = self.latent(self.abduct(self.decode(state, a), a))
        return {"mse_x": nn.functional.mse_loss(x_r, x), "mae_z": nn.functional.l1_loss(z_r, self.latent(state))}


def detached(triple: Triple) -> Triple:
    x, z, a = triple
    return x.detach(), z.detach(), a
