"""Metrics as torchmetrics classes: update, compute, and how each state is reduced across processes."""

from cfgen.metrics.counterfactual_bias import CounterfactualBias
from cfgen.metrics.counterfactual_importance import CounterfactualImportance, local_importance, ranking
from cfgen.metrics.fid import FID
from cfgen.metrics.median_abs_error import MedianAbsError

__all__ = ["FID", "CounterfactualBias", "CounterfactualImportance", "MedianAbsError", "local_importance", "ranking"]
