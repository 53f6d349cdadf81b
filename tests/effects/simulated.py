"""Answers of a classifier from a known causal model, with the true counterfactual answers and a generator's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfgen.effects import Array
from cfgen.interventions import Exposure, Mask


@dataclass(frozen=True)
class World:
    """Binary attributes W and T, and answers that depend on W, T and what else is in an image.

    `share` have T, and W moves T by `confounding` and the score behind the answer by up to 0.8.  `effect` is what T adds to that
    score, `base` how far a yes is away.  The generator draws T `weakness` too weakly, and adds noise to the score.
    """

    effect: float = 0.6
    share: float = 0.3
    confounding: float = 0.5
    base: float = 0.0
    weakness: float = 0.3
    noise: float = 0.5

    def draw(self, n: int, seed: int) -> SimulatedImages:
        rng = np.random.default_rng(seed)
        w = (rng.random((n, 6)) < 0.4).astype(np.float64)
        logit = np.log(self.share / (1 - self.share)) + self.confounding * (w[:, 0] + w[:, 1] - 0.8)
        has = rng.random(n) < 1 / (1 + np.exp(-logit))
        score = self.base + 0.8 * (w[:, 0] - 0.4) - 0.5 * (w[:, 2] - 0.4) + rng.normal(size=n)
        drawn = score + self.effect * (1 - self.weakness) + self.noise * rng.normal(size=n)
        return SimulatedImages(
            w, has, *((values > 0).astype(np.float64) for values in (score, score + self.effect, drawn))
        )

    def truth(self) -> float:
        """The effect on those without T, by a million images."""
        sample = self.draw(1_000_000, seed=987_654)
        return float((sample.with_it - sample.without)[~sample.has].mean())


@dataclass(frozen=True)
class SimulatedImages:
    """Images with and without T: what they get, would get without T and with it, and what a generator's images get."""

    w: Array
    has: Mask
    without: Array
    with_it: Array
    drawn: Array

    @property
    def answers(self) -> Array:
        return np.where(self.has, self.with_it, self.without)

    @property
    def generated(self) -> Array:
        return np.where(self.has, np.nan, self.drawn)

    @property
    def exposure(self) -> Exposure:
        return binary_exposure(self.has)

    def known(self, pairs: int, seed: int = 0) -> Array:
        """The true counterfactual answers of so many changed images, NaN elsewhere."""
        rows = np.random.default_rng(seed).permutation(np.flatnonzero(~self.has))[:pairs]
        truth = np.full(len(self.has), np.nan)
        truth[rows] = self.with_it[rows]
        return truth

    def reordered(self, order: Array) -> SimulatedImages:
        return SimulatedImages(
            self.w[order], self.has[order], self.without[order], self.with_it[order], self.drawn[order]
        )


def binary_exposure(has: Mask) -> Exposure:
    return Exposure(~has, has, has, np.zeros((len(has), 0)), {})
