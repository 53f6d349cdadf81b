"""Slant, width and height of a digit, from the mass of the enlarged grey image.

Slant is arctan(-μ11/μ02). Width and height are those of the parallelogram sheared by that slant that holds the inner
98 % of the mass each way.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from cfgen.morpho.arrays import Bytes, Floats, Longs

_OUTSIDE = 0.02


class Extent(NamedTuple):
    """One value an image; NaN where the enlarged image is constant."""

    slant: Floats
    width: Floats
    height: Floats


def measure_extent(hires: Bytes, scale: int, box: bool = True) -> Extent:
    """Extent of images `(N, scale·H, scale·W)`, lengths in pixels of the original size; without `box`, slant alone."""
    n = len(hires)
    slant, width, height = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    _measure(hires, scale, box, slant, width, height)
    return Extent(slant, width, height)


@njit(cache=True, nogil=True)
def _quantile(cumulative: Longs, total: np.int64, fraction: float) -> float:
    """Where cumulative/total crosses `fraction`: NumPy's `interp`, with the last of several equal points."""
    last = cumulative.size - 1
    if fraction >= cumulative[last] / total:
        return float(last)
    if fraction < cumulative[0] / total:
        return 0.0
    k = last
    while cumulative[k] / total > fraction:
        k -= 1
    here, after = cumulative[k] / total, cumulative[k + 1] / total
    return (fraction - here) / (after - here) + k


@njit(cache=True, nogil=True)
def _measure(hires: Bytes, scale: int, box: bool, slant: Floats, width: Floats, height: Floats) -> None:
    n, tall, wide = hires.shape
    rows = np.empty(tall, np.int64)
    below = np.empty(tall, np.int64)
    beside = np.empty(wide, np.int64)
    for i in range(n):
        low, high = np.int32(255), np.int32(0)
        zero = np.int64(0)  # unsigned and plain integers would mix to floats
        total, x_sum, y_sum, xy_sum, yy_sum = zero, zero, zero, zero, zero
        for y in range(tall):
            mass, moment = zero, zero
            row = hires[i, y]
            for x in range(wide):
                value = np.int32(row[x])
                low, high = min(low, value), max(high, value)
                mass += value
                moment += x * value
            rows[y] = mass
            total += mass
            x_sum += moment
            y_sum += y * mass
            xy_sum += y * moment
            yy_sum += y * y * mass
        if low == high:
            continue
        x_mean, y_mean = x_sum / total, y_sum / total
        variance = yy_sum / total - y_mean**2
        if variance <= 0:  # all mass in one row has no slant
            continue
        shear = (xy_sum / total - x_mean * y_mean) / variance
        slant[i] = np.arctan(-shear)
        if not box:
            continue

        # mass in the rows above y, and left of the sheared line through x
        seen = 0
        for y in range(tall):
            below[y] = seen
            seen += rows[y]
        beside[:] = 0
        for y in range(tall):
            # the first line that a pixel's centre lies left of
            shift = int(np.floor(0.5 - shear * (y - y_mean))) + 1
            row = hires[i, y]
            for x in range(wide):
                if x + shift < wide:
                    beside[max(x + shift, 0)] += row[x]
        for x in range(1, wide):
            beside[x] += beside[x - 1]
        width[i] = (_quantile(beside, total, 1 - _OUTSIDE / 2) - _quantile(beside, total, _OUTSIDE / 2)) / scale
        height[i] = (_quantile(below, total, 1 - _OUTSIDE / 2) - _quantile(below, total, _OUTSIDE / 2)) / scale
