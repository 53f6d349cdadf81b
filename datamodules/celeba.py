"""CelebA with the causal graph of Fig. 2: binary attributes, each a cause of the image, and `Attractive` as the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cfgen.attributes import TargetKind, unknown_name
from cfgen.contracts import Eyes
from datamodules.packed import PackedDataModule
from datamodules.sources.celeba_files import ATTRIBUTES, ImageFiles, find_folder, read_persons, read_table
from datamodules.sources.framing import crop_and_resize
from datamodules.sources.picture_files import PictureFiles, PictureTable

__all__ = ["CelebA"]

ALIGNED = (178, 218)  # width and height of CelebA's photographs
EYES = (69, 108, 111)  # in these pixels: across, and from above
_VERSION = 1  # raise it when the same files give other pixels: packed images are then made again


class CelebA(PackedDataModule):
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

    target: str
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
        shape = (3, image_size, image_size)
        super().__init__(binary, edges, mechanisms or {}, shape, batch_size, seed, data_dir, cache_dir, flip)
        self.target = target
        self.image_size = image_size
        self.crop = crop

    @property
    def about(self) -> str:
        return "CelebA: photographs of celebrities, for research that is not commercial; attributes are annotators' opinions."

    @property
    def target_kind(self) -> TargetKind:
        return TargetKind(self.target)

    def folder(self) -> Path:
        """The folder that is read."""
        return find_folder(self.data_dir)

    @property
    def eyes(self) -> Eyes:
        """Where the eyes of aligned photographs are, once these are cropped."""
        (width, height), (left, right, down) = ALIGNED, EYES
        across, above = (width - self.crop) / 2, (height - self.crop) / 2
        return Eyes((left - across) / self.crop, (right - across) / self.crop, (down - above) / self.crop)

    def persons(self, split: str) -> Tensor:
        """Who is in the images of a split: a number for each person."""
        return torch.from_numpy(read_persons(self.folder(), self.names(split)))

    def framed(self, image: Image.Image) -> Image.Image:
        """A picture of CelebA's size is cropped as its photographs are; of others it is the middle."""
        if image.size != ALIGNED:
            return super().framed(image)
        (pixels,) = crop_and_resize([image], 1, self.crop, self.image_size)
        return Image.fromarray(pixels.transpose(1, 2, 0))

    def _files(self) -> tuple[ImageFiles, PictureTable]:
        folder = self.folder()
        images = ImageFiles(folder)
        return images, read_table(folder, images, [*self._schema.names, self.target])

    def _recipe(self) -> dict[str, Any]:
        return {"version": _VERSION, "size": self.image_size, "crop": self.crop}

    def _pixels(self, images: PictureFiles, table: PictureTable, rows: slice) -> np.ndarray:
        assert isinstance(images, ImageFiles)
        names = table.names[rows]
        return crop_and_resize(images.decoded(names, self.crop), len(names), self.crop, self.image_size)
