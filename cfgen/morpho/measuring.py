"""Measuring digits: the seven attributes of Morpho-MNIST and DeepSCM."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from cfgen.morpho.arrays import Floats, as_images, to_bytes
from cfgen.morpho.blocks import Progress, block_size, over_blocks
from cfgen.morpho.intensity import measure_intensity
from cfgen.morpho.moments import measure_extent
from cfgen.morpho.resample import expand
from cfgen.morpho.skeleton import measure_strokes

MEASURES = ("thickness", "intensity", "slant", "area", "length", "width", "height")

_SCALE = 4  # Morpho-MNIST measures on images enlarged four times


def measure(images: ArrayLike, names: Iterable[str] = MEASURES, progress: Progress | None = None) -> dict[str, Floats]:
    """Morpho-MNIST's measures of images `(N, H, W)`, one float64 array of length N for each name asked for.

    Images are uint8, or float in [0, 1], which are rounded to the nearest of 256 grey levels. Lengths are in pixels,
    intensity in grey levels, slant in radians (positive leans to the right):

    - intensity: median of the pixels at least half-way between darkest and brightest;
    - area, thickness, length: of the strokes of the image enlarged four times and made binary half-way: their pixels,
      twice the mean distance to the background along their medial axis, the length of that axis;
    - slant: arctan(-μ11/μ02) of the enlarged grey image;
    - width, height: of the parallelogram with that slant that holds the inner 98 % of the mass each way.

    The medial axis depends on how ties are broken, and the public tool breaks them at random: thickness and length are
    means over four fixed orders, and agree with one call of the tool as closely as two of its calls agree. The rest
    are the same numbers. Without contrast (constant, or so faint that nothing is left at 8 bits) a measure is NaN.

    Only what is asked for is computed. `progress` is called with the number of images done since its last call.
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in wanted if name not in MEASURES]
    if unknown:
        raise ValueError(f"unknown measure {', '.join(map(repr, unknown))}; valid are {', '.join(MEASURES)}")
    stack = as_images(images, _SCALE)
    values = {name: np.full(len(stack), np.nan) for name in wanted}
    if not wanted or stack.size == 0:
        return values
    strokes, extent = {"area", "thickness", "length"}, {"slant", "width", "height"}
    skeleton, box = {"thickness", "length"}.intersection(wanted), {"width", "height"}.intersection(wanted)

    def work(block: slice) -> None:
        found: dict[str, Floats] = {}
        small = to_bytes(stack[block])
        if "intensity" in wanted:
            found["intensity"] = measure_intensity(small)
        if strokes.union(extent).intersection(wanted):
            hires = expand(small, _SCALE, "spline")
            if strokes.intersection(wanted):
                found |= measure_strokes(hires, _SCALE, orders=4 if skeleton else 0)._asdict()
            if extent.intersection(wanted):
                found |= measure_extent(hires, _SCALE, box=bool(box))._asdict()
        for name in wanted:
            values[name][block] = found[name]

    over_blocks(len(stack), block_size(stack[0].size * _SCALE**2), work, progress)
    return values
