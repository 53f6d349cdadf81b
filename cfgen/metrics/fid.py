"""Fréchet distance between the features of real images and of a model's (Heusel et al., 2017; Table 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from cfgen.attributes import Columns
from cfgen.contracts import CausalImageMechanism
from cfgen.counterfactual import Swept, as_unit_float, asked_of, sweep
from cfgen.errors import UserError

__all__ = ["FID", "fids", "intervention_name"]

AT_ONCE = 20  # images: on a CPU, half the time an image of batches of 100


class FID(FrechetInceptionDistance):
    """|mu - mu'|² + tr(S + S' - 2 (S S')^½), with mean and covariance of the features of real images and of others.

    Takes images of any size in [0, 1], grey or colour, rounded to 8 bits as files are.  The statistics of the real images
    stay when it is reset.  An estimate from few images is too high (with fewer than features the covariance is
    singular): compare only values from the same number of images and the same network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__(feature=network, normalize=True, reset_real_features=False)
        self.orig_dtype = torch.float32  # learnt at an update, of which a process without images sees none

    def update(self, imgs: Tensor, real: bool) -> None:
        super().update(self._prepared(imgs), real)

    def compute(self) -> Tensor:
        return super().compute().clamp(min=0)  # of equal sets, rounding may leave it just below

    def distance_of(self, batches: Iterable[Tensor]) -> Tensor:
        """The distance of these images, a process's share of them, from the real ones seen so far by all processes."""
        self.reset()
        for images in batches:
            self.update(images, real=False)
        return self.compute()

    @torch.no_grad()
    def check(self, images: Tensor) -> None:
        """Refuses a network that does not give (N, num_features) for such images."""
        expected = (len(images), self.inception.num_features)
        found = tuple(self.inception(self._prepared(images)).shape)
        if found != expected:
            raise UserError(f"the feature network must return {expected} for {len(images)} images, not {found}")

    def _prepared(self, images: Tensor) -> Tensor:
        if (channels := images.shape[1]) not in (1, 3):
            raise UserError(f"FID is of grey or colour images, with 1 or 3 channels, and these have {channels}")
        images = as_unit_float(images.to(self.device)).float()
        return images.mul(255).round().clamp(0, 255).div(255).expand(-1, 3, -1, -1)


@torch.inference_mode()
def fids(
    metric: FID,
    mechanism: CausalImageMechanism,
    x: Tensor,
    columns: Columns,
    interventions: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
    advance: Callable[[int], None] = lambda images: None,
) -> dict[str, Tensor]:
    """FID against the images x of `generated` ones, z from the prior and a from x's, and of x's counterfactuals by `do`.

    An image that has the values asked for already would come back as its reconstruction: counterfactuals are of the
    others alone.  The features of x are computed unless the metric has them.  With `share` (i, n) every n-th image from
    the i-th is this process's work; the values do not depend on it.
    """
    every = torch.arange(len(x))
    asked = {intervention_name(do): asked_of(mechanism, columns, do, seed, changed_only=True) for do in interventions}

    def batches(numbers: Tensor) -> Iterator[Swept]:
        return sweep(
            mechanism, x, columns, asked, seed=seed, batch_size=AT_ONCE, share=share, only=numbers, advance=advance
        )

    if metric.real_features_num_samples == 0:
        for rows in every[share[0] :: share[1]].split(AT_ONCE):
            metric.update(x[rows], real=True)
    generated = (mechanism.decode(mechanism.prior(batch.a, batch.noise()), batch.a) for batch in batches(every))
    values = {"generated": metric.distance_of(generated)}
    for name, question in asked.items():
        values[name] = metric.distance_of(batch.x_c(name) for batch in batches(question.of.nonzero()[:, 0]))
    return values


def intervention_name(do: Mapping[str, Any]) -> str:
    """What an intervention is called.

    >>> intervention_name({"Bangs": 1, "Young": 0})
    'do(Bangs=1,Young=0)'
    """
    return f"do({','.join(f'{name}={value}' for name, value in do.items())})"
