"""The paper's classifiers: digits (Appendix G) and *Attractive* or any binary attribute of a face (Appendix M)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from cfgen.networks.layers import initialise, layers, scaled
from cfgen.networks.sizes import check_image_size
from cfgen.networks.tables import Row, resized

__all__ = ["DigitClassifier", "FaceClassifier", "classifier_for"]

ATTRACTIVE = (
    Row("Conv2D", 64, 2, 1, True, 0.2, "LReLU"),
    Row("Conv2D", 128, 7, 2, True, 0.2, "LReLU"),
    Row("Conv2D", 256, 5, 2, True, 0.2, "LReLU"),
    Row("Conv2D", 256, 7, 2, True, 0.2, "LReLU"),
    Row("Conv2D", 512, 4, 1, True, 0.5, "LReLU"),
    Row("Conv2D", 512, 1, 1, True, 0.5, "Linear"),
)


def dense(sizes: Sequence[int], dropout: float = 0.5) -> list[nn.Module]:
    """Dense rows: dropout on a row's input (as in `layers`), ReLU between, logits at the end."""
    modules: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise(sizes)):
        modules += [nn.ReLU()] if index else []
        modules += [nn.Dropout(dropout), nn.Linear(before, after)]
    return modules


class DigitClassifier(nn.Module):
    """Table of Appendix G: two convolutions, max pooling, three dense layers; 28x28 images to logits of ten digits."""

    def __init__(self, channels: int = 1, outputs: int = 10, width: float = 1.0) -> None:
        super().__init__()
        first, second = (max(1, round(filters * width)) for filters in (32, 64))
        self.layers = nn.Sequential(
            nn.Conv2d(channels, first, 3), nn.ReLU(), nn.Conv2d(first, second, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), *dense([second * 12 * 12, 256, 128, outputs]),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class FaceClassifier(nn.Module):
    """Table of Appendix M: six convolutions, three dense layers; 64x64 images to one logit.

    Images of another size have as many halving rows as the size asks for (`resized`).
    """

    def __init__(self, channels: int = 3, outputs: int = 1, width: float = 1.0, size: int = 64) -> None:
        super().__init__()
        rows = scaled(ATTRACTIVE if size == 64 else resized(ATTRACTIVE, size), width)
        convolutions = layers(rows, channels, slope=0.02)
        self.layers = nn.Sequential(*convolutions, nn.Flatten(), *dense([rows[-1].F, 128, 128, outputs]))
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def classifier_for(image_shape: Sequence[int], outputs: int, width: float = 1.0) -> nn.Module:
    """The classifier for images of this (channels, height, width), its convolutions `width` times as wide.

    28x28 has Appendix G's and 64x64 Appendix M's; every other size has the latter, resized.
    """
    channels, size = image_shape[0], check_image_size(image_shape)
    return DigitClassifier(channels, outputs, width) if size == 28 else FaceClassifier(channels, outputs, width, size)
