"""Fakes for all tests: mechanisms, classifiers, predictors and data whose right answers are known.

Importable by name (`tests.fakes.Painter`), so a checkpoint of one loads, also in another process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.attributes import Binary, Categorical, Continuous, Schema
from cfgen.batch import Batch
from cfgen.checkpoints import class_path
from cfgen.counterfactual import reconstruct
from cfgen.scm import AttributeSCM
from datamodules.base import AttributeDataModule, Split
from lightning_modules import Classifier, ImageMechanismModule

SHAPE = (1, 28, 28)
BINARY = {"kind": "binary"}
FACES = dict.fromkeys(("Black_Hair", "Pale_Skin", "Bangs"), BINARY)
DIGITS = {
    "thickness": {"kind": "continuous", "low": 0.0, "high": 4.0},
    "label": {"kind": "categorical", "values": [0, 1, 2]},
}
FREE = 4  # rows at an image's lower edge that no attribute brightens


def stripes(size: int, image_shape: Sequence[int], strength: float | Sequence[float]) -> Tensor:
    """What each of `size` attributes adds to an image: a stripe of rows of its own, (size, C, H, W)."""
    height = (image_shape[1] - FREE) // size
    added = torch.zeros(size, *image_shape)
    each = [strength] * size if isinstance(strength, float) else strength
    for k, amount in enumerate(each):
        added[k, :, height * k : height * (k + 1)] = amount
    return added


class Painter(ImageMechanismModule):
    """Exact and additive: every entry of a brightens a stripe of rows, and the state is the image without that.

    `Painter.calls` counts "abduct" and "decode" of all instances: one that a test's subject loads is counted too.
    """

    calls: ClassVar[Counter[str]] = Counter()

    def __init__(self, scm: dict[str, Any], image_shape: Sequence[int] = SHAPE, strength: Any = 0.5) -> None:
        super().__init__(scm, image_shape)
        self.save_hyperparameters()
        self.stripes = nn.Parameter(stripes(self.scm.schema.size, image_shape, strength))  # an optimiser could move it
        self.norm = nn.BatchNorm2d(1, affine=False)  # has statistics that a pass in training mode would move

    def painted(self, a: Tensor) -> Tensor:
        self.norm(a[:, :1, None, None])
        return torch.einsum("nk,kchw->nchw", a, self.stripes)

    def abduct(self, x: Tensor, a: Tensor, noise: Any = None) -> Any:
        Painter.calls["abduct"] += 1
        return x - self.painted(a)

    def decode(self, z: Any, a: Tensor) -> Tensor:
        Painter.calls["decode"] += 1
        return z + self.painted(a)

    def prior(self, a: Tensor, noise: Any = None) -> Any:
        drawn = torch.rand(len(a), *self.image_shape) if noise is None else noise.uniform(*self.image_shape)
        return 0.4 * drawn.to(a)

    def validation_step(self, batch: Batch, _: int) -> None:
        self.log("val/mse_x", (reconstruct(self, batch.x, batch.a) - batch.x).square().mean())


class Dimming(Painter):
    """Loses a part of everything that it does not paint itself."""

    def decode(self, z: Any, a: Tensor) -> Tensor:
        return super().decode(z / 2, a)


class Ignorant(Painter):
    """Draws the very image, whatever is asked."""

    def painted(self, a: Tensor) -> Tensor:
        return super().painted(a) * 0


class Drawing(Painter):
    """Draws a part of an image's state from its noise; the state is a dict with a tuple in it."""

    def abduct(self, x: Tensor, a: Tensor, noise: Any = None) -> Any:
        z, eps = super().abduct(x, a), self.gaussian(len(x), 2, noise=noise)
        return {"z": z, "drawn": (eps, self.gaussian(len(x), noise=noise))}

    def decode(self, z: Any, a: Tensor) -> Tensor:
        eps, more = z["drawn"]
        return super().decode(z["z"], a) + 0.05 * (eps.sum(dim=1) + more)[:, None, None, None]

    def prior(self, a: Tensor, noise: Any = None) -> Any:
        return self.abduct(super().prior(a, noise), a, noise)


class Affine:
    """No module, and images of any shape: x = (a_0 + 1/2) z + the sum of a, which is invertible."""

    image_shape = (4,)

    def __init__(self, scm: AttributeSCM) -> None:
        self.scm = scm

    def abduct(self, x: Tensor, a: Tensor, noise: Any = None) -> Tensor:
        return (x - a.sum(1, keepdim=True)) / (a[:, :1] + 0.5)

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return (a[:, :1] + 0.5) * z + a.sum(1, keepdim=True)

    def prior(self, a: Tensor, noise: Any = None) -> Tensor:
        return torch.rand(len(a), 4) if noise is None else noise.uniform(4)

    def own_reconstruction(self, z: Tensor, a: Tensor) -> Tensor:
        return self.decode(z, a)


class Stripes(Classifier):
    """A binary classifier that weighs how bright the stripes of three attributes are; weights may change by the epoch."""

    def __init__(self, *weights: Sequence[float]) -> None:
        super(Classifier, self).__init__()
        self.weights, self.classes = weights, 2
        self.nothing = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.tensor(self.weights[min(self.current_epoch, len(self.weights) - 1)])
        bright = x[:, 0, :24].mean(dim=2).unflatten(1, (3, 8)).mean(dim=2)
        return (bright - 0.4) @ weights[:3] + weights[3] + 0 * self.nothing

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.0)


class ReadStripes:
    """A predictor that is right about every image of `Painted`: reads how much brighter each stripe is than the free rows."""

    def __init__(self, schema: Schema, image_shape: Sequence[int] = SHAPE, strength: float = 0.5) -> None:
        self.schema, self.image_shape, self.strength = schema, tuple(image_shape), strength

    def read(self, x: Tensor) -> dict[str, Tensor]:
        size = self.schema.size
        height = (self.image_shape[1] - FREE) // size
        bright = x[:, 0, : height * size].mean(dim=2).unflatten(1, (size, height)).mean(dim=2)
        return self.schema.decode((bright - x[:, 0, -FREE:].mean(dim=(1, 2))[:, None]) / self.strength)


class Painted(AttributeDataModule):
    """Images that `Painter` made, some darker than others, of attributes drawn evenly; y is the first attribute."""

    def __init__(
        self,
        attributes: Mapping[str, Mapping[str, Any]] = FACES,
        edges: Sequence[Sequence[str]] = (),
        image_shape: tuple[int, int, int] = SHAPE,
        rows: int = 240,
        batch_size: int = 30,
        strength: Any = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(attributes, edges, {}, image_shape, batch_size, seed)
        self.rows, self.strength = rows, strength

    def read_splits(self) -> dict[str, Split]:
        return {name: self.split(torch.Generator().manual_seed(k)) for k, name in enumerate(("train", "val", "test"))}

    def split(self, generator: torch.Generator) -> Split:
        columns = {name: self.drawn(name, generator) for name in self.scm_spec["attributes"]}
        y = self.target(columns, generator)
        schema = Schema(self.scm_spec["attributes"]).fit_ranges(columns)
        painted = stripes(schema.size, self.image_shape, self.strength)
        x = self.background(generator) + torch.einsum("nk,kchw->nchw", schema.encode(columns), painted)
        return Split((x * 255).round().to(torch.uint8), columns, y)

    def drawn(self, name: str, generator: torch.Generator) -> Tensor:
        match self._schema[name]:
            case Binary():
                return torch.randint(2, (self.rows,), generator=generator).float()
            case Categorical() as attribute:
                return torch.randint(attribute.size, (self.rows,), generator=generator).float()
            case Continuous(low, high):
                low, high = (0.0, 1.0) if low is None or high is None else (low, high)
                return low + (high - low) * torch.rand(self.rows, generator=generator)

    def background(self, generator: torch.Generator) -> Tensor:
        """One level of grey for each image."""
        grey = 0.02 + 0.26 * torch.rand(self.rows, 1, 1, 1, generator=generator)
        return grey.expand(-1, *self.image_shape)

    def target(self, columns: Mapping[str, Tensor], generator: torch.Generator) -> Tensor:
        return next(iter(columns.values())).long()


class Measured(Painted):
    """Data that can measure its continuous attributes on any image of `Painter`."""

    @property
    def measurable(self) -> list[str]:
        return self._schema.continuous

    def measure(self, images: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        read = ReadStripes(self.schema, self.image_shape, self.strength).read(images)
        return {name: read[name] for name in names}


class Noisy(AttributeDataModule):
    """Twelve images of random grey levels with a thickness and a label, in batches of four."""

    def __init__(self, image_shape: tuple[int, int, int] = SHAPE, rows: int = 12, batch_size: int = 4) -> None:
        super().__init__(DIGITS, [], {}, image_shape, batch_size, seed=0)
        self.rows = rows

    def read_splits(self) -> dict[str, Split]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randint(256, (self.rows, *self.image_shape), generator=generator).to(torch.uint8)
        columns = {
            "thickness": 4 * torch.rand(self.rows, generator=generator),
            "label": torch.randint(3, (self.rows,), generator=generator).float(),
        }
        return dict.fromkeys(("train", "val", "test"), Split(x, columns, columns["label"].long()))

    @property
    def x(self) -> Tensor:
        self.setup()
        return self.images("train") / 255

    @property
    def a(self) -> Tensor:
        self.setup()
        return self.schema.encode(self.train_columns)


class BlockMeans(nn.Module):
    """Features for FID: means of 2x2 blocks of three channels, 12 of a 4x4 image; counts the images it sees."""

    num_features = 12

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return nn.functional.avg_pool2d(x, 2).flatten(1)


class Strokes(nn.Module):
    """Features for FID of 28x28 images: means of rows and of columns."""

    num_features = 56

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=(1, 2)), x.mean(dim=(1, 3))], dim=1)


class SameOnEveryRank(pl.Callback):
    """Fails a run of two processes unless both hold the same weights at its end and have drawn different noise."""

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        mine = torch.cat([p.detach().flatten() for p in pl_module.parameters()])
        weights, draws = pl_module.all_gather(mine), pl_module.all_gather(torch.rand(1))
        assert len(weights) == 2
        assert torch.equal(weights[0], weights[1])
        assert draws[0] != draws[1]


Mechanism = TypeVar("Mechanism", bound=ImageMechanismModule)


def fitted(kind: type[Mechanism], data: AttributeDataModule, **options: Any) -> Mechanism:
    """A mechanism for that data, its Attribute-SCM fitted, ready for use."""
    data.setup()
    module = kind(data.scm_spec, **{"image_shape": data.image_shape} | options)
    module.scm.fit(data.train_columns)
    return module.eval()


def finished(module: pl.LightningModule, folder: Path, config: Mapping[str, Any]) -> Path:
    """The folder of a run that was trained to its end, with this config."""
    folder.mkdir(parents=True)
    saved(module, folder / "last.ckpt")
    (folder / "config.yaml").write_text(json.dumps(config))
    (folder / "finished.json").write_text("{}")
    return folder


def saved(module: pl.LightningModule, path: Path) -> str:
    """A checkpoint of a module as training writes it."""
    contents = {"class_path": class_path(module), "hyper_parameters": dict(module.hparams)}
    torch.save(contents | {"state_dict": module.state_dict()}, path)
    return str(path)
