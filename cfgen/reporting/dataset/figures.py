"""How strongly attributes depend on each other, as a coloured table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from cfgen.graph_check import Dependence

__all__ = ["association_map"]

MOST_NUMBERS = 16  # attributes up to which each cell shows its number


def association_map(names: Sequence[str], found: Mapping[tuple[str, str], Dependence]) -> Figure:
    """Red where two attributes rise together, blue where one falls; of categorical attributes, which have no direction, red."""
    n = len(names)
    values = np.full((n, n), np.nan)
    for (one, other), dependence in found.items():
        i, j = names.index(one), names.index(other)
        values[i, j] = values[j, i] = dependence.strength
    side = max(3.2, 0.42 * n + 1.6) if n <= MOST_NUMBERS else 0.22 * n + 2.0
    figure = Figure(figsize=(side + 0.8, side), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    picture = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
    size = 8 if n <= MOST_NUMBERS else 6
    axes.set_xticks(range(n), names, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(range(n), names, fontsize=size, parse_math=False)
    if n <= MOST_NUMBERS:
        for i, j in zip(*np.nonzero(~np.isnan(values)), strict=True):
            dark = abs(values[i, j]) > 0.6
            axes.text(
                j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=6.5, color="white" if dark else "black"
            )
    bar = figure.colorbar(picture, ax=axes, shrink=0.8)
    bar.set_label("strength of association", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure
