"""The model-only estimate, and prediction-powered inference where some true counterfactuals are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cfgen.effects.estimate import Array, Estimate, subtract_controls
from cfgen.effects.small_sample import agresti_coull_variance, rule_of_three, with_minimum_half_width
from cfgen.interventions import Mask

__all__ = ["OutsidePairAnswers", "by_generator", "by_outside_pairs", "by_pairs", "frechet_bounds"]


def by_generator(base: Array, generated: Array, target: Mask) -> Estimate:
    """The model-only estimate, Eq. 5.  Its interval covers the choice of images and not the model's error."""
    n, n_target = len(base), int(target.sum())
    gap = np.where(target, generated - base, 0.0)
    value = gap[target].mean()
    influence = np.where(target, n / n_target * (gap - value), 0.0)
    slack = rule_of_three(n_target) if not gap.any() else 0.0
    return Estimate(float(value), influence, n_target, slack=slack)


def by_pairs(answers: Array, generated: Array | None, truth: Array, target: Mask) -> Estimate:
    """PPI++ (Angelopoulos, Duchi and Zrnic, 2023) where the true counterfactual answers of some target images are known.

    `truth` is NaN where it is not known.  The answers to the model's counterfactuals and to the images predict the truth for all
    target images, and the known ones correct them.  The coefficients minimise the variance.
    """
    n, n_target = len(answers), int(target.sum())
    known = target & ~np.isnan(truth)
    n_known = int(known.sum())
    true = np.where(known, truth, 0.0)
    influence = np.where(known, n / n_known * (true - true[known].mean()), 0.0)
    influence -= np.where(target, n / n_target * (answers - answers[target].mean()), 0.0)
    value = true[known].mean() - answers[target].mean()
    predictions = [answers] if generated is None else [answers, np.where(target, generated, 0.0)]
    controls = np.zeros((n, len(predictions)))
    shifts = np.zeros(len(predictions))
    for k, prediction in enumerate(predictions):
        of_known, of_all = prediction[known].mean(), prediction[target].mean()
        controls[known, k] = n / n_known * (prediction[known] - of_known)
        controls[target, k] -= n / n_target * (prediction[target] - of_all)
        shifts[k] = of_known - of_all
    coefficients = subtract_controls(influence, controls)
    left = influence - controls @ coefficients
    left[known] /= 1 - leverage(np.stack([prediction[known] for prediction in predictions], axis=1))
    gap = true[known] - answers[known]
    found = Estimate(
        float(value - shifts @ coefficients),
        left,
        max(n_known - len(predictions), 1),
        elsewhere=agresti_coull_variance(n_known),
    )
    return found if gap.any() else with_minimum_half_width(found, rule_of_three(n_known))


class OutsidePairAnswers(NamedTuple):
    """Answers to pictures before and after an intervention, and to the model's counterfactuals of those before."""

    before: Array
    after: Array
    counterfactual: Array


def by_outside_pairs(base: Array, generated: Array, target: Mask, pairs: OutsidePairAnswers) -> Estimate:
    """The same with pairs of pictures that are not among the audited images.

    The effect in the pairs, minus `weight` times the model-only effect in them, plus as much of the model-only effect in all
    images.
    """
    own = by_generator(base, generated, target)
    effect, said = pairs.after - pairs.before, pairs.counterfactual - pairs.before
    n = len(effect)
    covariance = np.cov(effect, said) if n > 1 else np.full((2, 2), np.nan)
    spread = covariance[1, 1] / n + own.variance
    weight = float(np.clip(covariance[0, 1] / n / spread, 0, 1)) if spread > 0 else 0.0
    left = effect - weight * said
    found = Estimate(
        float(left.mean() + weight * own.value),
        weight * own.influence,
        n,
        elsewhere=float(left.var(ddof=1) / n) + agresti_coull_variance(n),
    )
    return found if effect.any() else with_minimum_half_width(found, rule_of_three(n))


def leverage(columns: Array) -> Array:
    """The leverage of each row in a regression: residual / (1 - leverage) is the leave-one-out residual (HC3)."""
    design = np.concatenate([np.ones((len(columns), 1)), columns], axis=1)
    return np.clip(np.einsum("ij,ji->i", design, np.linalg.pinv(design)), 0, 0.9)


def frechet_bounds(positive: float, effect: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bounds of the shares that flip to yes and to no, given the shares of yes before (p) and after (p + effect).

    max(0, effect) <= p(0 -> 1) <= min(p + effect, 1 - p), and p(1 -> 0) = p(0 -> 1) - effect.

    >>> frechet_bounds(0.5, 0.25)
    ((0.25, 0.5), (0.0, 0.25))
    """
    after = min(max(positive + effect, 0.0), 1.0)
    effect = after - positive
    low, high = max(0.0, effect), min(after, 1 - positive)
    return (low, high), (low - effect, high - effect)
