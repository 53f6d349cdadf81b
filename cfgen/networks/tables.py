"""Appendix D's tables: the layers of CondALI for Morpho-MNIST (28x28x1) and CelebA (64x64x3).

Every convolution is Keras' "valid" (no padding): with these kernels and strides the sizes then come out exactly,
28-24-11-8-3-1 and 64-63-29-13-4-1, and back, so no row needs padding or cropping.  Other sizes have CelebA's tables with as
many halving rows as the size asks for (`resized`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cfgen.networks.sizes import SMALL, check_image_size, filters_for

__all__ = ["CELEBA", "MORPHO_MNIST", "Row", "Tables", "resized", "tables_for"]


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
    """The tables for images of this (channels, height, width); their channels may differ from the paper's.

    28x28 has Morpho-MNIST's and 64x64 CelebA's, to the letter.  Every other size has CelebA's, resized.

    >>> tables_for((3, 64, 64)) is CELEBA
    True
    """
    size = check_image_size(image_shape)
    for tables in (MORPHO_MNIST, CELEBA):
        if size == tables.image_shape[1]:
            return tables
    encoder = resized(CELEBA.encoder, size)
    return replace(
        CELEBA,
        image_shape=(CELEBA.image_shape[0], size, size),
        generator=(*mirrored(encoder[:-1], CELEBA.generator[0]), CELEBA.generator[-1]),
        encoder=encoder,
        d_x=resized(CELEBA.d_x, size),
    )


def resized(rows: Sequence[Row], size: int) -> tuple[Row, ...]:
    """Rows for images of 64x64, as rows for images of another size.

    The first row and the filters of the coarse end stay.  Rows with a stride of 2 follow until 7 pixels or less are left, which
    the next kernel covers.  A halving row's kernel is 5, or 4 where 5 would not come out exactly.
    """
    first, halving = rows[0], [row for row in rows if row.S == 2]
    whole, *last = rows[1 + len(halving) :]
    left, kernels = size - first.K + 1, []
    while left > SMALL:
        kernels.append(5 if left % 2 else 4)
        left = (left - kernels[-1]) // 2 + 1
    finest, *filters = filters_for([first.F, *(row.F for row in halving)], 1 + len(kernels))
    return (
        first._replace(F=finest),
        *(halving[0]._replace(F=count, K=kernel) for count, kernel in zip(filters, kernels, strict=True)),
        whole._replace(K=left),
        *last,
    )


def mirrored(rows: Sequence[Row], like: Row) -> tuple[Row, ...]:
    """The way back up of rows that lead from an image down to a point, as CelebA's generator is of its encoder."""
    return tuple(like._replace(F=row.F, K=row.K, S=row.S) for row in reversed(rows))
