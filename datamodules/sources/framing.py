"""Pictures of any size as square images of one size: the middle of each, or the whole with black bars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2.functional import resize

__all__ = ["FRAMINGS", "crop_and_resize", "framed_squares"]

FRAMINGS = ("crop", "pad")


def crop_and_resize(images: Iterable[Image.Image], count: int, crop: int, size: int, channels: int = 3) -> np.ndarray:
    """The middle of images, resized with an antialiased bilinear filter: (count, channels, size, size) bytes.

    The same as torchvision's `CenterCrop(crop)` and `Resize(size)` on a tensor.
    """
    block = np.empty((count, crop * crop * channels), dtype=np.uint8)
    for row, image in enumerate(images):
        if image.size != (crop, crop):
            left, top = round((image.width - crop) / 2), round((image.height - crop) / 2)  # as torchvision rounds
            image = image.crop((left, top, left + crop, top + crop))
        block[row] = np.frombuffer(image.tobytes(), dtype=np.uint8)
    # torch resizes bytes with channels last several times quicker than Pillow does
    channels_last = torch.from_numpy(block.reshape(count, crop, crop, channels)).permute(0, 3, 1, 2)
    return resize(channels_last, [size, size], antialias=True).contiguous().numpy()


def framed_squares(pictures: Sequence[Image.Image], size: int, channels: int, framing: str) -> np.ndarray:
    """Pictures of any sizes as bytes, (N, channels, size, size): `crop` takes the middle, `pad` adds black bars."""
    squares = [padded(picture) for picture in pictures] if framing == "pad" else pictures
    by_side: dict[int, list[int]] = defaultdict(list)
    for row, picture in enumerate(squares):
        by_side[min(picture.size)].append(row)
    block = np.empty((len(squares), channels, size, size), dtype=np.uint8)
    for (
        side,
        rows,
    ) in by_side.items():  # those of one size together: a photograph's size is seldom the only one of its kind
        block[rows] = crop_and_resize((squares[row] for row in rows), len(rows), side, size, channels)
    return block


def padded(picture: Image.Image) -> Image.Image:
    """The whole picture in the middle of a black square."""
    side = max(picture.size)
    if picture.size == (side, side):
        return picture
    square = Image.new(picture.mode, (side, side))
    square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return square
