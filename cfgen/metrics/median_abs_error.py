"""Median absolute error of measured against requested values (Table 1)."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

__all__ = ["MedianAbsError"]


class MedianAbsError(Metric):
    """median |measured - requested| over all images of all processes.

    An image that cannot be measured (NaN: nothing is drawn on it) counts as infinitely wrong, not as absent.

    >>> metric = MedianAbsError()
    >>> metric.update(torch.tensor([1.0, 2.5, torch.nan]), torch.tensor([1.0, 2.0, 3.0]))
    >>> metric.compute()
    tensor(0.5000)
    """

    full_state_update = False
    higher_is_better = False
    errors: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("errors", default=[], dist_reduce_fx="cat")

    def update(self, measured: Tensor, requested: Tensor) -> None:
        self.errors.append((measured - requested).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))

    def compute(self) -> Tensor:
        errors = dim_zero_cat(self.errors).sort().values
        middle = len(errors) // 2
        # not torch.quantile, which refuses more than 16 million values
        return errors[middle] if len(errors) % 2 else (errors[middle - 1] + errors[middle]) / 2
