"""Anti-aliased shapes on an image, compiled: a shape is a signed distance, filled where that is negative.

A shape is a row of numbers, its kind first, so that one compiled loop fills them all.  A view says where a drawing lies
on the image: (left, top, pixels a unit, origin x, origin y, cosine, sine, scale).  Shapes are given in the units of the
drawing, `u` to the right and `v` down from its origin.
"""

import math

import numpy as np
from numba import njit

__all__ = [
    "Colour", "Shape", "View", "box", "cap", "compiled", "curls", "disc", "ellipse", "fill", "fill_hair", "frame", "head", "hue",
    "lighten", "lips", "mix", "stroke",
]  # fmt: skip

View = tuple[float, float, float, float, float, float, float, float]
Shape = tuple[float, float, float, float, float, float, float, float]
Colour = tuple[float, float, float]  # 0 to 255

# numpy's division: no check for zero in the innermost loops
compiled = njit(cache=True, nogil=True, error_model="numpy")

_ELLIPSE, _BOX, _FRAME, _STROKE, _HEAD, _CURLS, _CAP, _LIPS = (float(kind) for kind in range(8))


@compiled
def ellipse(u: float, v: float, wide: float, tall: float) -> Shape:
    """By its centre and its two radii."""
    return (_ELLIPSE, u, v, wide, tall, 0.0, 0.0, 0.0)


@compiled
def disc(u: float, v: float, radius: float) -> Shape:
    return (_ELLIPSE, u, v, radius, radius, 0.0, 0.0, 0.0)


@compiled
def box(u: float, v: float, wide: float, tall: float, corner: float) -> Shape:
    """By its centre, half its width and height, and the radius of its corners."""
    return (_BOX, u, v, wide, tall, corner, 0.0, 0.0)


@compiled
def frame(u: float, v: float, wide: float, tall: float, corner: float, thick: float) -> Shape:
    """The outline of a box, half as thick as said to either side."""
    return (_FRAME, u, v, wide, tall, corner, thick, 0.0)


@compiled
def stroke(u0: float, v0: float, u1: float, v1: float, bend: float, thick: float, taper: float) -> Shape:
    """A parabola from end to end that bends so far down (from left to right); thinner at its ends by the taper."""
    if u0 > u1:
        u0, v0, u1, v1 = u1, v1, u0, v0
    return (_STROKE, u0, v0, u1, v1, bend, thick, taper)


@compiled
def head(wide: float, tall: float, taper: float) -> Shape:
    """An ellipse around the origin whose lower half narrows towards the chin."""
    return (_HEAD, 0.0, 0.0, wide, tall, taper, 0.0, 0.0)


@compiled
def curls(u: float, v: float, wide: float, tall: float, phase: float) -> Shape:
    """An ellipse with a curly border."""
    return (_CURLS, u, v, wide, tall, phase, 0.0, 0.0)


@compiled
def cap(wide: float, tall: float, rise: float, parting: float, receding: float, bangs: float) -> Shape:
    """Hair on the upper part of a head, down to the line of the forehead."""
    return (_CAP, parting, rise, wide, tall, receding, bangs, 0.0)


@compiled
def lips(v: float, wide: float, rise: float, upper: float, lower: float) -> Shape:
    """What lies between two parabolas around u = 0, so far above and below the middle; the corners may rise."""
    return (_LIPS, 0.0, v, wide, rise, upper, lower, 0.0)


@compiled
def _to_ellipse(x: float, y: float, wide: float, tall: float) -> float:
    """The distance to first order: at the edge, where it counts, it is right."""
    a, b = x / wide, y / tall
    inside = math.sqrt(a * a + b * b)
    slope = math.sqrt((a / wide) ** 2 + (b / tall) ** 2)
    return inside * (inside - 1.0) / slope if slope > 1e-9 else -min(wide, tall)


@compiled
def _to_box(x: float, y: float, wide: float, tall: float, corner: float) -> float:
    x, y = abs(x) - wide + corner, abs(y) - tall + corner
    return math.sqrt(max(x, 0.0) ** 2 + max(y, 0.0) ** 2) + min(max(x, y), 0.0) - corner


@compiled
def _to_stroke(shape: Shape, u: float, v: float) -> float:
    _, u0, v0, u1, v1, bend, thick, taper = shape
    along_u, along_v = u1 - u0, v1 - v0
    length = math.sqrt(along_u * along_u + along_v * along_v)
    s = ((u - u0) * along_u + (v - v0) * along_v) / (length * length)
    off = ((v - v0) * along_u - (u - u0) * along_v) / length
    t = min(max(s, 0.0), 1.0)
    slope = 4.0 * bend * (1.0 - 2.0 * t) / length
    across = (off - 4.0 * bend * t * (1.0 - t)) / math.sqrt(1.0 + slope * slope)
    return math.sqrt(across * across + ((s - t) * length) ** 2) - thick * (1.0 - taper * abs(2.0 * t - 1.0))


@compiled
def _to_cap(shape: Shape, u: float, v: float) -> float:
    _, parting, rise, wide, tall, receding, bangs, _ = shape
    side = abs(u) / wide
    line = -tall * (0.60 + 0.10 * rise) + 0.62 * tall * side**4 + 0.10 * parting * u
    if receding > 0.0:  # the temples, and a little of the middle
        line -= 4.0 + 17.0 * math.exp(-(((side - 0.55) / 0.20) ** 2))
    below = (v - line) * 0.75
    if bangs > 0.0:  # a fringe that leaves the temples free
        below = min(below, max(v + 0.33 * tall - 1.6 * math.cos(0.55 * u + 3.0 * parting), abs(u) - 0.47 * wide))
    return max(_to_ellipse(u, v + 1.0, wide + 2.0, tall + 3.5), below)


@compiled
def _to_lips(shape: Shape, u: float, v: float) -> float:
    _, _, middle, wide, rise, upper, lower, _ = shape
    t = u / wide
    arch, v = 1.0 - t * t, v - middle + rise * t * t
    return max(-v - upper * arch, v - lower * arch) / math.sqrt(1.0 + (2.0 * t * (rise + lower) / wide) ** 2)


@compiled
def _distance(shape: Shape, u: float, v: float) -> float:
    """How far outside the shape a place is; negative inside."""
    kind = shape[0]
    if kind == _STROKE:
        return _to_stroke(shape, u, v)
    if kind == _CAP:
        return _to_cap(shape, u, v)
    if kind == _LIPS:
        return _to_lips(shape, u, v)
    x, y, wide, tall = u - shape[1], v - shape[2], shape[3], shape[4]
    if kind == _BOX:
        return _to_box(x, y, wide, tall, shape[5])
    if kind == _FRAME:
        return abs(_to_box(x, y, wide, tall, shape[5])) - shape[6]
    if kind == _HEAD:
        wide *= 1.0 - shape[5] * max(y / tall, 0.0) ** 2
    distance = _to_ellipse(x, y, wide, tall)
    return distance - 2.2 * abs(math.sin(7.0 * math.atan2(y, x) + shape[5])) if kind == _CURLS else distance


@compiled
def _span(shape: Shape) -> tuple[float, float, float, float]:
    """The lowest and highest u, and the lowest and highest v, that a shape can reach."""
    if shape[0] == _STROKE:
        _, u0, v0, u1, v1, bend, thick, _ = shape
        far = abs(bend) + thick
        return min(u0, u1) - far, max(u0, u1) + far, min(v0, v1) - far, max(v0, v1) + far
    if shape[0] == _CAP:
        return -shape[3] - 2.0, shape[3] + 2.0, -shape[4] - 5.0, 0.2 * shape[4]
    if shape[0] == _LIPS:
        _, _, middle, wide, rise, upper, lower, _ = shape
        return -wide, wide, middle - abs(rise) - upper, middle + abs(rise) + lower
    more = shape[6] if shape[0] == _FRAME else (2.2 if shape[0] == _CURLS else 0.0)
    wide, tall = shape[3] + more, shape[4] + more
    return shape[1] - wide, shape[1] + wide, shape[2] - tall, shape[2] + tall


@compiled
def _pixels(image: np.ndarray, view: View, shape: Shape, margin: float) -> tuple[int, int, int, int]:
    """The rows and columns of the image that a shape can touch."""
    height, width = image.shape[:2]
    span = _span(shape)
    left, right, top, bottom = float(width), 0.0, float(height), 0.0
    for u in (span[0] - margin, span[1] + margin):
        for v in (span[2] - margin, span[3] + margin):
            x = ((view[5] * u - view[6] * v) * view[7] + view[3] - view[0]) * view[2]
            y = ((view[6] * u + view[5] * v) * view[7] + view[4] - view[1]) * view[2]
            left, right, top, bottom = min(left, x), max(right, x), min(top, y), max(bottom, y)
    return max(int(top) - 1, 0), min(int(bottom) + 2, height), max(int(left) - 1, 0), min(int(right) + 2, width)


@compiled
def _row(view: View, row: int) -> tuple[float, float, float, float]:
    """Where the centres of a row of pixels lie in the drawing: u and v of the first, and the steps to the next."""
    x = view[0] + 0.5 / view[2] - view[3]
    y = view[1] + (row + 0.5) / view[2] - view[4]
    cosine, sine = view[5] / view[7], view[6] / view[7]
    return cosine * x + sine * y, cosine * y - sine * x, cosine / view[2], -sine / view[2]


@compiled
def fill(
    image: np.ndarray,
    view: View,
    shape: Shape,
    colour: Colour,
    light: tuple[float, float] = (0.0, 0.0),
    opacity: float = 1.0,
    soft: float = 0.0,
) -> None:
    """Fills a shape; `light` brightens it along u and v, per 50 units, and `soft` is the width of a blurred edge."""
    top, bottom, left, right = _pixels(image, view, shape, 0.5 * soft)
    edge = 1.0 / max(soft, 1.0 / (view[2] * view[7]))
    for row in range(top, bottom):
        u0, v0, step_u, step_v = _row(view, row)
        for column in range(left, right):
            u, v = u0 + step_u * column, v0 + step_v * column
            cover = min(max(0.5 - _distance(shape, u, v) * edge, 0.0), 1.0) * opacity
            if cover > 0.0:
                gain = 1.0 + (light[0] * u + light[1] * v) / 50.0
                for channel in range(3):
                    image[row, column, channel] += cover * (colour[channel] * gain - image[row, column, channel])


@compiled
def fill_hair(
    image: np.ndarray,
    view: View,
    shape: Shape,
    palette: np.ndarray,
    wave: tuple[float, float, float],
    light: tuple[float, float],
) -> None:
    """Fills a shape with strands that take the colours of the palette in turn; `wave` is (swing, frequency, phase)."""
    top, bottom, left, right = _pixels(image, view, shape, 0.0)
    edge = view[2] * view[7]
    for row in range(top, bottom):
        u0, v0, step_u, step_v = _row(view, row)
        for column in range(left, right):
            u, v = u0 + step_u * column, v0 + step_v * column
            cover = min(max(0.5 - _distance(shape, u, v) * edge, 0.0), 1.0)
            if cover > 0.0:
                strand = (u + wave[0] * math.sin(wave[1] * v + wave[2])) / 6.5 + 1000.0
                whole = math.floor(strand)
                blend = min(max((strand - whole - 0.6) / 0.4, 0.0), 1.0)  # a strand's border fades into the next
                first, second = int(whole) % len(palette), int(whole + 1) % len(palette)
                gain = 1.0 + (light[0] * u + light[1] * v) / 50.0 + 0.09 * math.sin(2.4 * strand)
                for channel in range(3):
                    wanted = palette[first, channel] * (1.0 - blend) + palette[second, channel] * blend
                    image[row, column, channel] += cover * (wanted * gain - image[row, column, channel])


@compiled
def mix(first: Colour, second: Colour, share: float) -> Colour:
    """The first colour with a share of the second."""
    keep = 1.0 - share
    return (
        first[0] * keep + second[0] * share,
        first[1] * keep + second[1] * share,
        first[2] * keep + second[2] * share,
    )


@compiled
def lighten(colour: Colour, by: float) -> Colour:
    """The colour with every channel multiplied."""
    return (min(colour[0] * by, 255.0), min(colour[1] * by, 255.0), min(colour[2] * by, 255.0))


@compiled
def hue(turn: float, saturation: float, value: float) -> Colour:
    """The colour at a turn (0 to 1) around the circle of hues; saturation and value from 0 to 1."""
    red, green, blue = (5.0 + 6.0 * turn) % 6.0, (3.0 + 6.0 * turn) % 6.0, (1.0 + 6.0 * turn) % 6.0
    full = 255.0 * value
    return (
        full * (1.0 - saturation * max(0.0, min(red, 4.0 - red, 1.0))),
        full * (1.0 - saturation * max(0.0, min(green, 4.0 - green, 1.0))),
        full * (1.0 - saturation * max(0.0, min(blue, 4.0 - blue, 1.0))),
    )
