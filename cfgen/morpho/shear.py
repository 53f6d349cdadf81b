"""Horizontal shear of images by shifting each row a fraction of a pixel, with cubic convolution between pixels."""

import numpy as np
from numba import njit

from cfgen.morpho.arrays import Bytes, Floats


def shear_rows(images: Bytes, shear: Floats) -> Bytes:
    """Each row moved right by `shear` (one an image) times its distance below the centre of mass.

    What comes in at the sides is as dark as the image's darkest pixel.
    """
    sheared = np.empty_like(images)
    _shear(images, shear, sheared)
    return sheared


@njit(cache=True, nogil=True)
def _shear(images: Bytes, shear: Floats, sheared: Bytes) -> None:
    n, height, width = images.shape
    for i in range(n):
        low = images[i].min()
        mass, moment = 0, 0
        for y in range(height):
            for x in range(width):
                mass += images[i, y, x] - low
                moment += y * (images[i, y, x] - low)
        centre = moment / mass if mass else 0.0
        for y in range(height):
            # beyond twice the width everything has left the frame
            shift = min(max(shear[i] * (y - centre), -2.0 * width), 2.0 * width)
            first = int(np.floor(-shift))
            t = -shift - first
            weights = (
                0.5 * t * (-1 + t * (2 - t)),
                0.5 * (2 + t * t * (3 * t - 5)),
                0.5 * t * (1 + t * (4 - 3 * t)),
                0.5 * t * t * (t - 1),
            )
            for x in range(width):
                value = 0.0
                for k in range(4):
                    at = x + first - 1 + k
                    value += weights[k] * (images[i, y, at] if 0 <= at < width else low)
                sheared[i, y, x] = np.uint8(min(max(value, 0.0), 255.0) + 0.5)
