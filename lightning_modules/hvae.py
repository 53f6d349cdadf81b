"""HVAE: a hierarchical variational mechanism whose states say nothing about the attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfgen import losses
from cfgen.batch import Batch
from cfgen.contracts import Noise
from cfgen.errors import UserError
from cfgen.networks.asked import asked_attributes
from cfgen.networks.hierarchy import GLOBAL, Hierarchy, levels_for
from cfgen.networks.pixel_noise import NoisyState, abducted, counterfactual, visible
from cfgen.networks.readers import AttributeClasses, ImageCritic, ImageReader, StateReader, disturbed, moved_against
from cfgen.networks.within import within
from lightning_modules.two_optimisers import TwoOptimisers

__all__ = ["HVAE"]

R1_EVERY = 8  # steps: the penalty changes slowly and costs a second derivative


class HVAE(TwoOptimisers):
    """x = mu(z, a) + sigma(z, a) u: z ~ N(0, 1) at several resolutions, u ~ N(0, 1) for every pixel.

    Trained by the ELBO, against two readers.  One reads the attributes from z: the encoder leaves it nothing to read, or do()
    would be ignored.  One reads them from counterfactuals, where they should be as asked.  Both learn meanwhile.

    Abduction solves for u, so a null intervention returns the very image.  A counterfactual keeps u, at no larger a scale than
    the image has it, and with a `threshold` it keeps every pixel that the intervention moves by less than the model itself errs.

    Args:
        scm: the attributes and their causal graph; comes from the data.
        image_shape: (channels, height, width), square, 16 to 256 pixels a side, in multiples of 4.
        width: multiplies the channels of every level.
        latent_dim: the size of the part of z that has no place in the image.
        latents: channels of z by grid, such as {4x4: 16}.  Finer grids keep more of an image and
            leave less to the attributes.
        closed: steps before the states on grids begin to take part; until then the attributes learn to act.
        heads: masks of every attribute on every level, which say where it acts.
        deviation: sigma while mu learns: the smaller, the more reconstruction counts beside the rest.
        reconstruction_l1: weight of the mean absolute error between x and mu(z, a), in which composition is measured.
        kl: weight of KL(q | N(0, 1)) in the ELBO; 1 is the ELBO.
        independence: weight of keeping z from saying anything about a.
        counterfactual: weight of the error in reading a_c from x_c = mu(z, a_c).
        focus: how much more the attributes that a counterfactual changes count in that error than all together.  Among many
            attributes the one that was asked for would hardly be heard.
        disturbance: multiplies the noise on images that the reader of counterfactuals sees; against texture that fools it.
        robustness: how far, as a root mean square over pixels, images are moved against that reader while it learns: to fool
            a reader that has learned from its own mistakes, an image has to show the attribute.
        adversary: weight of a critic that tells (x_c, a_c) from (x, a), of images asked for all attributes of another image:
            if z says nothing about a, the two are alike; single interventions make pairs that no data has.
        sampled: the critic sees as many images of z ~ N(0, 1) too; else nothing in training asks what such images look like.
        r1_gamma: weight of the R1 penalty on that critic.
        warmup: steps over which those terms reach their weights; images have to be reconstructed first.
        joint: share of the training counterfactuals that take all attributes of another image; the others change one.
        threshold: how many sigma the intervention has to move a pixel, so that it moves; 0 moves all.
        fade: how many sigma the intervention moves a pixel where its noise has all but faded; 0 keeps the noise everywhere.
        lr: Adam's learning rate.
        betas: Adam's decay rates.
        lr_decay: lower the learning rate to 0 along a cosine until training ends.
        ema_decay: evaluate a moving average of the network with this decay.
    """

    training_only: ClassVar[tuple[str, ...]] = ("R", "P", "C")

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        width: float = 1.0,
        latent_dim: int = 128,
        latents: dict[str, int] | None = None,
        closed: int = 0,
        heads: int = 4,
        deviation: float = 0.05,
        reconstruction_l1: float = 0.0,
        kl: float = 1.0,
        independence: float = 1.0,
        counterfactual: float = 0.3,
        focus: float = 0.0,
        disturbance: float = 1.0,
        robustness: float = 0.0,
        adversary: float = 0.0,
        sampled: bool = False,
        r1_gamma: float = 0.5,
        warmup: int = 400,
        joint: float = 0.0,
        threshold: float = 0.0,
        fade: float = 0.0,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.99),
        lr_decay: bool = True,
        ema_decay: float = 0.998,
    ) -> None:
        super().__init__(scm, image_shape, lr=lr, betas=betas, lr_decay=lr_decay, ema_decay=ema_decay)
        self.save_hyperparameters()
        for name, value in (("deviation", deviation), ("width", width), ("latent_dim", latent_dim), ("heads", heads)):
            if value <= 0:
                raise UserError(f"expected a number above 0, not {value}", argument=name)
        if not 0 <= joint <= 1:
            raise UserError(f"expected a share from 0 to 1, not {joint}", argument="joint")
        if adversary and not joint:
            raise UserError("the critic sees counterfactuals of all attributes; set a share of them above 0", "joint")
        if sampled and not adversary:
            raise UserError("there is no critic to see images of z ~ N(0, 1); set its weight above 0", "adversary")
        self.closed, self.deviation, self.reconstruction_l1 = closed, deviation, reconstruction_l1
        self.kl, self.independence = kl, independence
        self.counterfactual, self.focus = counterfactual, focus
        self.disturbance, self.robustness = disturbance, robustness
        self.adversary, self.sampled, self.r1_gamma = adversary, sampled, r1_gamma
        self.warmup, self.joint = warmup, joint
        self.threshold, self.fade = threshold, fade
        self.clip = 1.0  # without normalisation in the network, single batches could throw it off
        channels, size, a_size = self.image_shape[0], self.image_shape[1], self.scm.schema.size
        levels = levels_for(image_shape, width, latents)
        self.net = Hierarchy(channels, a_size, levels, latent_dim, heads, deviation)
        self.classes = AttributeClasses(self.scm.schema) if independence else None
        self.R = StateReader(self.net.shapes, sum(self.classes.sizes)) if self.classes is not None else None
        self.P = ImageReader(channels, size, self.scm.schema) if counterfactual else None
        self.C = ImageCritic(channels, size, a_size) if adversary else None
        self.to(memory_format=torch.channels_last)
        self.keep_average("net")

    def players(self) -> dict[str, list[nn.Module]]:
        readers: list[nn.Module] = [reader for reader in (self.R, self.P, self.C) if reader is not None]
        return {"readers": readers, "net": [self.net]} if readers else {"net": [self.net]}

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit" and self._data is not None:  # of a resumed run, the checkpoint brings the same again
            a = self.scm.schema.encode(self._data.train_columns)
            for reader in (self.classes, self.P):
                if reader is not None:
                    reader.fit(a)
            for network in self.copies():
                network.centre.copy_(a.mean(dim=0))

    def copies(self) -> list[Any]:
        """The network and, where one is kept, its moving average."""
        return [self.net, *(average.module for average in self.averages.values())]

    @property
    def hierarchy(self) -> Hierarchy:
        """The network to use: itself in training, its moving average in evaluation."""
        found: Any = self.averaged("net")
        return getattr(found, "module", found)

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> NoisyState:
        """z by the means of q, nothing of which is drawn, and the noise of the pixels."""
        drawn, z, _ = self.hierarchy.infer(x, a)
        return abducted(x, z, drawn)

    def decode(self, z: NoisyState, a: Tensor) -> Tensor:
        return counterfactual(z, self.hierarchy.draw(z.z, a), self.threshold, self.fade)

    def own_reconstruction(self, z: NoisyState, a: Tensor) -> Tensor:
        """mu(z, a), without the noise of the pixels."""
        return visible(self.hierarchy.draw(z.z, a)).mean

    def prior(self, a: Tensor, noise: Noise | None = None) -> NoisyState:
        """z ~ N(0, 1).  u is 0: what an image has beyond its mean is no white noise, and would look like it."""
        z = {part: self.gaussian(len(a), *shape, noise=noise) for part, shape in self.hierarchy.shapes.items()}
        drawn = visible(self.hierarchy.draw(z, a))
        return NoisyState(z, torch.zeros_like(drawn.mean), *drawn)

    def latent(self, state: NoisyState) -> Tensor:
        """z within a state, all its parts in a row."""
        return torch.cat([part.flatten(1) for part in state.z.values()], dim=1)

    def elbo(self, x: Tensor, a: Tensor) -> Tensor:
        """The evidence lower bound in nats an image, (N,): E_q[log p(x | z, a)] - KL(q(z | x, a) | N(0, 1)), one draw of z."""
        drawn, _, q = self.hierarchy.infer(x, a, self.eps(len(x)))
        return losses.log_likelihood(x, *visible(drawn)) - sum(losses.kl_to_standard(*part) for part in q.values())

    def eps(self, count: int) -> dict[str, Tensor]:
        return {part: self.gaussian(count, *shape) for part, shape in self.net.shapes.items()}

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        x, a = batch.x, batch.a
        ramp = risen(self.global_step + 1, self.warmup)
        opened = risen(self.global_step - self.closed, self.closed / 4) if self.net.shapes.keys() > {GLOBAL} else 1.0
        for network in self.copies():
            network.opened.fill_(opened)
        drawn, z, q = self.net.infer(x, a, self.eps(len(x)))
        a_c, whole = asked_attributes(a, self.scm.schema, self.joint)
        x_c = within(self.net.draw(z, a_c).mean, 0, 1) if self.P is not None or self.C is not None else None
        fake = None if self.C is None or x_c is None else self.fakes(x_c[whole], a_c[whole], a[whole])
        log: dict[str, Tensor] = {}

        if "readers" in self.players():
            with self.updating("readers") as step:
                step(self.readers_loss(x, a, visible(drawn).mean.detach(), fake, whole, z, batch_idx, log))

        with self.updating("net") as step:
            error = losses.beyond(x, drawn.mean)
            log["mse_x"] = error.square().mean()
            shares = {part: 1.0 if part == GLOBAL else opened for part in q}
            log["kl"] = torch.stack([shares[part] * losses.kl_to_standard(*q[part]).mean() for part in q]).sum()
            # in nats a pixel, as the other terms do not grow with the image
            loss = log["mse_x"] / (2 * self.deviation**2) + self.kl * log["kl"] / x[0].numel()
            loss = loss + self.reconstruction_l1 * error.abs().mean()
            noise = losses.log_likelihood(x, visible(drawn).mean.detach(), drawn.log_scale)
            loss = loss - noise.mean() / x[0].numel()
            if self.R is not None and self.classes is not None:
                log["leak"] = self.classes.leak(self.R(z).to(self.dtype))
                loss = loss + ramp * self.independence * log["leak"]
            if self.P is not None and x_c is not None:
                log["loss_c"] = self.asked_error(x_c, a_c, a)
                loss = loss + ramp * self.counterfactual * log["loss_c"]
            if self.C is not None and fake is not None:
                log["loss_adversary"] = F.softplus(-self.C(*fake).to(self.dtype)).mean()
                loss = loss + ramp * self.adversary * log["loss_adversary"]
            step(loss)

        for name, value in log.items():
            self.log(f"train/{name}", value.detach(), prog_bar=name in ("mse_x", "loss_c"))

    def fakes(self, x_c: Tensor, a_c: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """What the critic has to tell from real images: counterfactuals and, where `sampled`, images of z ~ N(0, 1)."""
        if not self.sampled:
            return x_c, a_c
        x = within(self.net.draw(self.eps(len(a)), a).mean, 0, 1)
        return torch.cat([x_c, x]), torch.cat([a_c, a])

    def readers_loss(
        self,
        x: Tensor,
        a: Tensor,
        x_r: Tensor,
        fake: tuple[Tensor, Tensor] | None,
        whole: Tensor,
        z: Mapping[str, Tensor],
        batch_idx: int,
        log: dict[str, Tensor],
    ) -> Tensor:
        """What the readers and the critic minimise."""
        loss = x.new_zeros(())
        if self.R is not None and self.classes is not None:
            logits = self.R({part: value.detach() for part, value in z.items()}).to(self.dtype)
            log["loss_r"] = self.classes.reading(logits, a)
            loss = loss + log["loss_r"]
        if self.P is not None:
            # reconstructions too, every other time: that an image is drawn must tell nothing
            seen, true = (torch.cat([x, x_r]), torch.cat([a, a])) if batch_idx % 2 else (x, a)
            if self.robustness:
                seen = moved_against(lambda images: self.read_errors(images, true).mean(), seen, self.robustness)
            log["loss_p"] = self.read_errors(seen, true).mean()
            loss = loss + log["loss_p"]
        if self.C is not None and fake is not None:
            pairs = ((x[whole], a[whole]), (fake[0].detach(), fake[1]))
            log["loss_d"] = losses.ali_d(*(self.C(*pair).to(self.dtype) for pair in pairs))
            loss = loss + log["loss_d"]
            if self.r1_gamma and batch_idx % R1_EVERY == 0:
                loss = loss + R1_EVERY * self.r1_gamma * self.r1_penalty(self.C, (x,), a)
        return loss

    def read_errors(self, x: Tensor, a: Tensor) -> Tensor:
        """How far P's reading of disturbed images is from the attributes, (N, attributes)."""
        assert self.P is not None
        schema = self.scm.schema
        return self.P.errors(disturbed(x, not schema.continuous, self.disturbance), a, schema)

    def asked_error(self, x_c: Tensor, a_c: Tensor, a: Tensor) -> Tensor:
        """How far P's reading of counterfactuals is from what was asked for: the mean over attributes, and `focus` times that
        over the attributes that differ from the image's own."""
        errors = self.read_errors(x_c, a_c)
        if not self.focus:
            return errors.mean()
        parts = self.scm.schema.slices.values()
        changed = torch.stack([(a_c != a)[:, part].any(dim=1) for part in parts], dim=1)
        asked = (errors * changed).sum(dim=1) / changed.sum(dim=1).clamp(min=1)
        return errors.mean() + self.focus * asked.mean()

    def validation_step(self, batch: Batch, _: int) -> None:
        """`val/elbo` in nats a pixel and channel; `val/mse_x` between x and mu(z, a), without the noise of the pixels."""
        x, a = batch.x, batch.a
        mean = visible(self.hierarchy.infer(x, a)[0]).mean
        values = {"val/elbo": self.elbo(x, a).mean() / x[0].numel(), "val/mse_x": F.mse_loss(mean, x)}
        self.log_dict(values, batch_size=len(x), sync_dist=True)


def risen(step: float, steps: float) -> float:
    """From 0 to 1 over so many steps."""
    return min(1.0, max(0.0, step / steps)) if steps else 1.0
