"""Which sizes of image cfgen's networks are for, and how a network's design follows from a size."""

from __future__ import annotations

from collections.abc import Sequence

from cfgen.errors import UserError

__all__ = ["SIZES", "check_image_size", "filters_for", "resolutions"]

SIZES = range(16, 257, 4)  # pixels along a side
SMALL = 7  # pixels along a side: the largest grid that is not halved any more
FEWEST = 16  # filters at width 1, on however fine a grid


def check_image_size(image_shape: Sequence[int]) -> int:
    """Height and width of images of this (channels, height, width); refuses what no network here is for.

    >>> check_image_size((3, 96, 96))
    96
    """
    if len(image_shape) != 3:
        raise UserError(f"image_shape is (channels, height, width), not {list(image_shape)}")
    _, height, width = image_shape
    if height == width and height in SIZES:
        return height
    nearest = sorted(SIZES, key=lambda size: abs(size - min(height, width)))
    inside = SIZES[0] < min(height, width) < SIZES[-1] and nearest[0] != min(height, width)
    use = f"{min(nearest[:2])} or {max(nearest[:2])}" if inside else str(nearest[0])
    raise UserError(
        f"images are {height}x{width} pixels, and cfgen's networks take square images of {SIZES[0]} to {SIZES[-1]} pixels "
        f"a side, in multiples of {SIZES.step}; let the data resize them to {use}"
    )


def resolutions(size: int) -> list[int]:
    """An image's size and its halves, rounded up, from the coarsest on: the largest that is 7 or less.

    >>> resolutions(64), resolutions(28), resolutions(60)
    ([4, 8, 16, 32, 64], [7, 14, 28], [4, 8, 15, 30, 60])
    """
    sizes = [size]
    while sizes[0] > SMALL:
        sizes.insert(0, (sizes[0] + 1) // 2)
    return sizes


def filters_for(filters: Sequence[int], grids: int) -> list[int]:
    """Filters, from fine to coarse, of a network with so many grids: those of the coarse ones stay.

    Smaller images leave out the finest grids.  Larger ones add finer grids, each with half the filters of the next.

    >>> filters_for([64, 128, 256, 256], 3), filters_for([64, 128, 256, 256], 6)
    ([128, 256, 256], [16, 32, 64, 128, 256, 256])
    """
    found = list(filters)
    while len(found) < grids:
        found.insert(0, max(FEWEST, found[0] // 2))
    return found[len(found) - grids :]
