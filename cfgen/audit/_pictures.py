"""The pictures that a report shows: examples of images whose answer flips, and images that are explained one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor


class FlipExamples(NamedTuple):
    """Some images whose answer an intervention flips to yes (`up`) or to no (`down`), by one classifier.

    `compared` names the two pictures next to the real one; under a contrast they are counterfactuals at either value.
    `before` and `after` are the probabilities of yes for these two.
    """

    classifier: str
    intervention: str
    direction: str
    real: Tensor
    base: Tensor
    counterfactual: Tensor
    before: Sequence[float]
    after: Sequence[float]
    compared: tuple[str, str] = ("reconstruction", "counterfactual")


class Pictures(NamedTuple):
    """The example images of a report; `local` are images by their numbers, uint8 (C, H, W)."""

    flips: Sequence[FlipExamples] = ()
    local: Mapping[int, Tensor] = {}
