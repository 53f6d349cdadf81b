"""Metrics as torchmetrics classes: update, compute, and how each state is reduced across processes."""

from cfgen.metrics.median_abs_error import MedianAbsError

__all__ = ["MedianAbsError"]
