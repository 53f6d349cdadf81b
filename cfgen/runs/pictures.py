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
from cfgen.io.pictures import FORMATS, decoded_picture, in_colours

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
    picture = in_colours(decoded_picture(file, formats), channels, str(file))
    try:
        framed = np.array(frame(picture))
    except UserError:
        raise
    except Exception as error:  # a data set of the user's own may frame pictures in any way
        raise UserError(f"{file} cannot be framed ({error})") from error
    return torch.from_numpy(framed).reshape(height, width, channels).permute(2, 0, 1)
