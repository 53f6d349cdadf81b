"""Growing and shrinking of binary strokes with the footprint that the published Morpho-MNIST was made with."""

from functools import cache

import numpy as np
from numba import njit

from cfgen.morpho.arrays import Bytes, Longs


@cache
def footprint(radius: int) -> Longs:
    """Half-widths of the footprint's rows, from its middle row outwards (`radius + 1` of them).

    DeepSCM takes a disk of 16·radius, reduces it sixteenfold with smoothing, and hands it to a flat dilation, which
    counts whatever is not zero: all places from which the smoothing kernel's square (±21) reaches the disk. For small
    radii that is the full square, for larger ones a disk some 1.3 wider, cut off by the square.
    """
    scale, reach = 16, 21
    big = scale * radius
    row = np.arange(radius, -1, -1)
    # (row + 1/2)·(2·big + 1)/(2·radius + 1) - 1/2, rounded towards the centre: of the two samples between which
    # a reduced row lies, the one nearer to the disk
    sample = -(((2 * radius + 1) - (2 * row + 1) * (2 * big + 1)) // (4 * radius + 2))
    away = np.maximum(big - sample - reach, 0)
    inside = away[:, None] ** 2 + away[None, :] ** 2 <= big**2
    return np.asarray(inside.sum(axis=1) - 1, np.int64)


def set_radius(hires: Bytes, radius: Longs) -> Bytes:
    """0/1 images: `hires` made binary at half its range, grown by `radius` (one an image), or shrunk if negative."""
    # beyond the size of the image a footprint grows no further
    radius = np.clip(radius, -max(hires.shape[1:]), max(hires.shape[1:]))
    sizes, which = np.unique(np.abs(radius), return_inverse=True)
    first = np.concatenate([[0], np.cumsum(sizes + 1)])[which]
    halves = np.concatenate([footprint(int(size)) for size in sizes])
    binary = np.empty_like(hires)
    _set_radius(hires, radius, halves, first, binary)
    return binary


@njit(cache=True, nogil=True)
def _set_radius(hires: Bytes, radius: Longs, halves: Longs, first: Longs, binary: Bytes) -> None:
    n, height, width = hires.shape
    starts = np.empty((height, width), np.int32)
    ends = np.empty((height, width), np.int32)
    runs = np.empty(height, np.int32)
    change = np.empty(width + 1, np.int32)
    for i in range(n):
        low, high = hires[i].min(), hires[i].max()
        middle = low + (high - low) * 0.5
        reach, grow = abs(radius[i]), radius[i] >= 0
        # A footprint with convex rows widens every run of pixels by its half-width at that row; shrinking the
        # strokes is growing the blank.
        for y in range(height):
            count = 0
            inside = False
            for x in range(width):
                wanted = (hires[i, y, x] >= middle) == grow
                if wanted and not inside:
                    starts[y, count] = x
                if inside and not wanted:
                    ends[y, count] = x
                    count += 1
                inside = wanted
            if inside:
                ends[y, count] = width
                count += 1
            runs[y] = count
        for y in range(height):
            change[:] = 0
            for v in range(max(0, y - reach), min(height, y + reach + 1)):
                half = halves[first[i] + abs(v - y)]
                for k in range(runs[v]):
                    change[max(0, starts[v, k] - half)] += 1
                    change[min(width, ends[v, k] + half)] -= 1
            covered = 0
            for x in range(width):
                covered += change[x]
                binary[i, y, x] = (covered > 0) == grow
