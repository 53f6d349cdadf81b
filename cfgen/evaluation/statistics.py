"""Values of single images, and from them a mean or a median with its standard error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Score", "Table", "judged_score", "mean_score", "median_score", "over_seeds", "summary"]


class Score(NamedTuple):
    """A metric's value over n images, with its standard error over images and, of several seeds, over these.

    Both errors are NaN where there is none: FID has no value for a single image.  Where judges gave it, `judges` are their own
    values in their order, and the value is the mean of these.
    """

    value: float
    standard_error: float
    n: int
    over_seeds: float = math.nan
    judges: tuple[float, ...] = ()

    @property
    def lowest(self) -> float:
        """The lowest judge's value; NaN where no judges gave the score."""
        return min(self.judges, default=math.nan)

    @property
    def highest(self) -> float:
        """The highest judge's value."""
        return max(self.judges, default=math.nan)


class Table:
    """Values of single images, one row an image: by name a column, or of medians perhaps several."""

    def __init__(self, widths: Mapping[str, int], images: int) -> None:
        starts = list(accumulate(widths.values(), initial=0))
        self.slices = {
            name: slice(start, start + width) for (name, width), start in zip(widths.items(), starts, strict=False)
        }
        # zeros, so that the sum over processes is the table of all images
        self.values = torch.zeros(images, starts[-1])

    def write(self, rows: Tensor, part: Mapping[str, Tensor]) -> None:
        """Writes the values of some images."""
        for name, values in part.items():
            place = self.slices[name]
            self.values[rows, place] = values.float().cpu().reshape(len(rows), place.stop - place.start)

    def __getitem__(self, name: str) -> Tensor:
        """(N,), or (N, width) where an image has several."""
        place = self.slices[name]
        return self.values[:, place.start] if place.stop - place.start == 1 else self.values[:, place]


def summary(values: Tensor, reduction: str) -> Score:
    """The score of images' values by a metric's reduction, `mean` or `median`; NaN does not count.

    >>> summary(torch.tensor([0.0, 0.0, 9.0, torch.nan]), "mean").value
    3.0
    """
    return median_score(values) if reduction == "median" else mean_score(values)


def mean_score(values: Tensor) -> Score:
    """The mean, and its standard error sd / sqrt(n)."""
    counted = values[~values.isnan()].double()
    n = len(counted)
    error = counted.std().item() / math.sqrt(n) if n > 1 else math.nan
    return Score(counted.mean().item() if n else math.nan, error, n)


def judged_score(values: Tensor) -> Score:
    """The mean over images and judges of values (N, judges), or (N,) of one judge; its standard error is over images alone.

    >>> judged_score(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))[4]
    (1.0, 0.5)
    """
    each = values[:, None] if values.ndim == 1 else values
    own = tuple(mean_score(column).value for column in each.unbind(dim=1))
    return mean_score(each.double().mean(dim=1))._replace(judges=own)


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
    judges = tuple(map(statistics.fmean, zip(*(score.judges for score in several), strict=True)))
    return Score(statistics.fmean(values), error, several[0].n, spread, judges)
