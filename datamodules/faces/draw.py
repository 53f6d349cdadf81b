"""Draws the synthetic faces: from a face's state and its attributes to pixels, the image mechanism x := g(z, a)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from datamodules.faces.scm import ATTRIBUTES
from datamodules.faces.shapes import (
    Colour,
    View,
    box,
    cap,
    compiled,
    curls,
    disc,
    ellipse,
    fill,
    fill_hair,
    frame,
    head,
    hue,
    lighten,
    lips,
    mix,
    stroke,
)

__all__ = ["HEIGHT", "WIDTH", "paint"]

WIDTH, HEIGHT = 178, 218  # of CelebA's aligned images

# where an attribute stands in a row; compiled code takes these as constants
_BANGS, _BIG_NOSE = ATTRIBUTES.index("Bangs"), ATTRIBUTES.index("Big_Nose")
_BLACK, _BLOND = ATTRIBUTES.index("Black_Hair"), ATTRIBUTES.index("Blond_Hair")
_BROWN, _GRAY = ATTRIBUTES.index("Brown_Hair"), ATTRIBUTES.index("Gray_Hair")
_BUSHY, _GLASSES = ATTRIBUTES.index("Bushy_Eyebrows"), ATTRIBUTES.index("Eyeglasses")
_OPEN, _SMILING = ATTRIBUTES.index("Mouth_Slightly_Open"), ATTRIBUTES.index("Smiling")
_PALE, _RECEDING = ATTRIBUTES.index("Pale_Skin"), ATTRIBUTES.index("Receding_Hairline")
_EARRINGS, _LIPSTICK = ATTRIBUTES.index("Wearing_Earrings"), ATTRIBUTES.index("Wearing_Lipstick")
_YOUNG = ATTRIBUTES.index("Young")


def paint(
    state: np.ndarray,
    attributes: np.ndarray,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    window: tuple[float, float, float] = (0.0, 0.0, float(WIDTH)),
) -> np.ndarray:
    """Faces as (N, height, width, 3) bytes from their state (N,) and attributes (N, 15) in the order of ATTRIBUTES.

    `size` is that of an image in pixels; `window` is the part of the 178 x 218 canvas it shows: left, top and width.
    """
    images = np.empty((len(state), *size, 3), dtype=np.uint8)
    _paint(state, np.ascontiguousarray(attributes, dtype=np.uint8), images, window)
    return images


@compiled
def _paint(state: Any, attributes: np.ndarray, images: np.ndarray, window: tuple[float, float, float]) -> None:
    height, width = images.shape[1:3]
    canvas = np.empty((height, width, 3), dtype=np.float32)
    for i in range(len(images)):
        _face(canvas, state[i], attributes[i], window, width / window[2])
        for row in range(height):
            for column in range(width):
                for channel in range(3):
                    images[i, row, column, channel] = np.uint8(min(max(canvas[row, column, channel], 0.0), 255.0) + 0.5)


@compiled
def _face(image: np.ndarray, s: Any, a: np.ndarray, window: tuple[float, float, float], zoom: float) -> None:
    """One face, from the back to the front."""
    angle, scale = 0.05 * s.roll, 1.0 + 0.12 * s.scale
    x, y = 89.0 + 8.0 * (s.shift_x - 0.5), 115.0 + 6.0 * (s.shift_y - 0.5)
    upright = (window[0], window[1], zoom, x, y, 1.0, 0.0, 1.0)
    view = (window[0], window[1], zoom, x, y, math.cos(angle), math.sin(angle), scale)
    light = (0.07 * s.light, -0.05)
    wave = (1.0 + 3.0 * s.wave, 0.09 + 0.05 * s.phase, 6.28 * s.phase)
    w, h = 40.0 + 6.0 * s.width, 51.0 + 6.0 * s.height
    skin, hair = _skin(s, a), _hair(s, a)

    _backdrop(image, upright, s)
    _back_hair(image, view, s, hair, wave, light, w, h)
    fill(image, view, box(0.0, 62.0, 17.0, 34.0, 8.0), lighten(skin, 0.84))
    fill(image, upright, ellipse(0.0, 121.0, 84.0, 44.0), hue(s.shirt, 0.55, 0.35 + 0.5 * s.shirt_shade))
    for side in (-1.0, 1.0):
        fill(image, view, ellipse(side * (w - 0.5), 4.0, 6.5, 10.0), lighten(skin, 0.93), light)
    fill(image, view, head(w, h, 0.10 + 0.22 * s.jaw), skin, light)
    _age(image, view, a, skin, w)
    crown = cap(w, h, s.hairline, 2.0 * s.parting - 1.0, float(a[_RECEDING]), float(a[_BANGS]))
    fill_hair(image, view, crown, hair, wave, light)
    _nose(image, view, s, a, skin)
    _mouth(image, view, s, a, skin)
    _eyes(image, view, s)
    _brows(image, view, s, a)
    if a[_GLASSES]:
        _glasses(image, view, s, w)
    if a[_EARRINGS]:
        for side in (-1.0, 1.0):
            _earring(image, view, s, side * (w + 2.5))


@compiled
def _skin(s: Any, a: np.ndarray) -> Colour:
    """From tan to deep brown by the face's own tone; pale skin keeps a trace of it."""
    own = mix(mix((226.0, 176.0, 138.0), (232.0, 172.0, 122.0), s.warmth), (122.0, 76.0, 50.0), s.tone)
    return mix((255.0, 233.0, 219.0), own, 0.10) if a[_PALE] else own


@compiled
def _hair(s: Any, a: np.ndarray) -> np.ndarray:
    """The colours of the strands: one for each hair attribute that is present; without any, a red of the face's own.

    So every combination of the four is a sight of its own: black and gray is salt and pepper, brown and blond has
    highlights.
    """
    colours = np.empty((4, 3))
    count = 0
    for present, colour in (
        (a[_BLACK], (30.0, 26.0, 30.0)),
        (a[_BLOND], (240.0, 205.0, 120.0)),
        (a[_BROWN], (112.0, 70.0, 40.0)),
        (a[_GRAY], (186.0, 188.0, 196.0)),
    ):
        if present:
            colours[count, 0], colours[count, 1], colours[count, 2] = colour
            count += 1
    if count == 0:
        colours[0, 0], colours[0, 1], colours[0, 2] = mix((158.0, 48.0, 40.0), (222.0, 104.0, 44.0), s.natural)
        count = 1
    for channel in range(3):  # strands shine through each other
        mean = colours[:count, channel].mean()
        colours[:count, channel] += 0.25 * (mean - colours[:count, channel])
    return colours[:count]


@compiled
def _backdrop(image: np.ndarray, view: View, s: Any) -> None:
    """A soft colour, lighter around the head; every pixel of the image is set."""
    colour = hue(s.background, 0.10 + 0.20 * s.backdrop, 0.60 + 0.3 * s.backdrop)
    for row in range(image.shape[0]):
        v = view[1] + (row + 0.5) / view[2] - view[4]
        for column in range(image.shape[1]):
            u = view[0] + (column + 0.5) / view[2] - view[3]
            glow = min(max(1.375 - math.sqrt(u * u + (v + 10.0) ** 2) / 80.0, 0.0), 1.0)
            gain = (1.0 + 0.0006 * u - 0.0016 * v) * (1.0 + 0.08 * glow)
            for channel in range(3):
                image[row, column, channel] = colour[channel] * gain


@compiled
def _back_hair(
    image: np.ndarray, view: View, s: Any, hair: np.ndarray, wave: Any, light: Any, w: float, h: float
) -> None:
    """Behind the face: short, curly, a bob or long."""
    full = 4.0 + 5.0 * s.volume
    top = -0.28 * h
    if s.style < 0.3:
        shape = ellipse(0.0, top, w + 0.6 * full, 0.78 * h + 0.6 * full)
    elif s.style < 0.5:
        shape = curls(0.0, top + 4.0, w + full, 0.80 * h + full, 6.0 * s.phase)
    else:
        end = 34.0 + 10.0 * s.volume if s.style < 0.72 else 95.0
        shape = box(0.0, (end - h - full) / 2.0, w + full, (end + h + full) / 2.0, w)
    fill_hair(image, view, shape, hair, wave, light)


@compiled
def _age(image: np.ndarray, view: View, a: np.ndarray, skin: Colour, w: float) -> None:
    """Rosy cheeks of the young; lines of the old on the forehead, under the eyes and beside the mouth."""
    crease = lighten(skin, 0.62)
    for side in (-1.0, 1.0):
        if a[_YOUNG]:
            blush = mix(skin, (238.0, 84.0, 92.0), 0.6)
            fill(image, view, ellipse(side * 0.60 * w, 18.0, 9.5, 7.0), blush, (0.0, 0.0), 0.55, 6.0)
        else:
            fill(image, view, stroke(side * 11.0, 14.0, side * 20.0, 31.0, -2.5, 1.5, 0.6), crease, (0.0, 0.0), 0.85)
            fill(image, view, stroke(side * 12.0, 5.5, side * 27.0, 4.5, 4.0, 1.3, 0.6), crease, (0.0, 0.0), 0.8)
    if not a[_YOUNG]:
        for v in (-28.0, -23.5):
            fill(image, view, stroke(-17.0, v, 17.0, v, -1.2, 1.1, 0.5), crease, (0.0, 0.0), 0.75)


@compiled
def _nose(image: np.ndarray, view: View, s: Any, a: np.ndarray, skin: Colour) -> None:
    big = 2.05 if a[_BIG_NOSE] else 1.0
    wide, v = (4.6 + 1.4 * s.nose) * big, 13.0 + 2.0 * s.nose
    ridge = stroke(0.45 * wide, -4.0, 0.75 * wide, v - 1.0, -1.0, 1.2, 0.5)
    fill(image, view, ridge, lighten(skin, 0.74), (0.0, 0.0), 0.9)
    fill(image, view, ellipse(0.0, v, wide, 0.72 * wide), mix(lighten(skin, 0.84), (222.0, 92.0, 78.0), 0.26))
    shine = ellipse(-0.25 * wide, v - 0.25 * wide, 0.42 * wide, 0.3 * wide)
    fill(image, view, shine, lighten(skin, 1.10), (0.0, 0.0), 0.8, 2.0)
    fill(
        image,
        view,
        stroke(-0.9 * wide, v + 0.2 * wide, 0.9 * wide, v + 0.2 * wide, 0.6 * wide, 0.9, 0.5),
        lighten(skin, 0.6),
    )
    for side in (-1.0, 1.0):
        fill(image, view, ellipse(side * 0.45 * wide, v + 0.35 * wide, 0.2 * wide, 0.14 * wide), lighten(skin, 0.5))


@compiled
def _mouth(image: np.ndarray, view: View, s: Any, a: np.ndarray, skin: Colour) -> None:
    smile = a[_SMILING] > 0
    v, wide = 31.0 + (2.5 if smile else 0.0), (12.5 + 3.0 * s.mouth_width) * (1.22 if smile else 1.0)
    rise = 6.5 if smile else -1.2
    gap = 3.6 if a[_OPEN] else 0.0
    colour = mix(lighten(skin, 0.80), (186.0, 78.0, 74.0), 0.38)
    if a[_LIPSTICK]:
        colour = hue((0.93 + 0.08 * s.lipstick) % 1.0, 0.92, 0.70 + 0.22 * s.lips)
    upper, lower = 2.3 + 1.0 * s.lips, 3.1 + 1.4 * s.lips
    fill(image, view, lips(v, wide, rise, upper + gap, lower + gap), colour)
    if gap > 0.0:
        fill(image, view, lips(v, wide - 2.2, rise, gap, gap + 0.4), (82.0, 22.0, 30.0))
        fill(image, view, lips(v, wide - 2.2, rise, gap, -0.2), (250.0, 246.0, 240.0))
    else:
        fill(image, view, stroke(-wide, v - rise, wide, v - rise, rise, 1.0, 0.4), lighten(colour, 0.42))
    if smile:
        for side in (-1.0, 1.0):
            dimple = stroke(side * (wide + 0.5), v - rise - 3.5, side * (wide + 1.0), v - rise + 2.5, -1.2, 0.9, 0.4)
            fill(image, view, dimple, lighten(skin, 0.62))


@compiled
def _eyes(image: np.ndarray, view: View, s: Any) -> None:
    size, apart, v = 1.0 + 0.14 * s.eyes, 17.5 + 2.5 * s.spacing, -4.0
    iris = hue(0.25 + 0.4 * s.iris, 0.6, 0.62) if s.iris > 0.45 else (92.0, 54.0, 30.0)
    wide, tall = 8.2 * size, 5.6 * size
    for side in (-1.0, 1.0):
        u = side * apart
        look = u + 1.1 * s.gaze
        fill(image, view, ellipse(u, v, wide, tall), (250.0, 249.0, 246.0))
        fill(image, view, disc(look, v, 4.9 * size), iris)
        fill(image, view, disc(look, v, 2.5 * size), (14.0, 12.0, 14.0))
        fill(image, view, disc(look - 1.5 * size, v - 1.7 * size, 1.25 * size), (255.0, 255.0, 255.0))
        fill(image, view, stroke(u - wide, v - 0.2, u + wide, v - 0.2, -tall, 1.15, 0.3), (46.0, 32.0, 30.0))


@compiled
def _brows(image: np.ndarray, view: View, s: Any, a: np.ndarray) -> None:
    """Their colour is the face's own, whatever the hair's: a brow tells nothing of the hair."""
    colour = mix((26.0, 19.0, 17.0), (72.0, 46.0, 30.0), s.brow_shade)
    apart, v, lean = 17.5 + 2.5 * s.spacing, -18.6 - 2.5 * s.brow - 0.24 * s.eyes, 1.1 * s.tilt
    thick, taper = (3.1, 0.25) if a[_BUSHY] else (1.15, 0.35)
    for side in (-1.0, 1.0):
        inner, outer = side * (apart - 9.0), side * (apart + 10.0)
        fill(image, view, stroke(inner, v + lean, outer, v - lean, -2.6, thick, taper), colour)


@compiled
def _glasses(image: np.ndarray, view: View, s: Any, w: float) -> None:
    """Round or square, dark or coloured."""
    colour = hue(s.glasses_hue, 0.75, 0.42) if s.glasses_hue > 0.5 else (26.0, 24.0, 28.0)
    apart, v = 17.5 + 2.5 * s.spacing, -3.0
    half, tall, corner = (13.0, 13.0, 13.0) if s.glasses < 0.5 else (14.0, 10.5, 3.5)
    for side in (-1.0, 1.0):
        u = side * apart
        fill(image, view, box(u, v, half, tall, corner), (225.0, 240.0, 250.0), (0.0, 0.0), 0.22)
        fill(image, view, frame(u, v, half, tall, corner, 1.5), colour)
        fill(image, view, stroke(u + side * half, v - 3.0, side * (w - 0.5), v - 4.0, 0.0, 1.3, 0.0), colour)
    fill(image, view, stroke(half - apart, v - 2.0, apart - half, v - 2.0, -1.8, 1.4, 0.0), colour)


@compiled
def _earring(image: np.ndarray, view: View, s: Any, u: float) -> None:
    """A gold ring or a coloured drop under the ear."""
    if s.jewel < 0.5:
        fill(image, view, frame(u, 22.0, 5.2, 5.2, 5.2, 1.5), (246.0, 196.0, 54.0))
    else:
        fill(image, view, ellipse(u, 21.0, 4.2, 6.2), hue(2.0 * s.jewel - 1.0, 0.7, 0.95))
        fill(image, view, disc(u - 1.2, 18.5, 1.3), (255.0, 255.0, 255.0), (0.0, 0.0), 0.8)
