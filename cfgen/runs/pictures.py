"""Pictures from files, framed as the images of a data set."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from cfgen.errors import UserError

__all__ = ["Frame", "frame_of", "read_picture"]

Frame = Callable[[Image.Image], Image.Image]


def frame_of(data: object, image_shape: Sequence[int]) -> Frame:
    """How a picture from elsewhere is framed: as the data does it, or else its middle in the images' size."""
    _, height, width = image_shape
    framed: Frame | None = getattr(data, "framed", None)
    return framed or partial(ImageOps.fit, size=(width, height))


def read_picture(
    file: str | Path,
    image_shape: Sequence[int],
    frame: Frame,
    *,
    formats: tuple[str, ...] | None = None,
    most_pixels: int | None = None,
) -> Tensor:
    """A picture as uint8, (C, H, W), upright, framed and in the images' colours.

    `formats` are those of PIL that are read, all by default.  A picture with more than `most_pixels` is refused before it is
    decoded: a small file can hold a very large one.
    """
    channels, height, width = image_shape
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            opened = Image.open(file, formats=formats)
        with opened:
            pixels = opened.width * opened.height
            if most_pixels is not None and pixels > most_pixels:
                raise UserError(f"{file} has {pixels:,} pixels, and at most {most_pixels:,} are read: make it smaller")
            upright = ImageOps.exif_transpose(opened)
            if upright.mode.startswith("I;16"):  # 65,536 greys, which `convert` would cut off at 255
                upright = Image.fromarray((np.array(upright) >> 8).astype(np.uint8))
            coloured = upright.convert("L" if channels == 1 else "RGB")
    except UserError:
        raise
    except Exception as error:  # decoders raise what they like on a broken file
        known = ", ".join(formats[:-1]) + f" or {formats[-1]}" if formats else ""
        reason = f"{known} is expected" if known and isinstance(error, UnidentifiedImageError) else error
        raise UserError(f"{file} cannot be read as an image ({reason})") from error
    return torch.from_numpy(np.array(frame(coloured))).reshape(height, width, channels).permute(2, 0, 1)
