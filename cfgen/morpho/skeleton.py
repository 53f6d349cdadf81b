"""Area, thickness and length of strokes, from the medial axis of the enlarged image made binary at half its range.

The medial axis is scikit-image's: pixels are taken off, unless that would break or shorten the stroke, those nearest
to the background first and among equals those that touch the least of it. Ties go by a random permutation. Here it is a
fixed one, that of scikit-image before 0.19, with which the published Morpho-MNIST was made (scikit-image now draws a
new one at every call).
"""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from cfgen.morpho.arrays import Bytes, Floats, Ints, Words

_FAR = 1 << 15  # more than any distance in an image; its square leaves room in 32 bits to add another one


class Strokes(NamedTuple):
    """One value an image; NaN where the enlarged image is constant."""

    area: Floats
    thickness: Floats
    length: Floats


def measure_strokes(hires: Bytes, scale: int, orders: int) -> Strokes:
    """Strokes of images `(N, scale·H, scale·W)` in pixels of the original size.

    Thickness and length are means over `orders` (1, 2 or 4) ways of breaking ties; 0 leaves them out.
    """
    n = len(hires)
    area, thickness, length = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    words = _random_words(hires.shape[1] * hires.shape[2])
    _measure(hires, scale, orders, *_tables(), words, area, thickness, length)
    return Strokes(area, thickness, length)


@cache
def _tables() -> tuple[Bytes, Bytes]:
    """Whether a pixel stays, and how many of its neighbours are blank, for each of the 256 states of these.

    It stays if it has fewer than two, or if they would not be one connected piece without it.
    """
    places = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]
    keep, blank = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    for state in range(256):
        left = {place for bit, place in enumerate(places) if state >> bit & 1}
        blank[state] = 8 - len(left)
        pieces = 0
        while left:
            pieces += 1
            piece = [left.pop()]
            while piece:
                y, x = piece.pop()
                near = {p for p in left if abs(p[0] - y) <= 1 and abs(p[1] - x) <= 1}
                left -= near
                piece.extend(near)
        keep[state] = blank[state] > 6 or pieces != 1
    return keep, blank


@lru_cache(maxsize=8)
def _random_words(pixels: int) -> Words:
    """The generator's raw output, enough to shuffle `pixels` numbers: less than every second draw is refused."""
    return np.random.RandomState(0).randint(0, 2**32, min(3 * pixels + 64, 2**22), dtype=np.uint32)


@njit(cache=True, nogil=True)
def _shuffle(order: Ints, n: int, words: Words) -> None:
    """order[:n] = the inverse of NumPy's `RandomState(0).permutation(n)`; `order[n:2n]` is scratch."""
    drawn = order[n : 2 * n]
    for i in range(n):
        drawn[i] = i
    used, mask = 0, 1
    while mask < n - 1:
        mask = 2 * mask + 1
    for i in range(n - 1, 0, -1):
        if mask // 2 >= i:
            mask //= 2
        j = n
        while j > i:
            j = int(words[used]) & mask
            used += 1
            if used == words.size:
                used = 0
        drawn[i], drawn[j] = drawn[j], drawn[i]
    for i in range(n):
        order[drawn[i]] = i


@njit(cache=True, nogil=True)
def _distances(ink: Bytes, squared: Ints, gap: Ints, top: int, bottom: int, left: int, right: int) -> int:
    """Squared distance of every inked pixel of a box to the nearest blank one; `gap` is scratch. Returns the largest.

    Down the columns first; then whole rows at a time, shifted outwards only as far as a nearer pixel could lie.
    """
    width = right - left
    far, one = np.int32(_FAR), np.int32(1)
    above = np.full(width, far, np.int32)
    for y in range(top, bottom):
        row, here = ink[y, left:right], gap[y, left:right]
        for x in range(width):
            here[x] = min(above[x] + one, far) * np.int32(row[x])
        above = here
    for y in range(bottom - 2, top - 1, -1):
        here, below = gap[y, left:right], gap[y + 1, left:right]
        for x in range(width):
            here[x] = min(here[x], below[x] + one)
    largest = np.int32(0)
    padded = np.full(3 * width, far * far, np.int32)
    squares = padded[width : 2 * width]
    for y in range(top, bottom):
        here, out = gap[y, left:right], squared[y, left:right]
        farthest = np.int32(0)
        for x in range(width):
            squares[x] = here[x] * here[x]
            out[x] = squares[x]
            farthest = max(farthest, squares[x])
        k = 1
        while k * k < farthest and k < width:
            square, farthest = np.int32(k * k), np.int32(0)
            before, after = padded[width - k : 2 * width - k], padded[width + k : 2 * width + k]
            for x in range(width):
                out[x] = min(out[x], square + min(before[x], after[x]))
                farthest = max(farthest, out[x])
            k += 1
        largest = max(largest, farthest)
    return int(largest)


@njit(cache=True, nogil=True)
def _near(state: Bytes, at: int, stride: int) -> int:
    """The eight neighbours of flat position `at` as bits."""
    return (
        state[at - stride - 1]
        | state[at - stride] << 1
        | state[at - stride + 1] << 2
        | state[at - 1] << 3
        | state[at + 1] << 4
        | state[at + stride - 1] << 5
        | state[at + stride] << 6
        | state[at + stride + 1] << 7
    )


@njit(cache=True, nogil=True)
def _binarise(image: Bytes, ink: Bytes) -> tuple[int, int, int, int, int]:
    """Fill `ink` with the pixels that are at least half-way between darkest and brightest; returns their box and count.

    The box has a margin of one pixel inside the image; without contrast the count is 0.
    """
    height, width = image.shape
    low, high = np.uint8(255), np.uint8(0)
    for y in range(height):
        row = image[y]
        for x in range(width):
            low, high = min(low, row[x]), max(high, row[x])
    top, bottom, left, right, count = height, 0, width, 0, 0
    if low == high:
        return top, bottom, left, right, count
    middle = np.uint8((np.int64(low) + np.int64(high) + 1) // 2)
    for y in range(height):
        row, out = image[y], ink[y]
        here = 0
        for x in range(width):
            out[x] = row[x] >= middle
            here += out[x]
        if here:
            count += here
            top, bottom = min(top, y), y + 1
            x = 0
            while not out[x]:
                x += 1
            left = min(left, x)
            x = width
            while not out[x - 1]:
                x -= 1
            right = max(right, x)
    return max(top - 1, 0), min(bottom + 1, height), max(left - 1, 0), min(right + 1, width), count


@njit(cache=True, nogil=True)
def _measure(
    hires: Bytes,
    scale: int,
    orders: int,
    keep: Bytes,
    blank: Bytes,
    words: Words,
    area: Floats,
    thickness: Floats,
    length: Floats,
) -> None:
    n, height, width = hires.shape
    ink = np.empty((height, width), np.uint8)
    squared = np.empty((height, width), np.int32)
    gap = np.empty((height, width), np.int32)
    stride = width + 2
    state = np.zeros((height + 2) * stride, np.uint8)
    places = np.empty(height * width, np.int32)
    keys = np.empty(height * width, np.int32)
    order = np.empty(2 * height * width, np.int32)
    for i in range(n):
        top, bottom, left, right, count = _binarise(hires[i], ink)
        if count == 0:
            continue
        area[i] = count / scale**2
        if orders == 0:
            continue

        largest = _distances(ink, squared, gap, top, bottom, left, right)
        first = np.zeros(10 * (largest + 1) + 1, np.int32)
        for y in range(top, bottom):
            state[(y + 1) * stride + left + 1 : (y + 1) * stride + right + 1] = ink[y, left:right]
        k = 0
        for y in range(top, bottom):
            for x in range(left, right):
                if ink[y, x]:
                    at = (y + 1) * stride + x + 1
                    places[k] = at
                    keys[k] = 10 * squared[y, x] + blank[_near(state, at, stride)]
                    first[keys[k] + 1] += 1
                    k += 1
        for b in range(1, first.size):
            first[b] += first[b - 1]
        _shuffle(order, count, words)
        sequence = order[count : 2 * count]
        thickness[i], length[i] = 0.0, 0.0
        for o in range(orders):
            # one permutation gives four: forwards, backwards, and both again from its middle
            t, step = (o // 2) * (count // 2), 1 - 2 * (o % 2)
            free = first.copy()
            for _ in range(count):
                k = order[t]
                sequence[free[keys[k]]] = places[k]
                free[keys[k]] += 1
                t += step
                if t == count:
                    t = 0
                elif t < 0:
                    t = count - 1
            for k in range(count):
                state[places[k]] = 1
            for at in sequence:
                state[at] = keep[_near(state, at, stride)]

            kept, total, straight, diagonal = 0, 0.0, 0, 0
            for k in range(count):
                at = places[k]
                if state[at]:
                    kept += 1
                    total += np.sqrt(keys[k] // 10)
                    straight += state[at + 1] + state[at + stride]
                    diagonal += state[at + stride - 1] + state[at + stride + 1]
            thickness[i] += 2.0 * (total / kept) / scale / orders
            length[i] += (straight + diagonal * np.sqrt(2.0)) / scale / orders
        for k in range(count):
            state[places[k]] = 0
