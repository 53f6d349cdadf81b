"""Intensity of a digit, DeepSCM's: the median of the pixels at least half-way between darkest and brightest."""

import numpy as np
from numba import njit

from cfgen.morpho.arrays import Bytes, Floats


def measure_intensity(images: Bytes) -> Floats:
    """One value an image in grey levels; NaN where the image is constant."""
    intensity = np.full(len(images), np.nan)
    _measure(images, intensity)
    return intensity


def scale_intensity(images: Bytes, factor: Floats) -> Bytes:
    """Grey values times `factor` (one an image), cut off at 255 and truncated, as the published set was made."""
    # a hair more, lest 145 / 200 · 200 become 144
    return np.clip(images * factor[:, None, None] + 1e-9, 0, 255).astype(np.uint8)


@njit(cache=True, nogil=True)
def _measure(images: Bytes, intensity: Floats) -> None:
    n, height, width = images.shape
    levels = np.empty(256, np.int64)
    for i in range(n):
        levels[:] = 0
        for y in range(height):
            for x in range(width):
                levels[images[i, y, x]] += 1
        low, high = 0, 255
        while levels[low] == 0:
            low += 1
        while levels[high] == 0:
            high -= 1
        if low == high:
            continue
        first = (low + high + 1) // 2  # the lowest whole level that is at least half-way
        total = levels[first:].sum()
        # the two middle ones of an even count, twice the same one otherwise
        seen, sum_of_two = 0, 0
        for level in range(first, high + 1):
            before, seen = seen, seen + levels[level]
            for middle in ((total - 1) // 2, total // 2):
                if before <= middle < seen:
                    sum_of_two += level
        intensity[i] = sum_of_two / 2
