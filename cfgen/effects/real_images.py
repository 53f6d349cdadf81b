"""The effect of an intervention estimated from real images alone: exposed images, weighted to be like the target images.

Eq. 5 is, by Appendix C, E[f(X_do)] - E[f(X)] over the images that the intervention changes (S).  With W, the attributes that it
does not cause, and images of equal W comparable,

    E[f(X_do) | S] = E[ E[f(X) | T = t, W] | S ],

and every term on the right is observed in real images.  The estimator is augmented inverse-probability weighting (AIPW),
cross-fitted: consistent if either the outcome model m(W) = E[f | T = t, W] or the propensity e(W) = P(T = t | W) is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cfgen.effects.estimate import Array, Estimate, combine
from cfgen.effects.nuisance import folds, logistic, predict_logistic, ridge, with_intercept
from cfgen.effects.small_sample import agresti_coull_variance, rule_of_three, with_minimum_half_width
from cfgen.interventions import Exposure, Mask

__all__ = ["ENOUGH", "Prediction", "RealImages"]

# of answers, by W alone; or at the values that are set and at the images' own values
Prediction = Array | tuple[Array, Array]

ENOUGH = 50  # effective sample size below which real images do not answer
MAX_OFF_SUPPORT = 0.1  # the share of the target images that may be off-support
OVERLAP = 0.2  # images whose propensity is below this share of its mean are left out where the target lacks overlap
FEWEST = 0.25  # of the target images: an estimate about fewer is not about them
CLIP = 0.05  # a propensity below this share of its mean is raised to it: one image would stand for too many
MODEL_PENALTY = 10.0  # ridge penalty of the correction of a model's prediction, equal to ten pseudo-observations


@dataclass(frozen=True)
class RealImages:
    """The weights and folds of one intervention, shared by all classifiers.

    `features`, (n, k), are adjusted for.  Everything is fitted on other images than it is applied to; the folds depend on the
    seed and on the images' `ids`, by default their row numbers.
    """

    exposure: Exposure
    features: Array
    seed: int = 0
    ids: Sequence[str] | None = None

    @cached_property
    def design(self) -> Array:
        return with_intercept(self.features)

    @cached_property
    def parts(self) -> list[tuple[Mask, Mask]]:
        return list(folds(len(self.features), self.seed, self.exposure.exposed, self.ids))

    @cached_property
    def propensity(self) -> Array:
        """P(exposed | W) of each image, by a model fitted on others."""
        exposed = self.exposure.exposed.astype(np.float64)
        e = np.empty(len(exposed))
        for train, test in self.parts:
            e[test] = predict_logistic(self.design[test], logistic(self.design[train], exposed[train]))
        return e

    @cached_property
    def weights(self) -> Array:
        """Weights that make the exposed images like the target; 0 elsewhere."""
        share = self.exposure.exposed.mean()
        e = np.clip(self.propensity, CLIP * share, 1 - CLIP * (1 - share))
        target = 1 - e if self.exposure.exact else np.ones_like(e)  # P(target | W)
        return np.where(self.exposure.exposed, target / e, 0.0)

    @property
    def clipped(self) -> float:
        """The share of the exposed images whose propensity was raised."""
        exposed = self.exposure.exposed
        return float((self.propensity[exposed] < CLIP * exposed.mean()).mean()) if exposed.any() else 0.0

    @property
    def off_support_share(self) -> float:
        """The share of the target images that hardly any exposed image is like: for them, models only extrapolate."""
        target = self.exposure.target
        unlikely = self.propensity < CLIP * self.exposure.exposed.mean()
        return float(unlikely[target].mean()) if target.any() else 0.0

    def overlap_only(self) -> RealImages:
        """The same for the images whose propensity is at least `OVERLAP` of its mean (Crump et al., 2009).

        The others are off-support: only a model could tell what the intervention does to them.
        """
        keep = self.propensity >= OVERLAP * self.exposure.exposed.mean()
        masks = {name: getattr(self.exposure, name) & keep for name in ("target", "exposed", "fit_rows")}
        fewer = replace(self, exposure=replace(self.exposure, **masks))
        fewer.__dict__.update(propensity=self.propensity, parts=self.parts, design=self.design)  # fitted on all
        return fewer

    def restrict_to_overlap(self) -> RealImages:
        """All images; where the target lacks overlap, those with overlap, if they are enough and not too few of all."""
        if self.enough or not self.exposure.exposed.any():
            return self
        fewer = self.overlap_only()
        return fewer if fewer.exposure.target.sum() >= FEWEST * self.exposure.target.sum() and fewer.enough else self

    @cached_property
    def local_line(self) -> tuple[Array, Array]:
        """The local linear regression of residuals on the distance from the values that are set: its design, (n, 1 + k), and the
        matrix that turns n values into coefficients by weighted least squares; the first row has the sum 1.

        For binary and categorical attributes it is the weighted mean.  Of the images within a window of a continuous value, more
        lie on one side than on the other, so that their mean would be biased.
        """
        design = np.concatenate([np.ones((len(self.weights), 1)), self.exposure.distance], axis=1)
        weighted = (design * self.weights[:, None]).T
        return design, np.linalg.pinv(weighted @ design) @ weighted

    @cached_property
    def effective(self) -> float:
        """Kish's effective sample size of the exposed images: 1 / the sum of squared weights, which have the sum 1."""
        if not self.exposure.exposed.any():
            return 0.0
        first = self.local_line[1][0]
        return float(first.sum() ** 2 / (first @ first))

    @property
    def refusal(self) -> str:
        """Why real images cannot answer, with numbers; empty where they can."""
        exposed, target = int(self.exposure.exposed.sum()), int(self.exposure.target.sum())
        if target < ENOUGH:
            return f"{target:,} images do not have it yet, and {ENOUGH} are needed"
        if self.effective < ENOUGH:
            return f"{exposed:,} images have it, with an effective sample size of {self.effective:.0f}, and {ENOUGH} are needed"
        if self.off_support_share > MAX_OFF_SUPPORT:
            return (
                f"{self.off_support_share:.0%} of the {target:,} images without it are unlike all {exposed:,} images that have "
                f"it, and {MAX_OFF_SUPPORT:.0%} at most may be"
            )
        return ""

    @property
    def enough(self) -> bool:
        return not self.refusal

    def outcome_model(self, answers: Array, prediction: Prediction | None = None) -> tuple[Array, Array]:
        """m(W) at the values that are set and at each image's own, by models fitted on other images.

        With `prediction`, (n,), its residuals are regressed, with a larger penalty.
        """
        offset = np.zeros_like(answers) if prediction is None else np.asarray(prediction)
        penalty = 1.0 if prediction is None else MODEL_PENALTY
        at, own = np.empty(len(answers)), np.empty(len(answers))
        here = np.concatenate([self.design, self.exposure.distance], axis=1)
        there = np.concatenate([self.design, np.zeros_like(self.exposure.distance)], axis=1)
        for train, test in self.parts:
            rows = train & self.exposure.fit_rows
            beta = ridge(here[rows], (answers - offset)[rows], penalty)
            at[test], own[test] = there[test] @ beta, here[test] @ beta
        return at + offset, own + offset

    def counterfactual_model(self, generated: Array) -> Prediction:
        """E[g(X) | W] of the answers g to a model's counterfactuals, NaN where there is none; a function of W alone."""
        asked = ~np.isnan(generated)
        found = np.empty(len(generated))
        for train, test in self.parts:
            rows = train & asked
            found[test] = self.design[test] @ ridge(self.design[rows], generated[rows])
        return found

    def aipw(self, answers: Array, models: tuple[Array, Array]) -> Estimate:
        """E[f(X_do) | S] - E[f(X) | S] of 0/1 answers (or probabilities) with an outcome model."""
        at, own = models
        target, (design, solve) = self.exposure.target, self.local_line
        n, n_target = len(answers), int(target.sum())
        gap, left = at - answers, answers - own
        mean_gap, line = gap[target].mean(), solve @ left
        # leave-one-out residuals (the jackknife; HC3): few images decide more of their own fit
        alone = (left - design @ line) / (1 - np.clip(np.einsum("ij,ji->i", design, solve), 0, 0.9))
        influence = np.where(target, n / max(n_target - 1, 1) * (gap - mean_gap), 0) + n * solve[0] * alone
        return Estimate(float(mean_gap + line[0]), influence, self.effective)

    def with_small_sample_margin(self, estimate: Estimate, residuals: Array) -> Estimate:
        """The estimate with the uncertainty that few images leave, even where an outcome model predicts all their answers."""
        doubt = agresti_coull_variance(self.effective) + agresti_coull_variance(int(self.exposure.target.sum()))
        wider = replace(estimate, elsewhere=estimate.elsewhere + doubt)
        surprised = (np.abs(residuals[self.exposure.exposed]) > 0.5).any()
        return wider if surprised else with_minimum_half_width(wider, rule_of_three(self.effective))

    def estimate(self, answers: Array) -> Estimate:
        """From real images alone."""
        models = self.outcome_model(answers)
        return self.with_small_sample_margin(self.aipw(answers, models), answers - models[1])

    def combined(self, answers: Array, generated: Array, base: Array | None = None) -> Estimate:
        """The estimate from real images with the answers to a model's counterfactuals as a second outcome model.

        These enter as a function of W alone, and real images correct them: whatever the model is worth, both estimates are of the
        same quantity.  The weight between the two minimises the variance, so that the interval is no wider than without the
        model.  `base`, the answers to what the counterfactuals are compared with, matters to a contrast alone.
        """
        models = self.outcome_model(answers)
        predicted = self.outcome_model(answers, self.counterfactual_model(generated))
        both = combine([self.aipw(answers, models), self.aipw(answers, predicted)])
        return self.with_small_sample_margin(both, answers - models[1])
