"""Callbacks: what is measured, drawn and kept during training."""

from callbacks.best_checkpoint import BestCheckpoint
from callbacks.bias import Bias
from callbacks.epoch_seed import EpochSeed
from callbacks.fid import FID
from callbacks.image_grids import ImageGrids
from callbacks.median_abs_error import MedianAbsError

__all__ = ["FID", "BestCheckpoint", "Bias", "EpochSeed", "ImageGrids", "MedianAbsError"]
