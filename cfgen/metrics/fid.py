"""Fréchet distance between the features of real images and of a model's (Heusel et al., 2017; Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from cfgen.attributes import Columns
from cfgen.counterfactual import ImageMechanism, State, as_unit_float
from cfgen.errors import UserError
from cfgen.scm import AttributeSCM

__all__ = ["FID", "do_name", "fids"]

# images: on a CPU, half the time an image of batches of 100; noise is drawn and work shared in this unit, so that no value
# depends on the number of processes
AT_ONCE = 20


class GeneratingMechanism(ImageMechanism, Protocol):
    """An image mechanism whose exogenous state can also be drawn."""

    def prior(self, rows: int) -> State: ...


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
        images = as_unit_float(images.to(self.device)).float()
        return images.mul(255).round().clamp(0, 255).div(255).expand(-1, 3, -1, -1)


@torch.inference_mode()
def fids(
    metric: FID,
    mechanism: GeneratingMechanism,
    scm: AttributeSCM,
    x: Tensor,
    columns: Columns,
    interventions: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
) -> dict[str, Tensor]:
    """FID against the images x of `generated` ones, z from the prior and a from x's, and of x's counterfactuals by `do`.

    An image that has the values asked for already would come back as its reconstruction: counterfactuals are of the
    others alone.  The features of x are computed unless the metric has them.  With `share` (i, n) every n-th batch from
    the i-th is this process's work; the values do not depend on it.
    """
    device = scm.schema.low.device
    a = scm.schema.encode({name: column.to(device) for name, column in columns.items()})
    every = torch.arange(len(x))
    if metric.real_features_num_samples == 0:
        for rows in _shared(every, seed, share, device):
            metric.update(x[rows], real=True)
    generated = (mechanism.decode(mechanism.prior(len(rows)), a[rows]) for rows in _shared(every, seed, share, device))
    values = {"generated": metric.distance_of(generated)}
    for do in interventions:
        a_c = scm.counterfactual_vector(a, do, torch.Generator(device).manual_seed(seed))
        changed = (a_c != a).any(dim=1).nonzero()[:, 0].cpu()
        counterfactuals = (
            mechanism.decode(mechanism.abduct(as_unit_float(x[rows]).to(device), a[rows]), a_c[rows])
            for rows in _shared(changed, seed, share, device)
        )
        values[do_name(do)] = metric.distance_of(counterfactuals)
    return values


def do_name(do: Mapping[str, Any]) -> str:
    return f"do({','.join(f'{name}={value}' for name, value in do.items())})"


def _shared(rows: Tensor, seed: int, share: tuple[int, int], device: torch.device) -> Iterator[Tensor]:
    """This process's batches of rows; what is drawn while one is handled depends on the seed and the batch alone."""
    for number, batch in enumerate(rows.split(AT_ONCE)):
        if number % share[1] != share[0]:
            continue
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
            yield batch
