"""Bias of a binary classifier under an intervention (Eq. 4 and 5, Table 3), with bootstrap intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

__all__ = ["CounterfactualBias"]


class CounterfactualBias(Metric):
    """How a classifier's answer changes from base images (y_r) to their counterfactuals (y_c).

    `compute` gives

        n              pairs seen
        flipped        p(y_r != y_c)
        up_given_flip  p(y_r = 0, y_c = 1 | y_r != y_c); NaN where nothing flipped
        up, down       p(y_r = 0, y_c = 1) and p(y_r = 1, y_c = 0): equal ones cancel in the bias and hide there
        bias           up - down = P(y_c = 1) - P(y_r = 1), in [-1, 1]
        significant    whether |bias| is above `threshold`

    and KEY/low and KEY/high, the ends of a bootstrap percentile interval, for each of `flipped` to `bias`.  All is NaN, and
    nothing significant, while n is 0.  Which images count (those without the attribute, a cohort) is for the caller to choose.

    Args:
        threshold: the paper's is 5 %.
        confidence: of the intervals.
        resamples: how many the bootstrap draws; with 0 there are no intervals, only NaN.
        seed: of the bootstrap.
    """

    full_state_update = False
    counts: Tensor

    def __init__(
        self,
        threshold: float = 0.05,
        confidence: float = 0.95,
        resamples: int = 2000,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 < confidence < 1:
            raise ValueError(f"confidence lies between 0 and 1, not at {confidence}")
        self.threshold, self.confidence, self.resamples, self.seed = threshold, confidence, resamples, seed
        # of (y_r, y_c) = (0, 0), (0, 1), (1, 0), (1, 1): whole numbers, so several processes add up exactly
        self.add_state("counts", default=torch.zeros(4, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, y_r: Tensor, y_c: Tensor) -> None:
        """Adds the predicted classes, 0 or 1, of base images and of their counterfactuals."""
        if y_r.shape != y_c.shape or y_r.ndim != 1:
            raise ValueError(f"one class for each image of both kinds, not {tuple(y_r.shape)} and {tuple(y_c.shape)}")
        for y in (y_r, y_c):
            if not ((y == 0) | (y == 1)).all():
                raise ValueError("predicted classes are 0 or 1")
        self.counts += torch.bincount(2 * y_r.long() + y_c.long(), minlength=4)

    def compute(self) -> dict[str, Tensor]:
        counts = self.counts.cpu().numpy()
        n = int(counts.sum())
        shares = _shares(counts[None])
        # resampling n pairs with replacement is one multinomial draw of the four counts
        draws = np.random.default_rng(self.seed).multinomial(n, counts / max(n, 1), self.resamples)
        resampled = _shares(draws)
        tail = (1 - self.confidence) / 2
        result = {"n": torch.tensor(n)}
        for key, (value,) in shares.items():
            low, high = _quantiles(resampled[key], [tail, 1 - tail])
            ends = {key: value, f"{key}/low": low, f"{key}/high": high}
            result |= {name: torch.tensor(end, dtype=torch.float32) for name, end in ends.items()}
        result["significant"] = torch.tensor(bool(abs(shares["bias"][0]) > self.threshold))
        return {key: value.to(self.device) for key, value in result.items()}


def _shares(counts: np.ndarray) -> dict[str, np.ndarray]:
    """What is reported, of counts (rows, 4)."""
    _, up, down, _ = counts.T
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: undefined
        n = counts.sum(axis=1)
        return {
            "flipped": (up + down) / n,
            "up_given_flip": up / (up + down),
            "up": up / n,
            "down": down / n,
            "bias": (up - down) / n,
        }


def _quantiles(values: np.ndarray, at: list[float]) -> np.ndarray:
    """Of the resamples where the value is defined."""
    defined = values[~np.isnan(values)]
    return np.quantile(defined, at) if len(defined) else np.full(len(at), np.nan)
