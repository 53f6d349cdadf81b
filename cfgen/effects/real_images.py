"""What real images alone say of an intervention: those that have the attribute, weighted to be like those that do not.

Eq. 5 is, by Appendix C, E[f(X_do)] - E[f(X)] over the images that the intervention changes (S).  With W, the attributes that it
does not cause, and images of equal W comparable,

    E[f(X_do) | S] = E[ E[f(X) | T = t, W] | S ],

and every term on the right is seen in real images.  The estimator is augmented inverse-probability weighting (AIPW),
cross-fitted: right if either the outcome model m(W) = E[f | T = t, W] or the propensity e(W) = P(T = t | W) is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cfgen.effects.estimate import Array, Estimate, combine
from cfgen.effects.few import at_least, equal_answers, one_more_flip
from cfgen.effects.nuisance import Mask, folds, logistic, predict_logistic, ridge, with_intercept

__all__ = ["ENOUGH", "Exposure", "Prediction", "RealImages"]

# of answers, by W alone; or at what is asked for and at the images' own values
Prediction = Array | tuple[Array, Array]

ENOUGH = 50  # effective images with the attribute; fewer are refused
STRANGERS = 0.1  # of the images that are changed, so many at most may be unlike all that have the attribute
ALIKE = 0.2  # of the mean propensity: images with less are left out where all cannot be compared
LEAST = 0.05  # a propensity below this share of its mean is raised to it: one image would stand for too many
GENERATOR_PENALTY = 10.0  # a generator's prediction is corrected by as many coefficients, with ten images' resistance


@dataclass(frozen=True)
class Exposure:
    """Which images an intervention changes, and which have (nearly) what it asks for already.

    `near` are those that have it: exactly for binary and categorical attributes, within a window for continuous ones, whose
    distances from the values asked for are `distance`, (n, number of continuous attributes), in window widths.  `close` are the
    images that the outcome model is fitted on; `exact` says that there is no window.
    """

    changed: Mask
    near: Mask
    close: Mask
    distance: Array
    window: dict[str, float]

    @property
    def exact(self) -> bool:
        return not self.window


@dataclass(frozen=True)
class RealImages:
    """The weights and folds of one intervention, shared by all classifiers that are asked about it.

    `features` is what is adjusted for, (n, k); everything is fitted on other images than it is applied to.
    """

    exposure: Exposure
    features: Array
    seed: int = 0

    @cached_property
    def design(self) -> Array:
        return with_intercept(self.features)

    @cached_property
    def parts(self) -> list[tuple[Mask, Mask]]:
        return list(folds(len(self.features), self.seed, self.exposure.near))

    @cached_property
    def propensity(self) -> Array:
        """P(near | W), of each image by a model fitted on others."""
        near = self.exposure.near.astype(np.float64)
        e = np.empty(len(near))
        for train, test in self.parts:
            e[test] = predict_logistic(self.design[test], logistic(self.design[train], near[train]))
        return e

    @cached_property
    def weights(self) -> Array:
        """Makes the images that have it like those that are changed; 0 elsewhere."""
        share = self.exposure.near.mean()
        e = np.clip(self.propensity, LEAST * share, 1 - LEAST * (1 - share))
        changed = 1 - e if self.exposure.exact else np.ones_like(e)  # P(changed | W)
        return np.where(self.exposure.near, changed / e, 0.0)

    @property
    def clipped(self) -> float:
        """The share of the images that have it whose propensity was raised."""
        share = self.exposure.near.mean()
        near = self.exposure.near
        return float((self.propensity[near] < LEAST * share).mean()) if near.any() else 0.0

    @property
    def strangers(self) -> float:
        """The share of the changed images that hardly any image that has it is like: for them, models only extrapolate."""
        changed = self.exposure.changed
        few = self.propensity < LEAST * self.exposure.near.mean()
        return float(few[changed].mean()) if changed.any() else 0.0

    def comparable(self) -> RealImages:
        """The same for the images alone whose propensity is at least `ALIKE` of the mean (Crump et al., 2009): the others are
        unlike all that have the attribute, and nothing but a model says what it would do to them."""
        keep = self.propensity >= ALIKE * self.exposure.near.mean()
        masks = {name: getattr(self.exposure, name) & keep for name in ("changed", "near", "close")}
        fewer = replace(self, exposure=replace(self.exposure, **masks))
        fewer.__dict__.update(propensity=self.propensity, parts=self.parts, design=self.design)  # fitted on all
        return fewer

    @cached_property
    def reading(self) -> tuple[Array, Array]:
        """How what is left of the answers is read off at the values asked for: a line over the distance from them, (n, 1 + k),
        and the matrix that turns n values into its coefficients by weighted least squares; the first row has the sum 1.

        For binary and categorical attributes it is the weighted mean.  Of the images within a window of a continuous value more
        lie on one side than on the other, so that their mean would not be that at the value.
        """
        design = np.concatenate([np.ones((len(self.weights), 1)), self.exposure.distance], axis=1)
        weighted = (design * self.weights[:, None]).T
        return design, np.linalg.pinv(weighted @ design) @ weighted

    @cached_property
    def effective(self) -> float:
        """Kish's effective number of images that have it: 1 / the sum of squared weights, which have the sum 1."""
        if not self.exposure.near.any():
            return 0.0
        first = self.reading[1][0]
        return float(first.sum() ** 2 / (first @ first))

    @property
    def refusal(self) -> str:
        """Why these images cannot answer, in words with numbers; empty where they can."""
        have, changed = int(self.exposure.near.sum()), int(self.exposure.changed.sum())
        if changed < ENOUGH:
            return f"{changed:,} images do not have it yet, and {ENOUGH} are needed"
        if self.effective < ENOUGH:
            return f"{have:,} images have it, worth {self.effective:.0f} comparable ones, and {ENOUGH} are needed"
        if self.strangers > STRANGERS:
            return (
                f"{self.strangers:.0%} of the {changed:,} images without it are unlike all {have:,} images that have it, and "
                f"{STRANGERS:.0%} at most may be"
            )
        return ""

    @property
    def enough(self) -> bool:
        return not self.refusal

    def outcome_model(self, answers: Array, prediction: Prediction | None = None) -> tuple[Array, Array]:
        """m(W) at the values asked for and at each image's own, of images by models fitted on others.

        With `prediction`, (n,), only what is left of the answers without it is regressed, and shrunk more.
        """
        offset = np.zeros_like(answers) if prediction is None else np.asarray(prediction)
        penalty = 1.0 if prediction is None else GENERATOR_PENALTY
        at, own = np.empty(len(answers)), np.empty(len(answers))
        here = np.concatenate([self.design, self.exposure.distance], axis=1)
        there = np.concatenate([self.design, np.zeros_like(self.exposure.distance)], axis=1)
        for train, test in self.parts:
            rows = train & self.exposure.close
            beta = ridge(here[rows], (answers - offset)[rows], penalty)
            at[test], own[test] = there[test] @ beta, here[test] @ beta
        return at + offset, own + offset

    def generator_model(self, generated: Array) -> Prediction:
        """E[g(X) | W] of a generator's answers g, NaN where nothing was asked; a function of W alone."""
        asked = ~np.isnan(generated)
        found = np.empty(len(generated))
        for train, test in self.parts:
            rows = train & asked
            found[test] = self.design[test] @ ridge(self.design[rows], generated[rows])
        return found

    def aipw(self, answers: Array, models: tuple[Array, Array]) -> Estimate:
        """E[f(X_do) | S] - E[f(X) | S] of 0/1 answers (or probabilities) with an outcome model."""
        at, own = models
        changed, (design, solve) = self.exposure.changed, self.reading
        n, n_changed = len(answers), int(changed.sum())
        gap, left = at - answers, answers - own
        mean_gap, line = gap[changed].mean(), solve @ left
        # what would be left had the image not been fitted (the jackknife; HC3): few images decide more of their own fit
        alone = (left - design @ line) / (1 - np.clip(np.einsum("ij,ji->i", design, solve), 0, 0.9))
        influence = np.where(changed, n / max(n_changed - 1, 1) * (gap - mean_gap), 0) + n * solve[0] * alone
        return Estimate(float(mean_gap + line[0]), influence, self.effective)

    def cautious(self, estimate: Estimate, unexpected: Array) -> Estimate:
        """The estimate with the doubt that few images leave, even where an outcome model tells all their answers (`unexpected` is
        what is left of them): an attribute may change the answers of one image in a hundred."""
        changed = int(self.exposure.changed.sum())
        doubt = one_more_flip(self.effective) + one_more_flip(changed)
        found = replace(estimate, elsewhere=estimate.elsewhere + doubt)
        surprised = (np.abs(unexpected[self.exposure.near]) > 0.5).any()
        return found if surprised else at_least(found, equal_answers(self.effective))

    def estimate(self, answers: Array) -> Estimate:
        """From real images alone."""
        models = self.outcome_model(answers)
        return self.cautious(self.aipw(answers, models), answers - models[1])

    def combined(self, answers: Array, generated: Array) -> Estimate:
        """The estimate from real images with the generator as a second outcome model.

        The generator's answers enter as a function of W alone, and real images correct them: whatever the generator is worth,
        both estimates are of the same quantity.  The weight between the two is the one of smallest variance, so that the
        interval is no wider than without the generator.
        """
        models = self.outcome_model(answers)
        drawn = self.outcome_model(answers, self.generator_model(generated))
        both = combine([self.aipw(answers, models), self.aipw(answers, drawn)])
        return self.cautious(both, answers - models[1])
