"""CelebA with the causal graph of Fig. 2: binary attributes, each a cause of the image, and `Attractive` as the target."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cfgen.attributes import unknown_name
from cfgen.batch import Batch
from cfgen.contracts import Eyes
from datamodules.base import AttributeDataModule, Split
from datamodules.sources import cache
from datamodules.sources.celeba_files import (
    ATTRIBUTES,
    SPLITS,
    ImageFiles,
    Table,
    crop_and_resize,
    find_folder,
    read_persons,
    read_table,
)
from datamodules.sources.packing import pack_location, packed

__all__ = ["CelebA"]

ALIGNED = (178, 218)  # width and height of CelebA's photographs
EYES = (69, 108, 111)  # in these pixels: across, and from above
_VERSION = 1  # raise it when the same files give other pixels: packed images are then made again


class CelebA(AttributeDataModule):
    """CelebA faces with binary attributes; `y` is `Attractive`.

    Reads CelebA's own layout: `img_align_celeba/` or `img_align_celeba.zip`, `list_attr_celeba.txt` and
    `list_eval_partition.txt`, and uses the images that are there.  They are decoded, cropped and resized once, into a
    file of bytes in `cache_dir` that is then mapped into memory.  `persons` also needs `identity_CelebA.txt`.

    Args:
        data_dir: the folder with these files, or with a folder `celeba` that has them.  By default the environment
            variable CFGEN_DATA.
        cache_dir: where packed images are kept; by default `cfgen` in the user's cache folder.
        batch_size: images in a batch of one device.
        seed: of the order of the batches.
        attributes: those the models see, in this order.  By default those the paper explains a classifier with: all but
            the target, `Blurry`, which is of the photograph, and `Male` and `Young`, for which Fig. 2 has no place.
            `other_columns` has the rest of the table.
        target: the attribute that is `y`, and therefore never among `attributes`.
        edges: the causal graph as [cause, effect] pairs; by default none, as in Fig. 2.
        mechanisms: how an attribute follows from its causes, by name (see `cfgen.scm`); by default a probability table.
        image_size: height and width of an image.
        crop: height and width of the middle of the 178 x 218 photograph that is resized to that; 148 is the usual one.
        flip: mirror each training image with probability 1/2, on the device.
    """

    # what the table may be asked for, and what it is asked for by default
    known: ClassVar[tuple[str, ...]] = ATTRIBUTES
    left_out: ClassVar[tuple[str, ...]] = ("Blurry", "Male", "Young")

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        batch_size: int = 128,
        seed: int = 0,
        attributes: Sequence[str] | None = None,
        target: str = "Attractive",
        edges: Sequence[Sequence[str]] = (),
        mechanisms: Mapping[str, Mapping[str, Any]] | None = None,
        image_size: int = 64,
        crop: int = 148,
        flip: bool = False,
    ) -> None:
        for name in (target, *(attributes or ())):
            if name not in self.known:
                raise ValueError(unknown_name("attribute", name, self.known))
        if attributes is None:
            attributes = [name for name in self.known if name != target and name not in self.left_out]
        if target in attributes:
            raise ValueError(f"{target!r} is the target: a model that is given it could not be audited for it")
        if repeated := {name for name in attributes if list(attributes).count(name) > 1}:
            raise ValueError(f"attributes names {', '.join(sorted(repeated))} more than once")
        for option, pixels in (("image_size", image_size), ("crop", crop)):
            if pixels < 1:
                raise ValueError(f"{option} is at least 1 pixel, not {pixels}")
        binary = {name: {"kind": "binary"} for name in attributes}
        super().__init__(binary, edges, mechanisms or {}, (3, image_size, image_size), batch_size, seed)
        self.data_dir = Path(folder).expanduser() if (folder := data_dir or os.environ.get("CFGEN_DATA")) else None
        self.cache_dir = Path(cache_dir).expanduser() if cache_dir else cache.default_cache_dir()
        self.target = target
        self.image_size = image_size
        self.crop = crop
        self.flip = flip
        self._names: dict[str, list[str]] = {}

    @property
    def about(self) -> str:
        return "CelebA: photographs of celebrities, for research that is not commercial; attributes are annotators' opinions."

    def folder(self) -> Path:
        """The folder that is read."""
        return find_folder(self.data_dir)

    @property
    def cache_file(self) -> Path:
        """Where the packed images are kept."""
        images, table = self._files()
        return self._cache_file(images, table)

    def names(self, split: str) -> list[str]:
        """The files of a split, in the order of its images."""
        self._split(split)
        return self._names[split]

    @property
    def eyes(self) -> Eyes:
        """Where the eyes of aligned photographs are, once these are cropped."""
        (width, height), (left, right, down) = ALIGNED, EYES
        across, above = (width - self.crop) / 2, (height - self.crop) / 2
        return Eyes((left - across) / self.crop, (right - across) / self.crop, (down - above) / self.crop)

    def persons(self, split: str) -> Tensor:
        """Who is in the images of a split: a number for each person."""
        return torch.from_numpy(read_persons(self.folder(), self.names(split)))

    def prepare_data(self) -> None:
        """Packs the images unless they are in the cache; Lightning calls this in one process of each machine."""
        self._packed(*self._files())

    def read_splits(self) -> dict[str, Split]:
        images, table = self._files()
        pixels = torch.from_numpy(self._packed(images, table))
        columns = {name: torch.from_numpy(column) for name, column in table.columns.items()}
        others = [name for name in columns if name not in (*self._schema.names, self.target)]
        splits: dict[str, Split] = {}
        for number, title in enumerate(SPLITS):
            start, stop = (table.split < number).sum(), (table.split <= number).sum()  # the table is sorted by split
            splits[title] = Split(
                images=pixels[start:stop],
                columns={name: columns[name][start:stop].float() for name in self._schema.names},
                y=columns[self.target][start:stop].long(),
                others={name: columns[name][start:stop].float() for name in others},
            )
            self._names[title] = table.names[start:stop]
        return splits

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        if self.flip and self.trainer is not None and self.trainer.training and batch.x.dtype == torch.uint8:
            mirrored = torch.rand(len(batch.x), device=batch.x.device) < 0.5
            batch = batch._replace(x=torch.where(mirrored[:, None, None, None], batch.x.flip(-1), batch.x))
        return super().on_after_batch_transfer(batch, dataloader_idx)

    def framed(self, image: Image.Image) -> Image.Image:
        """A picture of CelebA's size is cropped as its photographs are; of others it is the middle."""
        if image.size != ALIGNED:
            return super().framed(image)
        (pixels,) = crop_and_resize([image], 1, self.crop, self.image_size)
        return Image.fromarray(pixels.transpose(1, 2, 0))

    def _files(self) -> tuple[ImageFiles, Table]:
        folder = self.folder()
        images = ImageFiles(folder)
        return images, read_table(folder, images, [*self._schema.names, self.target])

    def _cache_file(self, images: ImageFiles, table: Table) -> Path:
        # names and stamps tell sets apart, and reading a hundred thousand files would take as long as packing them
        listing = "\n".join(f"{name} {images.stamps[name]}" for name in table.names)
        recipe = {
            "version": _VERSION,
            "size": self.image_size,
            "crop": self.crop,
            "images": hashlib.sha256(listing.encode()).hexdigest(),
        }
        return pack_location(self.cache_dir, f"{type(self).__name__.lower()}-{self.image_size}", recipe)

    def _packed(self, images: ImageFiles, table: Table) -> np.ndarray:
        def block(rows: slice) -> np.ndarray:
            names = table.names[rows]
            return crop_and_resize(images.decoded(names, self.crop), len(names), self.crop, self.image_size)

        return packed(
            self._cache_file(images, table),
            (len(table.names), *self.image_shape),
            block,
            task=f"packing {type(self).__name__} at {self.image_size} x {self.image_size}",
        )
