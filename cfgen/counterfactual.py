"""The one contract: an image mechanism x := g(z, a), its reconstructions (Eq. 3) and its counterfactuals (Eq. 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from cfgen.scm import AttributeSCM

__all__ = [
    "Counterfactual",
    "ImageMechanism",
    "State",
    "as_unit_float",
    "counterfactual",
    "counterfactuals",
    "reconstruct",
]

State = Any
"""Exogenous state of an image: whatever the model needs, a tensor or a tuple of tensors.  Callers never look inside."""


@runtime_checkable
class ImageMechanism(Protocol):
    """x := g(z, a).  `decode` runs g, `abduct` inverts it; z is whatever state the model needs for that.

    Images are float in [0, 1], (N, C, H, W); `a` is the model vector of a `Schema`, (N, size).
    """

    def abduct(self, x: Tensor, a: Tensor) -> State: ...

    def decode(self, z: State, a: Tensor) -> Tensor: ...


class Counterfactual(NamedTuple):
    """The base image x_r, the counterfactual image x_c and the attributes a_c it was made with, as model vectors."""

    x_r: Tensor
    x_c: Tensor
    a_c: Tensor


def reconstruct(mechanism: ImageMechanism, x: Tensor, a: Tensor) -> Tensor:
    """Eq. 3: x_r = G(E(x, a), a)."""
    return mechanism.decode(mechanism.abduct(x, a), a)


def counterfactual(
    mechanism: ImageMechanism,
    scm: AttributeSCM,
    x: Tensor,
    a: Tensor,
    do: Mapping[str, Any],
    generator: torch.Generator | None = None,
) -> Counterfactual:
    """Eq. 1: x_c = G(E(x, a), a_c), and the base image x_r from the same z.  `do` is in real units."""
    a_c = scm.counterfactual_vector(a, do, generator)
    z = mechanism.abduct(x, a)
    return Counterfactual(mechanism.decode(z, a), mechanism.decode(z, a_c), a_c)


@torch.inference_mode()
def counterfactuals(
    mechanism: ImageMechanism,
    scm: AttributeSCM,
    x: Tensor,
    a: Tensor,
    do: Mapping[str, Any],
    generator: torch.Generator | None = None,
    batch_size: int = 256,
) -> Iterator[Counterfactual]:
    """Eq. 1 over a data set of any size, a batch at a time: memory is bounded by `batch_size` images.

    `x` may be uint8 and may be a memory map.  The attributes, which are small, are intervened on all at once, so that the
    noise drawn for a row does not depend on the batch size.
    """
    a_c = scm.counterfactual_vector(a.to(scm.schema.low.device), do, generator)
    for start in range(0, len(x), batch_size):
        rows = slice(start, start + batch_size)
        images = as_unit_float(x[rows]).to(a_c.device)
        z = mechanism.abduct(images, a[rows].to(a_c.device))
        yield Counterfactual(mechanism.decode(z, a[rows].to(a_c.device)), mechanism.decode(z, a_c[rows]), a_c[rows])


def as_unit_float(images: Tensor) -> Tensor:
    """Images as float in [0, 1]: uint8 is divided by 255, float passes."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images
