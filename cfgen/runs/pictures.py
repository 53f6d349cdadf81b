"""Pictures from files, framed as the images of a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from cfgen.errors import UserError
from cfgen.safety.pictures import FORMATS, decoded_picture

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
    formats: tuple[str, ...] = FORMATS,
) -> Tensor:
    """A picture as uint8, (C, H, W), upright, framed and in the images' colours; `formats` are those of PIL that are read."""
    channels, height, width = image_shape
    picture = decoded_picture(file, formats)
    try:
        upright = ImageOps.exif_transpose(picture)
        if upright.mode.startswith("I;16"):  # 65,536 greys, which `convert` would cut off at 255
            upright = Image.fromarray((np.array(upright) >> 8).astype(np.uint8))
        framed = np.array(frame(upright.convert("L" if channels == 1 else "RGB")))
    except Exception as error:  # whatever the notes that a camera leaves in a file may hold
        raise UserError(f"{file} cannot be read as an image ({error})") from error
    return torch.from_numpy(framed).reshape(height, width, channels).permute(2, 0, 1)
