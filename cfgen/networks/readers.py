"""Networks that a hierarchy plays against: readers of attributes, from images and from states, and a critic of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfgen import losses
from cfgen.attributes import Binary, Continuous, Schema
from cfgen.networks.hierarchy import GLOBAL, STEM, Residual
from cfgen.networks.layers import initialise_he

__all__ = ["AttributeClasses", "ImageCritic", "ImageReader", "StateReader", "disturbed", "moved_against"]

BINS = 10  # classes of a continuous attribute, equally frequent

SLOPE = 0.2
SHIFT = 2  # pixels
NOISE = 0.08
SOFTENED = 0.1  # share of a label that goes to all classes alike


class Trunk(nn.Sequential):
    """Features of images of any size, without normalisation: it learns from real images and judges generated ones."""

    def __init__(self, channels: int, size: int, features: int) -> None:
        grid, wide = size // STEM, 32
        rows: list[nn.Module] = [nn.PixelUnshuffle(STEM), nn.Conv2d(channels * STEM**2, wide, 3, padding=1), act()]
        while grid > 8 and wide < 128:
            rows += [nn.Conv2d(wide, 2 * wide, 4, stride=2, padding=1), act()]
            grid, wide = grid // 2, 2 * wide
            rows += [nn.Conv2d(wide, wide, 3, padding=1), act()]
        rows += [nn.AdaptiveAvgPool2d(min(grid, 8)), nn.Flatten(), nn.Linear(wide * min(grid, 8) ** 2, features), act()]
        super().__init__(*rows)
        initialise_he(self, SLOPE)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - 0.5)


class ImageReader(nn.Module):
    """Reads the attributes from an image: one output for each entry of a, as `AttributePredictor` has them.

    It reads continuous attributes in standard deviations, which `fit` finds: a range may be long and hardly used, and an error
    that is small beside it is not small for the images there are.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, channels: int, size: int, schema: Schema) -> None:
        super().__init__()
        self.trunk, self.out = Trunk(channels, size, 128), nn.Linear(128, schema.size)
        self.continuous = [schema.slices[name].start for name in schema.continuous]
        self.register_buffer("centre", torch.zeros(schema.size))
        self.register_buffer("spread", torch.ones(schema.size))

    @torch.no_grad()
    def fit(self, a: Tensor) -> None:
        """From the attributes of the training images."""
        if not self.continuous:
            return
        self.centre[self.continuous] = a[:, self.continuous].mean(dim=0)
        self.spread[self.continuous] = a[:, self.continuous].std(dim=0).clamp(min=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return self.centre + self.spread * self.out(self.trunk(x))

    def errors(self, x: Tensor, a: Tensor, schema: Schema) -> Tensor:
        """How far the reading of each image is from each of its attributes, (N, attributes)."""
        read = self(x).to(a.dtype)
        return losses.attribute_errors(read / self.spread, a / self.spread, schema)


class ImageCritic(nn.Module):
    """Logits, (N,), of whether an image is a real one with its attributes: a projection discriminator (Miyato, 2018)."""

    def __init__(self, channels: int, size: int, a_size: int) -> None:
        super().__init__()
        self.trunk, self.out, self.match = Trunk(channels, size, 128), nn.Linear(128, 1), nn.Linear(a_size, 128)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        h = self.trunk(x)
        return self.out(h).flatten() + (h * self.match(a)).sum(dim=1)


class StateReader(nn.Module):
    """Reads the attributes from all parts of a state, where there should be nothing to read."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], outputs: int, width: int = 64) -> None:
        super().__init__()
        # from fine to coarse, as they are folded into each other
        self.parts = [part for part in shapes if part != GLOBAL][::-1]
        self.enter = nn.ModuleDict({part: nn.Conv2d(shapes[part][0], width, 3, padding=1) for part in self.parts})
        self.look = nn.ModuleDict({part: Residual(width) for part in self.parts})
        self.grid = shapes[self.parts[-1]][-1] if self.parts else 0
        inputs = shapes[GLOBAL][0] + width * self.grid**2
        hidden = [nn.Linear(inputs, 256), act(), nn.Linear(256, 256), act()]
        self.out = nn.Sequential(*hidden, nn.Linear(256, outputs))

    def forward(self, z: Mapping[str, Tensor]) -> Tensor:
        seen = [z[GLOBAL]]
        h: Tensor | None = None
        for part in self.parts:
            entered = self.enter[part](z[part])
            if h is not None:
                entered = entered + F.adaptive_avg_pool2d(h, entered.shape[-1])
            h = self.look[part](entered)
        if h is not None:
            seen.append(F.silu(h).flatten(1))
        return self.out(torch.cat(seen, dim=1))


class AttributeClasses(nn.Module):
    """Every attribute as classes, whose frequencies are what may be said of them without looking.

    A continuous attribute has ten, equally frequent.  `fit` finds them; they travel in the checkpoint.
    """

    edges: Tensor
    frequencies: Tensor

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.kinds = {name: (type(kind), schema.slices[name]) for name, kind in schema.attributes.items()}
        self.sizes = [
            BINS if isinstance(kind, Continuous) else max(2, kind.size) for kind in schema.attributes.values()
        ]
        self.register_buffer("edges", torch.zeros(len(schema.continuous), BINS - 1))
        self.register_buffer("frequencies", torch.zeros(sum(self.sizes)))

    @property
    def fitted(self) -> bool:
        return bool(self.frequencies.any())

    @torch.no_grad()
    def fit(self, a: Tensor) -> None:
        """From the attributes of the training images."""
        shares = torch.linspace(0, 1, BINS + 1, device=a.device)[1:-1].to(a)
        values = [a[:, part].flatten() for kind, part in self.kinds.values() if kind is Continuous]
        # torch's quantile takes 16 million values at most
        for row, column in zip(self.edges, values, strict=True):
            row.copy_(column.sort().values[(shares * (len(column) - 1)).long()])
        counts = [torch.bincount(of, minlength=n) for of, n in zip(self.of(a), self.sizes, strict=True)]
        self.frequencies.copy_(torch.cat(counts) / len(a))

    def of(self, a: Tensor) -> list[Tensor]:
        """The class of each image, (N,), for every attribute."""
        edges = iter(self.edges)
        found = []
        for kind, part in self.kinds.values():
            if kind is Continuous:
                found.append(torch.bucketize(a[:, part].flatten().contiguous(), next(edges)))
            else:
                found.append(a[:, part].flatten().round().long() if kind is Binary else a[:, part].argmax(dim=1))
        return found

    def reading(self, logits: Tensor, a: Tensor) -> Tensor:
        """How badly classes are read: the mean cross-entropy over attributes, with softened labels.

        A reader that may not be sure leaves a slope to go down; one that is sure throws the states about.
        """
        rows = zip(logits.split(self.sizes, dim=1), self.of(a), strict=True)
        return torch.stack([F.cross_entropy(part, of, label_smoothing=SOFTENED) for part, of in rows]).mean()

    def leak(self, logits: Tensor) -> Tensor:
        """How far a reading is from saying nothing: KL(frequencies | what is read), the mean over attributes; 0 at best."""
        rows = zip(logits.split(self.sizes, dim=1), self.frequencies.split(self.sizes), strict=True)
        return torch.stack(
            [(p * (p.clamp(min=1e-6).log() - part.log_softmax(dim=1))).sum(dim=1).mean() for part, p in rows]
        ).mean()


def act() -> nn.Module:
    return nn.LeakyReLU(SLOPE)


def disturbed(x: Tensor, soften: bool, strength: float = 1.0) -> Tensor:
    """Images shifted by up to two pixels, with noise of this strength: what a reader cannot see then, it cannot be fooled by.

    Softening some helps too, but changes what is measured of strokes, such as their thickness.
    """
    down, right = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    x = F.pad(x, (SHIFT,) * 4, mode="replicate")[..., down : down + x.shape[-2], right : right + x.shape[-1]]
    if soften and torch.rand(()) < 0.3:
        x = F.avg_pool2d(F.pad(x, (1,) * 4, mode="replicate"), 3, stride=1)
    return x + strength * NOISE * torch.rand(len(x), 1, 1, 1, device=x.device) * torch.randn_like(x)


def moved_against(error: Callable[[Tensor], Tensor], x: Tensor, distance: float) -> Tensor:
    """Images moved to where a reader errs most, by up to `distance` (a root mean square over pixels): one step along the
    gradient of its error, as in adversarial training (Goodfellow, 2015), of random length, so that it sees the images too."""
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(error(x), x)
    size = slope.flatten(1).float().norm(dim=1).clamp(min=1e-12).view(-1, 1, 1, 1)
    length = distance * x[0].numel() ** 0.5 * torch.rand(len(x), 1, 1, 1, device=x.device)
    return (x + length * slope / size).detach()
