"""Reconstructions (Eq. 3) and counterfactuals (Eq. 1): of a batch, and of whole data sets by `sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.contracts import CausalImageMechanism, ImageMechanism, Noise, State, rows
from cfgen.errors import UserError

__all__ = ["Asked", "Swept", "as_unit_float", "asked_of", "reconstruct", "sweep"]

BATCH_SIZE = 250


def as_unit_float(images: Tensor) -> Tensor:
    """Images as float in [0, 1]: uint8 is divided by 255, float passes.

    >>> as_unit_float(torch.tensor([0, 51, 255], dtype=torch.uint8))
    tensor([0.0000, 0.2000, 1.0000])
    """
    return images.float().div_(255) if images.dtype == torch.uint8 else images


def reconstruct(mechanism: ImageMechanism, x: Tensor, a: Tensor) -> Tensor:
    """Eq. 3: x_r = G(E(x, a), a)."""
    return mechanism.decode(mechanism.abduct(x, a), a)


@dataclass(frozen=True)
class Asked:
    """What is asked of a data set: the attributes a_c (N, size) that images should have, and of which it is asked, (N,)."""

    a_c: Tensor
    of: Tensor

    @property
    def count(self) -> int:
        return int(self.of.sum())


def asked_of(
    mechanism: CausalImageMechanism,
    columns: Columns,
    do: Mapping[str, Any],
    seed: int = 0,
    changed_only: bool = False,
    hold: Iterable[str] = (),
) -> Asked:
    """The intervention `do`, in real units, on images with these attributes; the Attribute-SCM lets effects follow.

    Noise that the Attribute-SCM has to abduct is drawn for all rows at once with `seed`, so two interventions share it.
    With `changed_only` it is asked of those images alone that do not have the values already.  Attributes to `hold` keep each
    image's own value although the intervention would change it.
    """
    if not 0 <= seed < 2**63:  # what torch takes
        raise UserError(f"expected a whole number from 0 to 2^63 - 1, not {seed}", argument="seed")
    schema = mechanism.scm.schema
    device = schema.low.device
    own = {name: columns[name].to(device) for name in schema.names}
    a_c = mechanism.scm.counterfactual_vector(schema.encode(own), do, torch.Generator(device).manual_seed(seed), hold)
    of = torch.ones(len(a_c), dtype=torch.bool)
    if changed_only:
        wanted = schema.check_do(do, len(a_c))
        of = torch.stack([own[name] != value for name, value in wanted.items()]).any(dim=0).cpu()
    return Asked(a_c, of)


@dataclass
class Swept:
    """A batch of a sweep: its images, their states, and what they would have been; everything is computed at most once.

    `rows` are the images' numbers in the data set, on the CPU; all else is on the mechanism's device.  Noise depends on `keys`,
    by default the numbers.
    """

    mechanism: CausalImageMechanism
    rows: Tensor
    x: Tensor
    a: Tensor
    seed: int
    asked: Mapping[str, Asked]
    keys: Tensor | None = None
    _x_c: dict[str, Tensor] = field(default_factory=dict, repr=False)
    _z_c: dict[str, State] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def noise(self, stream: int = 0) -> Noise:
        """The images' own random numbers, the same from the start each time; another `stream` has others."""
        return Noise(self.seed + (stream << 32), self.rows if self.keys is None else self.keys, self.x.device)

    @cached_property
    @torch.inference_mode()
    def z(self) -> State:
        """The images' states, E(x, a)."""
        return self.mechanism.abduct(self.x, self.a, self.noise())

    @cached_property
    @torch.inference_mode()
    def x_r(self) -> Tensor:
        """The reconstructions, Eq. 3."""
        return self.mechanism.decode(self.z, self.a)

    @cached_property
    @torch.inference_mode()
    def own_x_r(self) -> Tensor:
        """The reconstructions as the network draws them, without a residual that its state keeps."""
        return self.mechanism.own_reconstruction(self.z, self.a)

    def of(self, name: str) -> Tensor:
        """Which images of the batch an intervention is asked of."""
        return self.asked[name].of[self.rows]

    def a_c(self, name: str) -> Tensor:
        """The attributes that the images should have under an intervention; of those alone that it is asked of."""
        chosen = self.rows[self.of(name)]
        return self.asked[name].a_c[chosen.to(self.asked[name].a_c.device)]

    def x_c(self, name: str) -> Tensor:
        """The counterfactuals under an intervention, Eq. 1; of those images alone that it is asked of."""
        if name not in self._x_c:
            self._x_c[name] = self.decode(self.a_c(name), self.of(name))
        return self._x_c[name]

    @torch.inference_mode()
    def z_c(self, name: str) -> State:
        """The states abducted from the counterfactuals under an intervention."""
        if name not in self._z_c:
            keys = self.rows if self.keys is None else self.keys
            noise = Noise(self.seed + (1 << 32), keys[self.of(name)], self.x.device)
            self._z_c[name] = self.mechanism.abduct(self.x_c(name), self.a_c(name), noise)
        return self._z_c[name]

    @torch.inference_mode()
    def decode(self, a_c: Tensor, of: Tensor | None = None) -> Tensor:
        """The images of this batch, or of those of its rows that a mask chooses, with attributes a_c; not kept."""
        if not len(a_c):
            return self.x[:0]
        if of is None or bool(of.all()):
            return self.mechanism.decode(self.z, a_c)
        filled = filled_up(len(a_c), len(self))
        z = rows(self.z, of.nonzero()[filled, 0].to(self.x.device))
        return self.mechanism.decode(z, a_c[filled.to(a_c.device)])[: len(a_c)]

    def spread(self, name: str, values: Tensor) -> Tensor:
        """Values of the images that an intervention is asked of at their places in the batch, with NaN between."""
        return spread(values, self.of(name))


def filled_up(count: int, most: int) -> Tensor:
    """The numbers of `count` images, the last one repeated up to a multiple of 8, but not beyond `most`.

    What a network compiles for each number of images that it is given is kept.  How many images of a batch an intervention is
    asked of is chance: without this, a sweep over more images meets more such numbers, and memory grows.

    >>> filled_up(3, most=100)
    tensor([0, 1, 2, 2, 2, 2, 2, 2])
    """
    return torch.arange(max(count, min(-(-count // 8) * 8, most))).clamp_(max=count - 1)


def spread(values: Tensor, of: Tensor) -> Tensor:
    """Values of chosen images, (number chosen, ...), at their places among all of a mask, with NaN between.

    >>> spread(torch.tensor([1.0, 2.0]), torch.tensor([True, False, True]))
    tensor([1., nan, 2.])
    """
    whole = torch.full((len(of), *values.shape[1:]), torch.nan, device=values.device)
    whole[of.to(values.device)] = values.float()
    return whole


@torch.inference_mode()
def sweep(
    mechanism: CausalImageMechanism,
    x: Tensor,
    columns: Columns,
    asked: Mapping[str, Asked] | None = None,
    *,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
    share: tuple[int, int] = (0, 1),
    only: Tensor | None = None,
    keys: Tensor | None = None,
    advance: Callable[[int], None] = lambda images: None,
) -> Iterator[Swept]:
    """Goes over a data set a batch at a time: for each image its state once and each asked counterfactual once.

    `x` (N, C, H, W) may be uint8 and a memory map, `columns` are its attributes in real units.  What is computed of an image
    depends on the seed and its number alone: neither on `batch_size`, nor on `share` (i, n), with which every n-th image from
    the i-th is this process's, nor on `only`, the numbers of the images to look at.  Memory is bounded by a batch.  With `keys`,
    (N,) whole numbers, noise depends on an image's key in place of its number.
    `advance` is told how many images are done, with an estimate of those of other processes.

    >>> class Brightness:  # x = z + a
    ...     def abduct(self, x, a, noise=None): return x - a[:, :, None, None]
    ...     def decode(self, z, a): return z + a[:, :, None, None]
    >>> from cfgen.scm import AttributeSCM
    >>> mechanism, columns = Brightness(), {"light": torch.tensor([0.0, 0.25, 0.5])}
    >>> mechanism.scm = AttributeSCM({"light": {"kind": "continuous", "low": 0, "high": 1}}).fit(columns)
    >>> asked = {"lit": asked_of(mechanism, columns, {"light": 1.0})}
    >>> [batch.x_c("lit").flatten().tolist() for batch in sweep(mechanism, torch.zeros(3, 1, 1, 1), columns, asked, batch_size=2)]
    [[1.0, 0.75], [0.5]]
    """
    schema = mechanism.scm.schema
    device = schema.low.device
    a = schema.encode({name: columns[name].to(device) for name in schema.names})
    numbers = torch.arange(len(x)) if only is None else only.cpu()
    mine = numbers[share[0] :: share[1]]
    for batch in mine.split(batch_size) if len(mine) else ():  # of nothing, split makes one empty batch
        # not named here: the images are gone before the next ones are made
        yield Swept(
            mechanism, batch, as_unit_float(x[batch].to(device)).to(a.dtype), a[batch.to(device)], seed, asked or {},
            None if keys is None else keys[batch],
        )  # fmt: skip
        advance(len(batch) * share[1])
