"""Random images with the some attributes of faces, packed into a file as those of CelebA are: any number of them in a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from datamodules import AttributeDataModule
from datamodules.base import Split
from datamodules.sources.packing import pack_location, packed

__all__ = ["PackedFaces"]

NAMES = ("Young", "Gray_Hair", "Bangs", "Smiling")


class PackedFaces(AttributeDataModule):
    """`count` test images, and `training` to train and to validate on."""

    def __init__(self, count: int, cache_dir: str, training: int = 512, image_size: int = 64) -> None:
        shape = (3, image_size, image_size)
        super().__init__(
            {name: {"kind": "binary"} for name in NAMES}, [["Young", "Gray_Hair"]], {}, shape, batch_size=64, seed=0
        )
        self.count, self.training, self.cache_dir = count, training, Path(cache_dir)

    def read_splits(self) -> dict[str, Split]:
        shape = (2 * self.training + self.count, *self.image_shape)

        def make(rows: slice) -> np.ndarray:
            random = np.random.default_rng(rows.start)
            return random.integers(256, size=(rows.stop - rows.start, *self.image_shape), dtype=np.uint8)

        images = torch.from_numpy(packed(pack_location(self.cache_dir, "random", {"shape": shape}), shape, make))
        generator = torch.Generator().manual_seed(0)
        columns = {name: torch.randint(2, shape[:1], generator=generator).float() for name in self._schema.names}
        starts = (0, self.training, 2 * self.training, shape[0])
        return {
            name: Split(
                images[a:b], {key: column[a:b] for key, column in columns.items()}, columns["Young"][a:b].long()
            )
            for name, a, b in zip(("train", "val", "test"), starts, starts[1:], strict=False)
        }
