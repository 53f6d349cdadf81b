"""A small world with every kind of attribute and a target of three classes, and networks that look at its images."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from cfgen.attributes import TargetKind
from datamodules.base import Split
from tests.fakes import BINARY, FREE, SHAPE, Painted, Painter, finished, fitted, stripes

ATTRIBUTES = {
    "old": BINARY,
    "size": {"kind": "continuous", "low": 0.0, "high": 4.0},
    "coat": {"kind": "categorical", "values": ["red", "grey", "white"]},
}
EDGES = [["old", "size"]]
ANIMALS = ("cat", "dog", "hen")
STRENGTH = 0.3
HEIGHT = (SHAPE[1] - FREE) // 5  # rows of a stripe: old, size, and one for each coat


class Herd(Painted):
    """Old animals are larger; what an animal is follows its size and age."""

    def __init__(self, rows: int = 700, batch_size: int = 50, continuous: bool = False) -> None:
        super().__init__(ATTRIBUTES, EDGES, SHAPE, rows, batch_size, strength=STRENGTH)
        self._mechanisms = {"size": {"kind": "gaussian"}}  # as it is drawn
        self.continuous = continuous

    @property
    def target_kind(self) -> TargetKind:
        return TargetKind("weight", "continuous") if self.continuous else TargetKind("animal", "categorical", ANIMALS)

    def split(self, generator: torch.Generator) -> Split:
        old = (torch.rand(self.rows, generator=generator) < 0.5).float()
        size = (1.4 + 0.6 * old + 0.7 * torch.randn(self.rows, generator=generator)).clamp(0, 4)
        coat = torch.randint(3, (self.rows,), generator=generator).float()
        columns = {"old": old, "size": size, "coat": coat}
        x = self.background(generator) + torch.einsum(
            "nk,kchw->nchw", self._schema.encode(columns), stripes(5, SHAPE, STRENGTH)
        )
        y = 10 * size + 3 * old if self.continuous else (size > 1.2).long() + (size + old > 2.4).long()
        return Split((x * 255).round().to(torch.uint8), columns, y)


def brightness(x: Tensor) -> Tensor:
    """How much each stripe is brighter than the free rows, (N, 5): the attributes as they are painted."""
    bright = x[:, 0, : 5 * HEIGHT].mean(dim=2).unflatten(1, (5, HEIGHT)).mean(dim=2)
    return (bright - x[:, 0, -FREE:].mean(dim=(1, 2))[:, None]) / STRENGTH


class Animals(nn.Module):
    """Logits of cat, dog and hen: large ones are hens, old ones more often dogs; the brightness of a picture counts a little."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-4.0, -12.0, 6.0], [3.0, 0.0, -3.0], [0.0, 9.0, -3.0]]))
            self.head.bias.copy_(torch.tensor([4.0, 0.0, -4.0]))

    def forward(self, x: Tensor) -> Tensor:
        seen = brightness(x)
        return self.head(torch.cat([seen[:, :2], x[:, 0, -FREE:].mean(dim=(1, 2))[:, None]], dim=1))


class Probable(Animals):
    """The same as probabilities."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(dim=1)


class Numbered(Animals):
    """The number of the class alone."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).argmax(dim=1)


class DogOrNot(Animals):
    """Two logits, of no dog and of a dog."""

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        return torch.stack([logits[:, [0, 2]].logsumexp(dim=1), logits[:, 1]], dim=1)


class Weighs(nn.Module):
    """Predicts a weight in kilograms: 40 for each unit of the scaled size and 6 for age, with a bend."""

    def forward(self, x: Tensor) -> Tensor:
        old, size = brightness(x)[:, :2].unbind(dim=1)
        return weight_of(old, 4 * size) + 5 * x[:, 0, -FREE:].mean(dim=(1, 2))


def weight_of(old: Tensor, size: Tensor) -> Tensor:
    return 10 * size + 6 * old + 2 * (size - 2) ** 2


def herd_run(folder: Path, rows: int = 700, continuous: bool = False) -> Path:
    """A run of an exact model of the herd."""
    data = Herd(rows, continuous=continuous)
    settings = {"rows": rows, "continuous": continuous}
    config = {"data": {"class_path": "tests.audit.herd.Herd", "init_args": settings}}
    return finished(fitted(Painter, data, strength=STRENGTH), folder, config)
