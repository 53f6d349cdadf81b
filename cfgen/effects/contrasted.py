"""What real images say of a contrast: all images with one value of a continuous attribute against all with another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cfgen.effects.estimate import Array, Estimate, difference
from cfgen.effects.real_images import Exposure, RealImages

__all__ = ["ContrastedImages"]


@dataclass(frozen=True, kw_only=True)
class ContrastedImages(RealImages):
    """E[f(X_do(end))] - E[f(X_do(start))] over all images: the difference of two estimates from the same images, each of which is
    compared with the images as they are, which cancel."""

    start: RealImages
    end: RealImages

    @classmethod
    def of(cls, start: Exposure, end: Exposure, features: Array, seed: int = 0) -> ContrastedImages:
        everyone = np.ones(len(features), dtype=bool)
        both = Exposure(everyone, start.near | end.near, start.close | end.close, end.distance, end.window)
        one, other = (RealImages(replace(side, changed=everyone), features, seed) for side in (start, end))
        return cls(both, features, seed, start=one, end=other)

    @property
    def effective(self) -> float:
        """Of the side that fewer images are near to."""
        return min(self.start.effective, self.end.effective)

    @property
    def clipped(self) -> float:
        return max(self.start.clipped, self.end.clipped)

    @property
    def strangers(self) -> float:
        return max(self.start.strangers, self.end.strangers)

    @property
    def refusal(self) -> str:
        for side, which in ((self.start, "first"), (self.end, "second")):
            if side.refusal:
                return f"at the {which} value, {side.refusal}"
        return ""

    def comparable(self) -> ContrastedImages:
        return self

    def estimate(self, answers: Array) -> Estimate:
        return difference(self.end.estimate(answers), self.start.estimate(answers))

    def combined_sides(self, answers: Array, at_start: Array, at_end: Array) -> Estimate:
        """With a generator's answers at both values."""
        return difference(self.end.combined(answers, at_end), self.start.combined(answers, at_start))
