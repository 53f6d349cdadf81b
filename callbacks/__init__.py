"""Callbacks: what is measured, drawn and kept during training.

A callback is imported when it is asked for: a run without FID does not wait for the packages that FID needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callbacks.best_checkpoint import BestCheckpoint
    from callbacks.bias import Bias
    from callbacks.epoch_seed import EpochSeed
    from callbacks.fid import FID
    from callbacks.image_grids import ImageGrids
    from callbacks.median_abs_error import MedianAbsError

__all__ = ["FID", "BestCheckpoint", "Bias", "EpochSeed", "ImageGrids", "MedianAbsError"]

_FILES = {
    "BestCheckpoint": "best_checkpoint",
    "Bias": "bias",
    "EpochSeed": "epoch_seed",
    "FID": "fid",
    "ImageGrids": "image_grids",
    "MedianAbsError": "median_abs_error",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
