"""Enlarging and reducing images as scikit-image's `pyramid_expand` and `pyramid_reduce` with `order=3` do.

`pyramid_expand` is a cubic resize, clipped to the range of its input, then a Gaussian of sigma 2·scale/6. What "cubic"
means changed with scikit-image 0.19: a B-spline since then (`spline`; what a measuring tool computes today), cubic
convolution before (`convolution`; what the published Morpho-MNIST was made with). Sums run in the order in which SciPy
takes them, because the enlarged image is truncated to 8 bits, and one rounding error on a plateau costs a grey level.
"""

from typing import Literal

import numpy as np
from numba import njit

from cfgen.morpho.arrays import Bytes, Floats

Interpolation = Literal["spline", "convolution"]

_POLE = np.sqrt(3.0) - 2.0  # of the cubic B-spline's inverse filter


def expand(images: Bytes, scale: int, interpolation: Interpolation) -> Bytes:
    """Images `(N, H, W)` enlarged to `(N, scale·H, scale·W)` and put back to 8 bits by truncation."""
    n, height, width = images.shape
    hires = np.empty((n, scale * height, scale * width), np.uint8)
    weights = _phase_weights(scale, interpolation)
    _expand(images, hires, weights, _gaussian(scale), scale, interpolation == "spline")
    return hires


def reduce_binary(binary: Bytes, scale: int) -> Bytes:
    """0/1 images `(N, scale·H, scale·W)` smoothed and sampled down to 8-bit `(N, H, W)`, by cubic convolution."""
    n, height, width = binary.shape
    images = np.empty((n, height // scale, width // scale), np.uint8)
    _reduce(binary, images, _gaussian(scale), scale)
    return images


def _gaussian(scale: int) -> Floats:
    """Half of SciPy's Gaussian kernel, centre first, cut off at four sigmas."""
    sigma = 2 * scale / 6.0
    radius = int(4.0 * sigma + 0.5)
    x = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 / (sigma * sigma) * x**2)
    return (kernel / kernel.sum())[radius:]


def _phase_weights(scale: int, interpolation: Interpolation) -> Floats:
    """`(scale, 4)`: weights of the four nearest samples for each of the `scale` new positions in a pixel."""
    x = (np.arange(scale) + 0.5) / scale - 0.5
    x -= np.floor(x)
    z = 1.0 - x
    if interpolation == "spline":
        w = np.stack(
            [z * z * z / 6, (x * x * (x - 2) * 3 + 4) / 6, (z * z * (z - 2) * 3 + 4) / 6, np.zeros_like(x)], axis=1
        )
        w[:, 3] = 1.0 - w[:, 0] - w[:, 1] - w[:, 2]
        return w
    return 0.5 * np.stack(
        [x * (-1 + x * (2 - x)), 2 + x * x * (3 * x - 5), x * (1 + x * (4 - 3 * x)), x * x * (x - 1)], axis=1
    )


@njit(cache=True, nogil=True)
def _mirror(i: int, n: int) -> int:
    """Index `i` reflected about the first and last sample."""
    if n == 1:
        return 0
    i = abs(i) % (2 * n - 2)
    return i if i < n else 2 * n - 2 - i


@njit(cache=True, nogil=True)
def _reflect(i: int, n: int) -> int:
    """Index `i` reflected about the edges, half a sample outside the first and last one."""
    i = i % (2 * n)
    return i if i < n else 2 * n - 1 - i


@njit(cache=True, nogil=True)
def _spline_filter(c: Floats, pole: float) -> None:
    """Cubic B-spline coefficients of the columns of `c`, in place, mirrored at the ends."""
    n, width = c.shape
    if n == 1:
        return
    gain = (1.0 - pole) * (1.0 - 1.0 / pole)
    last = pole ** (n - 1)
    for i in range(n):
        for j in range(width):
            c[i, j] *= gain
    for j in range(width):
        c[0, j] = c[0, j] + last * c[n - 1, j]
    power = pole
    for i in range(1, n - 1):
        for j in range(width):
            c[0, j] += power * (c[i, j] + last * c[n - 1 - i, j])
        power *= pole
    for j in range(width):
        c[0, j] /= 1.0 - last * last
    for i in range(1, n):
        for j in range(width):
            c[i, j] += pole * c[i - 1, j]
    for j in range(width):
        c[n - 1, j] = (pole * c[n - 2, j] + c[n - 1, j]) * pole / (pole * pole - 1.0)
    for i in range(n - 2, -1, -1):
        for j in range(width):
            c[i, j] = pole * (c[i + 1, j] - c[i, j])


@njit(cache=True, nogil=True)
def _smooth(out: Floats, flat: Floats, centre: int, step: int, kernel: Floats) -> None:
    """out[x] = sum over t of kernel[|t|]·flat[centre + t·step + x]: one line of a Gaussian along either axis."""
    n = out.size
    line = flat[centre : centre + n]
    for x in range(n):
        out[x] = line[x] * kernel[0]
    t = kernel.size - 1
    # Pairs from the outside in, SciPy's order; five at a time, so that the sum stays in a register.
    while t >= 5:
        a0, b0, w0 = flat[centre - t * step :][:n], flat[centre + t * step :][:n], kernel[t]
        a1, b1, w1 = flat[centre - (t - 1) * step :][:n], flat[centre + (t - 1) * step :][:n], kernel[t - 1]
        a2, b2, w2 = flat[centre - (t - 2) * step :][:n], flat[centre + (t - 2) * step :][:n], kernel[t - 2]
        a3, b3, w3 = flat[centre - (t - 3) * step :][:n], flat[centre + (t - 3) * step :][:n], kernel[t - 3]
        a4, b4, w4 = flat[centre - (t - 4) * step :][:n], flat[centre + (t - 4) * step :][:n], kernel[t - 4]
        for x in range(n):
            s = out[x] + (a0[x] + b0[x]) * w0
            s = s + (a1[x] + b1[x]) * w1
            s = s + (a2[x] + b2[x]) * w2
            s = s + (a3[x] + b3[x]) * w3
            out[x] = s + (a4[x] + b4[x]) * w4
        t -= 5
    while t >= 1:
        a, b, w = flat[centre - t * step :][:n], flat[centre + t * step :][:n], kernel[t]
        for x in range(n):
            out[x] = out[x] + (a[x] + b[x]) * w
        t -= 1


@njit(cache=True, nogil=True)
def _interpolate_spline(c: Floats, planes: Floats, weights: Floats, scale: int, pad: int) -> None:
    """Fill `planes[pad + y, p·W + j]` with the value at row y and column scale·j + p, from spline coefficients `c`."""
    height, width = c.shape
    rows = np.empty((4, width + 4))
    half = scale // 2
    for y in range(scale * height):
        phase = y % scale
        top = y // scale - (2 if phase < half else 1)
        for a in range(4):
            source, w = c[_mirror(top + a, height)], weights[phase, a]
            row = rows[a]
            for j in range(width):
                row[2 + j] = source[j] * w
            for k in range(2):
                row[1 - k] = row[2 + _mirror(-1 - k, width)]
                row[2 + width + k] = row[2 + _mirror(width + k, width)]
        for p in range(scale):
            out = planes[pad + y, p * width : (p + 1) * width]
            left = 0 if p < half else 1
            w0, w1, w2, w3 = weights[p, 0], weights[p, 1], weights[p, 2], weights[p, 3]
            r0, r1, r2, r3 = rows[0, left:], rows[1, left:], rows[2, left:], rows[3, left:]
            for j in range(width):
                s = r0[j] * w0 + r0[j + 1] * w1 + r0[j + 2] * w2 + r0[j + 3] * w3
                s = s + r1[j] * w0 + r1[j + 1] * w1 + r1[j + 2] * w2 + r1[j + 3] * w3
                s = s + r2[j] * w0 + r2[j + 1] * w1 + r2[j + 2] * w2 + r2[j + 3] * w3
                s = s + r3[j] * w0 + r3[j + 1] * w1 + r3[j + 2] * w2 + r3[j + 3] * w3
                out[j] = s


@njit(cache=True, nogil=True)
def _interpolate_convolution(c: Floats, planes: Floats, weights: Floats, scale: int, pad: int) -> None:
    """The same from the pixels themselves: along the rows first, then down the columns."""
    height, width = c.shape
    half = scale // 2
    wide = np.empty((height, scale * width))
    row = np.empty(width + 4)
    for y in range(height):
        for j in range(-2, width + 2):
            row[2 + j] = c[y, _mirror(j, width)]
        for p in range(scale):
            out = wide[y, p * width : (p + 1) * width]
            r = row[0 if p < half else 1 :]
            w0, w1, w2, w3 = weights[p, 0], weights[p, 1], weights[p, 2], weights[p, 3]
            for j in range(width):
                out[j] = r[j] * w0 + r[j + 1] * w1 + r[j + 2] * w2 + r[j + 3] * w3
    for y in range(scale * height):
        phase = y % scale
        top = y // scale - (2 if phase < half else 1)
        w0, w1, w2, w3 = weights[phase, 0], weights[phase, 1], weights[phase, 2], weights[phase, 3]
        r0, r1 = wide[_mirror(top, height)], wide[_mirror(top + 1, height)]
        r2, r3 = wide[_mirror(top + 2, height)], wide[_mirror(top + 3, height)]
        out = planes[pad + y]
        for x in range(scale * width):
            out[x] = r0[x] * w0 + r1[x] * w1 + r2[x] * w2 + r3[x] * w3


@njit(cache=True, nogil=True)
def _box(image: Bytes, margin: int) -> tuple[int, int, int, int]:
    """First and last+1 row and column of the pixels that are not zero, with a margin inside the image."""
    height, width = image.shape
    top, bottom, left, right = height, 0, width, 0
    for y in range(height):
        for x in range(width):
            if image[y, x]:
                top, bottom, left, right = min(top, y), y + 1, min(left, x), max(right, x + 1)
    if bottom == 0:
        return 0, height, 0, width
    return max(top - margin, 0), min(bottom + margin, height), max(left - margin, 0), min(right + margin, width)


@njit(cache=True, nogil=True)
def _expand(images: Bytes, hires: Bytes, weights: Floats, kernel: Floats, scale: int, spline: bool) -> None:
    n, full_height, full_width = images.shape
    pad = kernel.size - 1
    pixels = np.empty(full_height * full_width)
    flat = np.empty((scale * full_height + 2 * pad) * scale * full_width)
    for i in range(n):
        # A spline reaches everywhere. A convolution reaches two pixels; the Gaussian adds what is too dark to be seen.
        top, bottom, left, right = (0, full_height, 0, full_width) if spline else _box(images[i], 3)
        height, width = bottom - top, right - left
        tall, wide = scale * height, scale * width
        c = pixels[: height * width].reshape(height, width)
        low, high = 1.0, 0.0
        for y in range(height):
            for x in range(width):
                value = images[i, top + y, left + x] * (1.0 / 255)
                c[y, x] = value
                low, high = min(low, value), max(high, value)
        # Columns are kept phase by phase until the last pass, so that every loop runs over neighbours in memory.
        planes = flat[: (tall + 2 * pad) * wide].reshape(tall + 2 * pad, wide)
        if spline:
            _spline_filter(c, _POLE)
            _spline_filter(c.T, _POLE)
            _interpolate_spline(c, planes, weights, scale, pad)
        else:
            _interpolate_convolution(c, planes, weights, scale, pad)
        for k in range(pad * wide, (pad + tall) * wide):
            flat[k] = min(max(flat[k], low), high)
        for k in range(pad):
            planes[pad - 1 - k] = planes[pad + _reflect(-1 - k, tall)]
            planes[pad + tall + k] = planes[pad + _reflect(tall + k, tall)]
        if height < full_height or width < full_width:
            hires[i] = 0
        down, across, line = np.empty(wide), np.empty(wide), np.empty(wide + 2 * pad)
        for y in range(tall):
            _smooth(down, flat, (pad + y) * wide, wide, kernel)
            for p in range(scale):
                plane = down[p * width : (p + 1) * width]
                for j in range(width):
                    line[pad + scale * j + p] = plane[j]
            for k in range(pad):
                line[pad - 1 - k] = line[pad + _reflect(-1 - k, wide)]
                line[pad + wide + k] = line[pad + _reflect(wide + k, wide)]
            _smooth(across, line, pad, 1, kernel)
            out = hires[i, scale * top + y, scale * left : scale * right]
            for x in range(wide):
                out[x] = np.uint8(255.0 * across[x])


@njit(cache=True, nogil=True)
def _reduce(binary: Bytes, images: Bytes, kernel: Floats, scale: int) -> None:
    n, tall, wide = binary.shape
    _, height, width = images.shape
    pad = kernel.size - 1
    flat = np.empty((tall + 2 * pad) * wide)
    down = np.empty(wide)
    line = np.empty(wide + 2 * pad)
    across = np.empty(wide)
    first = scale // 2 - 2  # a new pixel lies midway between the second and third of four old ones
    thin = np.empty((4, width))
    for i in range(n):
        for y in range(-pad, tall + pad):
            source = binary[i, _reflect(y, tall)]
            row = flat[(pad + y) * wide :][:wide]
            for x in range(wide):
                row[x] = source[x]
        for v in range(height):
            for a in range(4):
                y = scale * v + first + a
                _smooth(down, flat, (pad + y) * wide, wide, kernel)
                for x in range(-pad, wide + pad):
                    line[pad + x] = np.float32(down[_reflect(x, wide)])
                _smooth(across, line, pad, 1, kernel)
                for u in range(width):
                    x = scale * u + first
                    f0, f1 = np.float32(across[x]), np.float32(across[x + 1])
                    f2, f3 = np.float32(across[x + 2]), np.float32(across[x + 3])
                    thin[a, u] = (9.0 * (f1 + f2) - (f0 + f3)) / 16.0
            for u in range(width):
                value = (9.0 * (thin[1, u] + thin[2, u]) - (thin[0, u] + thin[3, u])) / 16.0
                # scikit-image clips to the range of the smoothed image; no further in than this but at rare peaks
                images[i, v, u] = np.uint8(255.0 * min(max(value, 0.0), 1.0))
