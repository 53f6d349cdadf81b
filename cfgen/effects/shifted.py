"""The effect of a shift from real images, a modified treatment policy (Haneuse and Rotnitzky, 2013; Díaz and van der Laan, 2018).

Each image's own value A becomes A + s.  With W, all that the intervention does not cause, and S, the images whose new value stays
in range,

    E[f(X_do) | S] = E[ m(A + s, W) | S ],    m(a, w) = E[f | A = a, W = w],

because an image with value A + s and equal W shows the outcome of the shift.  It is augmented by r(a, w), the density of
(A + s, W) in S over that of (A, W) among all images: the odds of a classifier that tells shifted rows from the rows as they are.
The estimate is consistent if either m or r is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cfgen.effects.estimate import Array
from cfgen.effects.nuisance import logistic, predict_logistic, ridge
from cfgen.effects.real_images import CLIP, ENOUGH, MAX_OFF_SUPPORT, MODEL_PENALTY, Prediction, RealImages
from cfgen.interventions import ShiftExposure

__all__ = ["ShiftedImages"]

KNOTS = (0.2, 0.4, 0.6, 0.8)  # quantiles of the attribute at which the regressions may bend


@dataclass(frozen=True)
class ShiftedImages(RealImages):
    """The density ratio and folds of one shift."""

    exposure: ShiftExposure

    @property
    def values(self) -> Array:
        return self.exposure.values

    @property
    def amount(self) -> float:
        return self.exposure.amount

    def basis(self, values: Array) -> Array:
        """The columns that regressions on (A, W) see at these values of A."""
        centre, scale = self.values.mean(), self.values.std() or 1.0
        knots = np.quantile(self.values, KNOTS)
        bends = [np.maximum(values - knot, 0) / scale for knot in knots]
        line = (values - centre) / scale
        return np.concatenate(
            [self.design, np.stack([line, *bends], axis=1), line[:, None] * self.design[:, 1:]], axis=1
        )

    @cached_property
    def here(self) -> Array:
        return self.basis(self.values)

    @cached_property
    def there(self) -> Array:
        return self.basis(self.values + self.amount)

    @cached_property
    def ratio(self) -> Array:
        """r(A, W), of each image by a model fitted on others; 0 where no image is shifted to."""
        changed, found = self.exposure.target, np.empty(len(self.values))
        for train, test in self.parts:
            shifted = train & changed
            design = np.concatenate([self.here[train], self.there[shifted]])
            label = np.concatenate([np.zeros(int(train.sum())), np.ones(int(shifted.sum()))])
            p = predict_logistic(self.here[test], logistic(design, label))
            found[test] = p / (1 - p) * train.sum() / max(int(shifted.sum()), 1)
        return np.where(self.exposure.exposed, found, 0.0)

    @cached_property
    def weights(self) -> Array:
        return np.minimum(self.ratio, 1 / CLIP)

    @property
    def clipped(self) -> float:
        near = self.exposure.exposed
        return float((self.ratio[near] > 1 / CLIP).mean()) if near.any() else 0.0

    @property
    def off_support_share(self) -> float:
        """The share of the shifted images whose new value no image has or exceeds."""
        moved = (self.values + self.amount)[self.exposure.target]
        outside = (moved > self.values.max()) | (moved < self.values.min())
        return float(outside.mean()) if len(moved) else 0.0

    def overlap_only(self) -> ShiftedImages:
        return self

    @property
    def refusal(self) -> str:
        changed = int(self.exposure.target.sum())
        if changed < ENOUGH:
            return f"only {changed:,} images can be shifted so far, and {ENOUGH} are needed"
        if self.effective < ENOUGH:
            return f"the shifted images have an effective sample size of {self.effective:.0f}, and {ENOUGH} are needed"
        if self.off_support_share > MAX_OFF_SUPPORT:
            return f"{self.off_support_share:.0%} of the shifted values are beyond all images, and {MAX_OFF_SUPPORT:.0%} may be"
        return ""

    def outcome_model(self, answers: Array, prediction: Prediction | None = None) -> tuple[Array, Array]:
        """m at the shifted values and at each image's own."""
        zeros = np.zeros_like(answers)
        offset_at, offset_own = (zeros, zeros) if prediction is None else np.broadcast_arrays(*prediction)
        penalty = 1.0 if prediction is None else MODEL_PENALTY
        at, own = np.empty(len(answers)), np.empty(len(answers))
        for train, test in self.parts:
            beta = ridge(self.here[train], (answers - offset_own)[train], penalty)
            at[test], own[test] = self.there[test] @ beta, self.here[test] @ beta
        return at + offset_at, own + offset_own

    def counterfactual_model(self, generated: Array) -> Prediction:
        """E[g | A + s, W] of the answers g to counterfactuals, at the shifted values and at the images' own."""
        asked = ~np.isnan(generated)
        at, own = np.empty(len(generated)), np.empty(len(generated))
        for train, test in self.parts:
            rows = train & asked
            beta = ridge(self.there[rows], generated[rows])
            at[test], own[test] = self.there[test] @ beta, self.here[test] @ beta
        return at, own
