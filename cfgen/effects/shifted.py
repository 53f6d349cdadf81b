"""What real images say of a shift, a modified treatment policy (Haneuse and Rotnitzky, 2013; Díaz and van der Laan, 2018).

Each image's own value A becomes A + s.  With W, all that the intervention does not cause, and S, the images whose new value stays
in range,

    E[f(X_do) | S] = E[ m(A + s, W) | S ],    m(a, w) = E[f | A = a, W = w],

for an image with value A + s and equal W shows what would become of it.  Augmented by r(a, w), the density of (A + s, W) in S
over that of (A, W) among all images, which is the odds of telling the shifted rows from the rows as they are: right if either
m or r is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cfgen.effects.estimate import Array
from cfgen.effects.nuisance import logistic, predict_logistic, ridge
from cfgen.effects.real_images import ENOUGH, GENERATOR_PENALTY, LEAST, STRANGERS, Exposure, Prediction, RealImages

__all__ = ["ShiftedImages", "shift_exposure"]

KNOTS = (0.2, 0.4, 0.6, 0.8)  # quantiles of the attribute at which the regressions may bend


def shift_exposure(values: Array, amount: float, low: float, high: float) -> Exposure:
    """S, and the images that others may become: those whose value less the shift is in range."""
    inside = (values + amount >= low) & (values + amount <= high)
    reachable = (values - amount >= low) & (values - amount <= high)
    return Exposure(inside, reachable, np.ones(len(values), dtype=bool), np.zeros((len(values), 0)), {})


@dataclass(frozen=True, kw_only=True)
class ShiftedImages(RealImages):
    """The density ratio and folds of one shift; `values` are the attribute's, (n,), and `amount` what is added to them."""

    values: Array
    amount: float

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
        changed, found = self.exposure.changed, np.empty(len(self.values))
        for train, test in self.parts:
            shifted = train & changed
            design = np.concatenate([self.here[train], self.there[shifted]])
            label = np.concatenate([np.zeros(int(train.sum())), np.ones(int(shifted.sum()))])
            p = predict_logistic(self.here[test], logistic(design, label))
            found[test] = p / (1 - p) * train.sum() / max(int(shifted.sum()), 1)
        return np.where(self.exposure.near, found, 0.0)

    @cached_property
    def weights(self) -> Array:
        return np.minimum(self.ratio, 1 / LEAST)

    @property
    def clipped(self) -> float:
        near = self.exposure.near
        return float((self.ratio[near] > 1 / LEAST).mean()) if near.any() else 0.0

    @property
    def strangers(self) -> float:
        """The share of the shifted images whose new value no image has or exceeds."""
        moved = (self.values + self.amount)[self.exposure.changed]
        outside = (moved > self.values.max()) | (moved < self.values.min())
        return float(outside.mean()) if len(moved) else 0.0

    def comparable(self) -> ShiftedImages:
        return self

    @property
    def refusal(self) -> str:
        changed = int(self.exposure.changed.sum())
        if changed < ENOUGH:
            return f"only {changed:,} images can be shifted so far, and {ENOUGH} are needed"
        if self.effective < ENOUGH:
            return f"the images are worth {self.effective:.0f} that were shifted, and {ENOUGH} are needed"
        if self.strangers > STRANGERS:
            return f"{self.strangers:.0%} of the shifted images have values beyond all images, and {STRANGERS:.0%} may"
        return ""

    def outcome_model(self, answers: Array, prediction: Prediction | None = None) -> tuple[Array, Array]:
        """m at the shifted values and at each image's own."""
        zeros = np.zeros_like(answers)
        offset_at, offset_own = (zeros, zeros) if prediction is None else np.broadcast_arrays(*prediction)
        penalty = 1.0 if prediction is None else GENERATOR_PENALTY
        at, own = np.empty(len(answers)), np.empty(len(answers))
        for train, test in self.parts:
            beta = ridge(self.here[train], (answers - offset_own)[train], penalty)
            at[test], own[test] = self.there[test] @ beta, self.here[test] @ beta
        return at + offset_at, own + offset_own

    def generator_model(self, generated: Array) -> Prediction:
        """E[g | A + s, W] of a generator's answers g, as a function of value and W: at the shifted values and at the own ones."""
        asked = ~np.isnan(generated)
        at, own = np.empty(len(generated)), np.empty(len(generated))
        for train, test in self.parts:
            rows = train & asked
            beta = ridge(self.there[rows], generated[rows])
            at[test], own[test] = self.there[test] @ beta, self.here[test] @ beta
        return at, own
