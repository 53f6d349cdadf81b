"""Images as a table, with names and captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

__all__ = ["image_grid"]

CELL = 0.62  # inches an image
LITERAL: dict[str, Any] = {"parse_math": False}  # a name may hold a dollar sign


def image_grid(
    images: Sequence[Sequence[Tensor]],
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    captions: Sequence[Sequence[str]] = (),
    title: str = "",
    cell: float = CELL,
) -> Figure:
    """Images (C, H, W) in [0, 1] as a table, with a name above each column, before each row and under each image."""
    height, width = len(images), max(map(len, images))
    margin = 0.09 * max(map(len, rows), default=0)
    under = 0.14 * max((caption.count("\n") + 1 for line in captions for caption in line if caption), default=0)
    above = 0.2 * (max((name.count("\n") + 1 for name in columns), default=0) + bool(title))
    total_width, total_height = margin + width * cell, above + height * (cell + under) + 0.05
    figure = Figure(figsize=(total_width, total_height))
    # one pair of axes in inches for all: a pair for each image takes ten times as long
    axes = figure.add_axes((0, 0, 1, 1))
    for i, line in enumerate(images):
        top = total_height - above - i * (cell + under)
        for j, image in enumerate(line):
            left = margin + j * cell
            draw_image(axes, image, (left + 0.02, top - cell + 0.02), cell - 0.04)
            if i == 0 and columns:
                axes.text(left + cell / 2, top + 0.02, columns[j], fontsize=7, ha="center", va="bottom", **LITERAL)
            if j == 0 and rows:
                axes.text(left - 0.04, top - cell / 2, rows[i], fontsize=7, ha="right", va="center", **LITERAL)
            if captions:
                text = captions[i][j]
                axes.text(left + cell / 2, top - cell - 0.01, text, fontsize=6, ha="center", va="top", **LITERAL)
    axes.set(xlim=(0, total_width), ylim=(0, total_height))
    axes.axis("off")
    if title:
        figure.suptitle(title, fontsize=8, y=1 - 0.05 / total_height, va="top", **LITERAL)
    return figure


def draw_image(axes: Axes, image: Tensor, corner: tuple[float, float], size: float) -> None:
    """An image with its lower left corner there, its longer side of that size; of more than three channels, the first three."""
    image = image[:3] if len(image) >= 3 else image[:1]
    pixels = image.detach().float().clamp(0, 1).cpu().permute(1, 2, 0).squeeze(-1).numpy()
    height, width = (size * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
    box = (corner[0], corner[0] + width, corner[1], corner[1] + height)
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest", extent=box, aspect="auto")
