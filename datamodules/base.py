"""The shared part of the DataModules: named attributes with a causal graph, and batches straight from memory."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.warnings import PossibleUserWarning
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from cfgen.attributes import Binary, Categorical, Schema, TargetKind, unknown_name
from cfgen.batch import Batch
from cfgen.errors import UserError
from cfgen.scm.graph import CausalGraph

__all__ = ["AttributeDataModule", "Split"]


@dataclass(frozen=True)
class Split:
    """One part of a set: images (N, C, H, W) as uint8, attribute columns in real units, targets (N,).

    `others` are columns that describe the images too and that models do not see, such as the year of a photograph: an audit
    can adjust for them.
    """

    images: Tensor
    columns: dict[str, Tensor]
    y: Tensor
    others: dict[str, Tensor] = field(default_factory=dict)


def checked(splits: Mapping[str, Split], schema: Schema, image_shape: tuple[int, int, int]) -> dict[str, Split]:
    """The splits as tensors, if they are what they should be: one line here spares a user's own data a riddle in training."""
    if set(splits) != {"train", "val", "test"}:
        raise UserError(f"the data has the splits {', '.join(splits)}, and train, val and test are expected")
    return {name: checked_split(f"the {name} split", split, schema, image_shape) for name, split in splits.items()}


def checked_split(where: str, split: Split, schema: Schema, image_shape: tuple[int, int, int]) -> Split:
    images, y = as_numbers(where, "images", split.images), as_numbers(where, "y", split.y)
    if not len(images):
        raise UserError(f"{where} has no images")
    if images.dtype != torch.uint8 or tuple(images.shape[1:]) != tuple(image_shape):
        wanted = f"uint8 of shape (N, {', '.join(map(str, image_shape))})"
        raise UserError(f"{where} has images of {images.dtype} and shape {tuple(images.shape)}: {wanted} is expected")
    missing = [name for name in schema.names if name not in split.columns]
    if missing:
        raise UserError(f"{where} has no column for {', '.join(missing)}")
    columns = {name: as_numbers(where, name, split.columns[name]) for name in schema.names}
    if known := [name for name in split.others if name in columns]:
        raise UserError(f"{where} has {', '.join(known)} among its other columns: that is an attribute already")
    others = {name: as_numbers(where, name, column) for name, column in split.others.items()}
    # y apart from the columns: an attribute may have that name too
    unlimited = [("y", y, None), *((name, column, None) for name, column in others.items())]
    for name, column, kind in [*((name, columns[name], schema[name]) for name in columns), *unlimited]:
        if column.shape != images.shape[:1]:
            raise UserError(f"{where} has {len(images)} images, and {name} has the shape {tuple(column.shape)}")
        if not column.isfinite().all():
            raise UserError(f"{where} has values of {name} that are not finite")
        if isinstance(kind, Binary | Categorical):
            valid = [0, 1] if isinstance(kind, Binary) else list(range(kind.size))
            if not torch.isin(column.double(), torch.tensor(valid).double()).all():
                told = "0 and 1" if len(valid) == 2 else f"the positions 0 to {valid[-1]} of its values"
                raise UserError(f"{where} has {name} from {column.min():g} to {column.max():g}: {told} are expected")
    return Split(images, columns, y, others)


def as_numbers(where: str, name: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError) as error:  # e.g. the names of categories
        raise UserError(f"{where} has {name} that are not numbers") from error


class _Rows(Dataset[Batch]):
    """Rows of tensors, taken a whole batch at a time."""

    def __init__(self, batch: Batch) -> None:
        self.whole = batch

    def __len__(self) -> int:
        return len(self.whole.y)

    def __getitem__(self, row: int) -> Batch:
        return Batch(*(tensor[row] for tensor in self.whole))

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """DataLoader calls this with all indices of a batch."""
        index = torch.from_numpy(np.array(rows, dtype=np.int64))  # several times faster than from the list itself
        return Batch(*(tensor.index_select(0, index) for tensor in self.whole))


def _as_it_is(batch: Any) -> Any:
    return batch


class AttributeDataModule(pl.LightningDataModule, ABC):
    """Images described by attributes (Section 3): the attributes, their causal graph, and three splits held in memory.

    A subclass says how the splits are prepared and read.  What the models need to be built (`scm_spec`, `image_shape`)
    is known after construction, before any data is read; what the data says (`schema` with the ranges of the training
    split, `train_columns` to fit the SCM on) after `setup`.

    `batch_size` is that of one device.  Each device sees its own part of the training split, in an order that depends
    on the seed and the epoch alone, and as many batches as the others; images that do not fill a batch are left out of
    that epoch.  For validation and testing on several devices the last images are repeated until all have equally
    many, so figures to report are computed on one.
    """

    def __init__(
        self,
        attributes: Mapping[str, Mapping[str, Any]] | None,
        edges: Sequence[Sequence[str]],
        mechanisms: Mapping[str, Mapping[str, Any]],
        image_shape: tuple[int, int, int],
        batch_size: int,
        seed: int,
    ) -> None:
        """Without attributes, a subclass says them by `_describe` once it knows them."""
        super().__init__()
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}")
        if seed < 0:
            raise ValueError(f"seed is 0 or more, not {seed}")
        if attributes is not None:
            self._describe(attributes, edges, mechanisms, image_shape)
        self.batch_size = batch_size
        self.seed = seed
        self._splits: dict[str, Split] = {}
        self._encoded: dict[str, Tensor] = {}

    def _describe(
        self,
        attributes: Mapping[str, Mapping[str, Any]],
        edges: Sequence[Sequence[str]],
        mechanisms: Mapping[str, Mapping[str, Any]],
        image_shape: tuple[int, int, int],
    ) -> None:
        self._schema = Schema(attributes)
        self._edges = [list(edge) for edge in edges]
        self._mechanisms = {name: dict(options) for name, options in mechanisms.items()}
        CausalGraph(attributes, self._edges)  # refuses unknown names and cycles
        for name in self._mechanisms:
            if name not in attributes:
                raise ValueError(f"mechanisms: {unknown_name('attribute', name, attributes)}")
        self._image_shape = image_shape

    @abstractmethod
    def read_splits(self) -> dict[str, Split]:
        """The splits `train`, `val` and `test`; prepares them first where `prepare_data` did not."""

    @property
    def about(self) -> str:
        """What the images are, for the card of a model that was trained on them; nothing by default."""
        return ""

    @property
    def target_kind(self) -> TargetKind:
        """What `y` is; known after construction."""
        return TargetKind("y")

    def shareable(self) -> AttributeDataModule | None:
        """A set with these attributes whose images may be given away with a model; by default there is none."""
        return None

    def framed(self, image: Image.Image) -> Image.Image:
        """A picture from elsewhere, framed as this set's are: by default its middle, in their proportions and size."""
        return ImageOps.fit(image, self.image_shape[:0:-1], Image.Resampling.BILINEAR)

    @property
    def scm_spec(self) -> dict[str, Any]:
        """The Attribute-SCM as plain values: `attributes`, `edges` and `mechanisms`."""
        return {
            "attributes": Schema(self._schema.attributes).spec,
            "edges": [list(edge) for edge in self._edges],
            "mechanisms": {name: dict(options) for name, options in self._mechanisms.items()},
        }

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        return self._image_shape

    @property
    def schema(self) -> Schema:
        """The attributes, with the ranges of the training split."""
        self._split("train")
        return self._schema

    @property
    def train_columns(self) -> dict[str, Tensor]:
        """The training split's attributes in real units: what the SCM is fitted on."""
        return self.columns("train")

    def columns(self, split: str) -> dict[str, Tensor]:
        """A split's attributes in real units."""
        return self._split(split).columns

    def other_columns(self, split: str) -> dict[str, Tensor]:
        """What is known of a split's images beside the attributes and the target; models do not see it."""
        return self._split(split).others

    def images(self, split: str) -> Tensor:
        """A split's images, (N, C, H, W) as uint8."""
        return self._split(split).images

    def ids(self, split: str) -> list[str]:
        """The ids of a split's images, by default their numbers: random choices about an image depend on its id."""
        return [str(row) for row in range(len(self.images(split)))]

    def targets(self, split: str) -> Tensor:
        """A split's targets, (N,)."""
        return self._split(split).y

    def setup(self, stage: str | None = None) -> None:
        if self._splits:
            return
        splits = checked(self.read_splits(), self._schema, self.image_shape)
        self._schema.fit_ranges(splits["train"].columns)
        self._encoded = {name: self._schema.encode(split.columns) for name, split in splits.items()}
        self._splits = splits

    def train_dataloader(self) -> DataLoader[Batch]:
        return self._loader("train", train=True)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._loader("test")

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """uint8 -> [0, 1], on the device: a quarter of the bytes travel."""
        if batch.x.dtype != torch.uint8:
            return batch
        # the Trainer's precision has reached `a` by now, but not integers
        return batch._replace(x=batch.x.to(batch.a.dtype).div_(255))

    def _split(self, name: str) -> Split:
        if not self._splits:
            raise RuntimeError(f"{type(self).__name__} has read no data yet: call setup() first")
        if name not in self._splits:
            raise ValueError(unknown_name("split", name, self._splits))
        return self._splits[name]

    def _loader(self, name: str, train: bool = False) -> DataLoader[Batch]:
        split = self._split(name)
        rows = _Rows(Batch(split.images, self._encoded[name], split.y))
        devices, rank, on_gpu = 1, 0, False
        if self.trainer is not None:
            devices, rank = self.trainer.world_size, self.trainer.global_rank
            on_gpu = self.trainer.strategy.root_device.type == "cuda"
        if train and len(rows) // devices < self.batch_size:
            raise UserError(
                f"batch_size {self.batch_size} on {devices} device(s) is more than the {len(rows)} training images"
            )
        # Workers would only copy what is in memory already.  Lightning, which cannot know that, looks at the loader after this.
        warnings.filterwarnings("ignore", message=".*does not have many workers", category=PossibleUserWarning)
        # A DistributedSampler even on one device: Lightning leaves it as it is and tells it the epoch.
        sampler: DistributedSampler[Batch] = DistributedSampler(
            rows, devices, rank, shuffle=train, seed=self.seed, drop_last=train
        )
        return DataLoader(
            rows, self.batch_size, sampler=sampler, drop_last=train, collate_fn=_as_it_is, pin_memory=on_gpu
        )
