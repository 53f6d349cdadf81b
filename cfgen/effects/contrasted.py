"""The effect of a contrast from real images: all images at one value of a continuous attribute against all at another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cfgen.effects.estimate import Array, Estimate, difference
from cfgen.effects.real_images import RealImages
from cfgen.interventions import ContrastExposure

__all__ = ["ContrastedImages"]


@dataclass(frozen=True)
class ContrastedImages(RealImages):
    """E[f(X_do(end))] - E[f(X_do(start))] over all images: the difference of two estimates from the same images.

    Each of the two is compared with the images as they are, which cancel.
    """

    exposure: ContrastExposure

    @cached_property
    def start(self) -> RealImages:
        return RealImages(self.exposure.start, self.features, self.seed, self.ids)

    @cached_property
    def end(self) -> RealImages:
        return RealImages(self.exposure.end, self.features, self.seed, self.ids)

    @property
    def effective(self) -> float:
        """Of the value with fewer exposed images."""
        return min(self.start.effective, self.end.effective)

    @property
    def clipped(self) -> float:
        return max(self.start.clipped, self.end.clipped)

    @property
    def off_support_share(self) -> float:
        return max(self.start.off_support_share, self.end.off_support_share)

    @property
    def refusal(self) -> str:
        for side, which in ((self.start, "first"), (self.end, "second")):
            if side.refusal:
                return f"at the {which} value, {side.refusal}"
        return ""

    def overlap_only(self) -> ContrastedImages:
        return self

    def estimate(self, answers: Array) -> Estimate:
        return difference(self.end.estimate(answers), self.start.estimate(answers))

    def combined(self, answers: Array, generated: Array, base: Array | None = None) -> Estimate:
        assert base is not None, "a contrast compares counterfactuals at two values"
        return difference(self.end.combined(answers, generated), self.start.combined(answers, base))
