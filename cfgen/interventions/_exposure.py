"""Exposure to an intervention: which images it changes, and which real images already have what it sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ContrastExposure", "Exposure", "Mask", "ShiftExposure", "window_exposure"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
REACH = 4  # the outcome model of a continuous attribute is fitted on images within so many windows


@dataclass(frozen=True)
class Exposure:
    """Exposure to values that are the same for all images.

    Attributes:
        target: the images that the intervention changes.
        exposed: the images that have the values already: exactly for binary and categorical attributes, within a window for
            continuous ones.
        fit_rows: the images that the outcome model is fitted on.
        distance: distances from the values in window widths, (n, number of continuous attributes).
        window: the half width of the window of each continuous attribute.
    """

    target: Mask
    exposed: Mask
    fit_rows: Mask
    distance: Array
    window: dict[str, float]

    @property
    def exact(self) -> bool:
        """Whether no continuous attribute is set, so that nobody is exposed by a window."""
        return not self.window


@dataclass(frozen=True)
class ShiftExposure(Exposure):
    """Exposure to a shift of each image's own value; `values` are the attribute's, (n,), and `amount` is added to them."""

    values: Array
    amount: float


@dataclass(frozen=True)
class ContrastExposure(Exposure):
    """Exposure to either of two values; all images are in the target of both."""

    start: Exposure
    end: Exposure


def window_exposure(columns: dict[str, Array], values: dict[str, float], continuous: tuple[str, ...]) -> Exposure:
    """Exposure to values of some attributes.  The window of a continuous one is a standard deviation / n^(1/4) to either side.

    >>> young = window_exposure({"Young": np.array([1.0, 0.0])}, {"Young": 1.0}, ())
    >>> young.exposed.tolist(), young.target.tolist()
    ([True, False], [False, True])
    """
    n = len(next(iter(columns.values())))
    target, exposed, fit_rows = np.zeros(n, dtype=bool), np.ones(n, dtype=bool), np.ones(n, dtype=bool)
    distances, window = [], {}
    for name, value in values.items():
        column = columns[name]
        target |= column.astype(np.float32) != np.float32(value)
        if name in continuous:
            window[name] = float(column.std()) * n**-0.25 or 1.0
            distances.append((column - value) / window[name])
            exposed &= np.abs(distances[-1]) <= 1
            fit_rows &= np.abs(distances[-1]) <= REACH
        else:
            exposed &= column == value
            fit_rows &= column == value
    distance = np.stack(distances, axis=1) if distances else np.zeros((n, 0))
    return Exposure(target, exposed, fit_rows, distance, window)
