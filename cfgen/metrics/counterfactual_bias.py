"""Bias of a binary classifier under an intervention (Eq. 4 and 5, Table 3), with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest
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

    and KEY/low and KEY/high, the ends of an interval, for each of `flipped` to `bias`.  All is NaN, and nothing significant,
    while n is 0.  Which images count (those without the attribute, a cohort) is for the caller to choose.

    The interval of `bias`, a difference of two shares of the same pairs, is a bootstrap percentile interval over pairs.  Where
    nothing flipped, resampling would show no doubt at all: there it is +-(1 - (1 - confidence)^(1/n)), which at 95 % is the
    "rule of three", +-3/n.  The others are shares k of n with an exact distribution, and k is often small.  Resampling 0 of 100
    gives 0 every time, and with a true share of half a per cent 0 of 100 is what 61 % of samples show.  They have Wilson's.

    >>> metric = CounterfactualBias()
    >>> metric.update(torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0, 1, 1]))
    >>> metric.compute()["bias"]
    tensor(0.2500)

    Args:
        threshold: the paper's is 5 %.
        confidence: of the intervals.
        resamples: how many the bootstrap draws; with 0 the bias has no interval, only NaN.
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
        counts = self.counts.cpu()
        _, up, down, _ = counts
        n, flipped = counts.sum(), up + down
        shares = {"flipped": (flipped, n), "up_given_flip": (up, flipped), "up": (up, n), "down": (down, n)}
        # 0 / 0 is NaN: undefined
        found: dict[str, tuple[Any, Any, Any]] = {
            key: (k / of, *wilson(int(k), int(of), self.confidence)) for key, (k, of) in shares.items()
        }
        found["bias"] = ((up - down) / n, *self.bias_interval(counts.numpy()))
        result = {"n": n}
        for key, values in found.items():
            for name, value in zip((key, f"{key}/low", f"{key}/high"), values, strict=True):
                result[name] = torch.as_tensor(value, dtype=torch.float32)
        result["significant"] = result["bias"].abs() > self.threshold
        return {key: value.to(self.device) for key, value in result.items()}

    def bias_interval(self, counts: np.ndarray) -> tuple[float, float]:
        n = int(counts.sum())
        if n == 0 or self.resamples == 0:
            return np.nan, np.nan
        alpha = 1 - self.confidence
        if counts[1] + counts[2] == 0:
            # with a larger share of flips, which no bias exceeds, seeing none in n would be rarer than alpha
            most = 1 - alpha ** (1 / n)
            return -most, most
        # resampling n pairs with replacement is one multinomial draw of the four counts
        draws = np.random.default_rng(self.seed).multinomial(n, counts / n, self.resamples)
        low, high = np.quantile((draws[:, 1] - draws[:, 2]) / n, [alpha / 2, 1 - alpha / 2])
        return low, high


def wilson(k: int, n: int, confidence: float) -> tuple[float, float]:
    """Wilson's interval with continuity correction for a share k / n; NaN where n is 0.

    Corrected, because the plain one is too narrow for rare answers: at 95 % it holds a share of 0.2 / n in 84 % of cases, this
    one any share in 94.5 % or more.  Clopper and Pearson's promises 95 %, but is hardly different.

    >>> low, high = wilson(0, 100, confidence=0.95)
    >>> low, round(high, 3)
    (0.0, 0.046)
    """
    if n == 0:
        return np.nan, np.nan
    interval = binomtest(k, n).proportion_ci(confidence, method="wilsoncc")
    return float(interval.low), float(interval.high)
