"""Appendix D's tables: the layers of CondALI for Morpho-MNIST (28x28x1) and CelebA (64x64x3).

Every convolution is Keras' "valid" (no padding): with these kernels and strides the sizes then come out exactly,
28-24-11-8-3-1 and 64-63-29-13-4-1, and back, so no row needs padding or cropping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cfgen.errors import UserError

__all__ = ["CELEBA", "MORPHO_MNIST", "Row", "Tables", "tables_for"]


class Row(NamedTuple):
    """One line of a table, its columns named as there."""

    layer: Literal["Conv2D", "Conv2DT"]
    F: int
    K: int
    S: int
    BN: bool
    D: float
    A: Literal["LReLU", "Linear", "Sigmoid"]


@dataclass(frozen=True)
class Tables:
    """The generator's, the encoder's and the discriminator's tables for one image size."""

    image_shape: tuple[int, int, int]
    slope: float
    generator: tuple[Row, ...]
    encoder: tuple[Row, ...]
    d_z: tuple[Row, ...]
    d_x: tuple[Row, ...]
    d_xz: tuple[Row, ...]


Y, N = True, False

MORPHO_MNIST = Tables(
    image_shape=(1, 28, 28),
    slope=0.1,
    generator=(
        Row("Conv2DT", 256, 4, 1, Y, 0.0, "LReLU"),
        Row("Conv2DT", 128, 4, 2, Y, 0.0, "LReLU"),
        Row("Conv2DT", 64, 4, 1, Y, 0.0, "LReLU"),
        Row("Conv2DT", 32, 4, 2, Y, 0.0, "LReLU"),
        Row("Conv2DT", 32, 1, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 1, 1, 1, Y, 0.0, "Sigmoid"),
    ),
    encoder=(
        Row("Conv2D", 32, 5, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 64, 4, 2, Y, 0.0, "LReLU"),
        Row("Conv2D", 128, 4, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 256, 4, 2, Y, 0.0, "LReLU"),
        Row("Conv2D", 512, 3, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 512, 1, 1, Y, 0.0, "Linear"),
    ),
    d_z=(
        Row("Conv2D", 512, 1, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 512, 1, 1, N, 0.5, "LReLU"),
    ),
    d_x=(
        Row("Conv2D", 32, 5, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 64, 4, 2, Y, 0.2, "LReLU"),
        Row("Conv2D", 128, 4, 1, Y, 0.5, "LReLU"),
        Row("Conv2D", 256, 4, 2, Y, 0.5, "LReLU"),
        Row("Conv2D", 512, 3, 1, Y, 0.5, "LReLU"),
    ),
    d_xz=(
        Row("Conv2D", 1024, 1, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 1024, 1, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 1, 1, 1, N, 0.5, "Sigmoid"),
    ),
)

CELEBA = Tables(
    image_shape=(3, 64, 64),
    slope=0.02,
    generator=(
        Row("Conv2DT", 512, 4, 1, Y, 0.0, "LReLU"),
        Row("Conv2DT", 256, 7, 2, Y, 0.0, "LReLU"),
        Row("Conv2DT", 256, 5, 2, Y, 0.0, "LReLU"),
        Row("Conv2DT", 128, 7, 2, Y, 0.0, "LReLU"),
        Row("Conv2DT", 64, 2, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 3, 1, 1, Y, 0.0, "Sigmoid"),
    ),
    encoder=(
        Row("Conv2D", 64, 2, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 128, 7, 2, Y, 0.0, "LReLU"),
        Row("Conv2D", 256, 5, 2, Y, 0.0, "LReLU"),
        Row("Conv2D", 256, 7, 2, Y, 0.0, "LReLU"),
        Row("Conv2D", 512, 4, 1, Y, 0.0, "LReLU"),
        Row("Conv2D", 512, 1, 1, Y, 0.0, "Linear"),
    ),
    d_z=(
        Row("Conv2D", 1024, 1, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 1024, 1, 1, N, 0.2, "LReLU"),
    ),
    d_x=(
        Row("Conv2D", 64, 2, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 128, 7, 2, Y, 0.2, "LReLU"),
        Row("Conv2D", 256, 5, 2, Y, 0.2, "LReLU"),
        Row("Conv2D", 256, 7, 2, Y, 0.2, "LReLU"),
        Row("Conv2D", 512, 4, 1, Y, 0.2, "LReLU"),
    ),
    d_xz=(
        Row("Conv2D", 2048, 1, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 2048, 1, 1, N, 0.2, "LReLU"),
        Row("Conv2D", 1, 1, 1, N, 0.2, "Sigmoid"),
    ),
)


def tables_for(image_shape: Sequence[int]) -> Tables:
    """The tables that fit an image of this (channels, height, width); its channels may differ from the paper's.

    >>> tables_for((3, 64, 64)) is CELEBA
    True
    """
    by_size: dict[tuple[int, ...], Tables] = {tables.image_shape[1:]: tables for tables in (MORPHO_MNIST, CELEBA)}
    if len(image_shape) != 3 or tuple(image_shape[1:]) not in by_size:
        raise UserError(
            f"Appendix D has networks for images of 28x28 (Morpho-MNIST) and 64x64 (CelebA), "
            f"not for image_shape={list(image_shape)} (channels, height, width)"
        )
    return by_size[tuple(image_shape[1:])]
