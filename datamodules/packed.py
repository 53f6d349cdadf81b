"""Data sets whose pictures are decoded once, into a file of bytes that is then mapped into memory."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfgen.batch import Batch
from datamodules.base import AttributeDataModule, Split
from datamodules.sources import cache
from datamodules.sources.packing import pack_location, packed
from datamodules.sources.picture_files import SPLITS, PictureFiles, PictureTable

__all__ = ["PackedDataModule"]


class PackedDataModule(AttributeDataModule):
    """Picture files with a table: packed once by all cores into `cache_dir`, then served from there.

    A subclass says which files and rows there are (`_files`), what a block of them looks like as bytes (`_pixels`) and what
    that depends on (`_recipe`): another recipe, or another picture, is kept in another file.  `target` is the column that is
    `y`; columns that are neither target nor attribute are in `other_columns`.
    """

    target: str | None

    def __init__(
        self,
        attributes: Mapping[str, Mapping[str, Any]] | None,
        edges: Sequence[Sequence[str]],
        mechanisms: Mapping[str, Mapping[str, Any]],
        image_shape: tuple[int, int, int],
        batch_size: int,
        seed: int,
        data_dir: str | None,
        cache_dir: str | None,
        flip: bool,
    ) -> None:
        super().__init__(attributes, edges, mechanisms, image_shape, batch_size, seed)
        self.data_dir = Path(folder).expanduser() if (folder := data_dir or os.environ.get("CFGEN_DATA")) else None
        self.cache_dir = Path(cache_dir).expanduser() if cache_dir else cache.default_cache_dir()
        self.flip = flip
        self._names: dict[str, list[str]] = {}

    @abstractmethod
    def _files(self) -> tuple[PictureFiles, PictureTable]:
        """The files, and the rows that name them."""

    @abstractmethod
    def _recipe(self) -> dict[str, Any]:
        """What the pixels depend on beside the files."""

    @abstractmethod
    def _pixels(self, files: PictureFiles, table: PictureTable, rows: slice) -> np.ndarray:
        """The images of some rows as bytes, (N, C, H, W); several threads ask at once."""

    @property
    def cache_file(self) -> Path:
        """Where the packed images are kept."""
        return self._cache_file(*self._files())

    def names(self, split: str) -> list[str]:
        """The files of a split, in the order of its images."""
        self._split(split)
        return self._names[split]

    def ids(self, split: str) -> list[str]:
        """The names of the files."""
        return self.names(split)

    def prepare_data(self) -> None:
        """Packs the images unless they are in the cache; Lightning calls this in one process of each machine."""
        self._packed(*self._files())

    def read_splits(self) -> dict[str, Split]:
        files, table = self._files()
        pixels = torch.from_numpy(self._packed(files, table))
        columns = {name: torch.from_numpy(column) for name, column in table.columns.items()}
        others = [name for name in columns if name not in (*self._schema.names, self.target)]
        splits: dict[str, Split] = {}
        for number, title in enumerate(SPLITS):
            start, stop = (table.split < number).sum(), (table.split <= number).sum()  # the table is sorted by split
            splits[title] = Split(
                images=pixels[start:stop],
                columns={name: columns[name][start:stop].float() for name in self._schema.names},
                y=self._targets(columns, start, stop),
                others={name: columns[name][start:stop].float() for name in others},
            )
            self._names[title] = table.names[start:stop]
        return splits

    def _targets(self, columns: Mapping[str, Tensor], start: int, stop: int) -> Tensor:
        if self.target is None:
            return torch.zeros(stop - start, dtype=torch.long)
        column = columns[self.target][start:stop]
        return column.float() if self.target_kind.kind == "continuous" else column.long()

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        if self.flip and self.trainer is not None and self.trainer.training and batch.x.dtype == torch.uint8:
            mirrored = torch.rand(len(batch.x), device=batch.x.device) < 0.5
            batch = batch._replace(x=torch.where(mirrored[:, None, None, None], batch.x.flip(-1), batch.x))
        return super().on_after_batch_transfer(batch, dataloader_idx)

    def _cache_file(self, files: PictureFiles, table: PictureTable) -> Path:
        # names and stamps tell sets apart, and reading a hundred thousand files would take as long as packing them
        listing = hashlib.sha256("\n".join(f"{name} {files.stamps[name]}" for name in table.names).encode())
        recipe = self._recipe() | {"images": listing.hexdigest()}
        return pack_location(self.cache_dir, f"{type(self).__name__.lower()}-{self.image_shape[1]}", recipe)

    def _packed(self, files: PictureFiles, table: PictureTable) -> np.ndarray:
        return packed(
            self._cache_file(files, table),
            (len(table.names), *self.image_shape),
            lambda rows: self._pixels(files, table, rows),
            task=f"packing {type(self).__name__} at {self.image_shape[1]} x {self.image_shape[1]}",
        )
