"""Callbacks: what is measured, drawn and kept during training.

A callback is imported when it is asked for: a run without FID does not wait for the packages that FID needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from callbacks.autosave import Autosave
    from callbacks.best_checkpoint import BestCheckpoint
    from callbacks.bias import Bias
    from callbacks.epoch_seed import EpochSeed
    from callbacks.fid import FID
    from callbacks.image_grids import ImageGrids
    from callbacks.median_abs_error import MedianAbsError
    from callbacks.parameter_summary import ParameterSummary

__all__ = ["FID", "Autosave", "BestCheckpoint", "Bias", "EpochSeed", "ImageGrids", "MedianAbsError", "ParameterSummary"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Autosave": "autosave",
        "BestCheckpoint": "best_checkpoint",
        "Bias": "bias",
        "EpochSeed": "epoch_seed",
        "FID": "fid",
        "ImageGrids": "image_grids",
        "MedianAbsError": "median_abs_error",
        "ParameterSummary": "parameter_summary",
    },
)
