"""A sheet of images with their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Continuous
from cfgen.contracts import ImageData
from cfgen.figures import image_grid

__all__ = ["contact_sheet"]

CELL = 1.1  # inches an image
LINES = 5  # of text under an image


def contact_sheet(data: ImageData, title: str = "", rows: int = 5, columns: int = 10) -> Figure:
    """Training images with their attributes: a column for each target, or for each tenth of a continuous one, and values that
    rise downwards.  Of binary attributes, those that an image has are named."""
    lines = list(zip_longest(*_choose(data, rows, columns)))
    images = [[_picture(data, image) for image in line] for line in lines]
    captions = [[_describe(data, image) for image in line] for line in lines]
    return image_grid(images, captions=captions, title=title, cell=CELL)


def _picture(data: ImageData, image: int | None) -> Tensor:
    if image is None:
        return torch.ones(data.image_shape)[:1]
    pixels = data.images("train")[image] / 255
    # two channels or five are no picture: the first is shown
    return pixels if len(pixels) in (1, 3) else pixels[:1]


def _choose(data: ImageData, rows: int, columns: int) -> Iterator[list[int]]:
    """For each target, images from its lowest to its highest value of the first continuous attribute."""
    continuous = data.schema.continuous
    groups = _groups(data.targets("train"), columns)
    order = data.columns("train")[continuous[0]] if continuous else torch.arange(len(data.targets("train")))
    # where there are few targets, each has several columns
    each = max(1, columns // len(groups))
    for members in groups:
        ordered = members[order[members].argsort()]
        wanted = min(rows * each, len(ordered))
        chosen = ordered[torch.linspace(0, len(ordered) - 1, wanted).long()].tolist()
        yield from (chosen[start : start + rows] for start in range(0, wanted, rows))


def _groups(targets: Tensor, most: int) -> list[Tensor]:
    values = targets.unique()
    if targets.is_floating_point() and len(values) > most:
        return list(targets.argsort().tensor_split(most))
    return [(targets == value).nonzero()[:, 0] for value in values[:most]]


def _describe(data: ImageData, image: int | None) -> str:
    if image is None:
        return ""
    lines, present = [], []
    for name, column in data.columns("train").items():
        value = column[image].item()
        match data.schema[name]:
            case Continuous():
                low, high = data.schema.bounds(name)
                lines.append(f"{name} {value:.0f}" if high - low > 50 else f"{name} {value:.2f}")
            case Categorical(values):
                lines.append(f"{name} {values[int(value)]}")
            case Binary():
                present += [name] if value else []
    lines += present
    return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 1], f"and {len(lines) - LINES + 1} more"])
