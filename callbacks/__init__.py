"""Callbacks: what is measured, drawn and kept during training."""

from callbacks.best_checkpoint import BestCheckpoint
from callbacks.epoch_seed import EpochSeed
from callbacks.image_grids import ImageGrids
from callbacks.median_abs_error import MedianAbsError

__all__ = ["BestCheckpoint", "EpochSeed", "ImageGrids", "MedianAbsError"]
