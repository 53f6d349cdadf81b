"""Values of single images, gathered from a metric's batches, as a mean or a median with its standard error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Score", "Scores", "mean_score", "median_score", "over_seeds"]


class Score(NamedTuple):
    """A metric's value over n images, with its standard error over images and, of several seeds, over these.

    Both errors are NaN where there is none: FID has no value for a single image.
    """

    value: float
    standard_error: float
    n: int
    over_seeds: float = math.nan


class Scores:
    """What metrics yield, a batch at a time: by name, a value for each image (of medians perhaps several, as a row), NaN where
    an image does not count."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Tensor]] = {}

    def add(self, part: Mapping[str, Tensor]) -> None:
        for name, values in part.items():
            self.parts.setdefault(name, []).append(values.float().cpu())

    def __getitem__(self, name: str) -> Tensor:
        return torch.cat(self.parts[name])

    def summary(self) -> dict[str, Score]:
        """Medians of `median_abs_error/...`, means of all else."""
        kinds = {name: median_score if name.startswith("median") else mean_score for name in self.parts}
        return {name: kind(self[name]) for name, kind in kinds.items()}


def mean_score(values: Tensor) -> Score:
    """The mean, and its standard error sd / sqrt(n)."""
    counted = values[~values.isnan()].double()
    n = len(counted)
    error = counted.std().item() / math.sqrt(n) if n > 1 else math.nan
    return Score(counted.mean().item() if n else math.nan, error, n)


def median_score(values: Tensor) -> Score:
    """The median, and its standard error from order statistics.

    The values of rank n/2 - 0.98 sqrt(n) and n/2 + 0.98 sqrt(n) enclose the median in 95 of 100 samples, whatever the
    distribution (0.98 sqrt(n) is 1.96 standard deviations of how many of n values lie below it); half their distance over
    1.96 is the standard error that a normal distribution with that interval would have.  Several values of one image go
    together: what varies from sample to sample is each image's share below the median, and n is the number of images.
    """
    rows = values[:, None] if values.ndim == 1 else values
    rows = rows[~rows.isnan().any(dim=1)].double()
    n, ordered = len(rows), rows.flatten().sort().values
    if not n:
        return Score(math.nan, math.nan, 0)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]).item() / 2
    deviation = 0.5 if count == n else (rows <= middle).double().mean(dim=1).std().item()
    reach = 1.96 * deviation / math.sqrt(n) * count if n > 1 else 0.0
    low = ordered[max(0, math.floor(count / 2 - reach))]
    high = ordered[min(count - 1, math.ceil(count / 2 + reach) - 1)]
    return Score(middle, (high - low).item() / 2 / 1.96 if n > 1 else math.nan, n)


def over_seeds(found: Sequence[Mapping[str, Score]]) -> dict[str, Score]:
    """The mean of each metric over seeds, with the standard error sd / sqrt(seeds); that over images is the seeds' mean."""
    if len(found) == 1:
        return dict(found[0])
    return {name: mean_of(scores[name] for scores in found) for name in found[0]}


def mean_of(scores: Iterable[Score]) -> Score:
    several = list(scores)
    values = [score.value for score in several]
    spread = statistics.stdev(values) / math.sqrt(len(values)) if all(map(math.isfinite, values)) else math.nan
    error = statistics.fmean(score.standard_error for score in several)
    return Score(statistics.fmean(values), error, several[0].n, spread)
