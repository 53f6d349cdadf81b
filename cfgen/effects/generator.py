"""What a generator says of an intervention, and prediction-powered inference where some true counterfactuals are known."""

from __future__ import annotations

import numpy as np

from cfgen.effects.estimate import Array, Estimate, subtract_controls
from cfgen.effects.few import at_least, equal_answers, one_more_flip
from cfgen.effects.nuisance import Mask

__all__ = ["by_generator", "by_outside_pairs", "by_pairs", "frechet_bounds"]


def by_generator(base: Array, generated: Array, changed: Mask) -> Estimate:
    """Eq. 5 by a generator's images: its interval knows of the choice of images, and not of the generator's error."""
    n, n_changed = len(base), int(changed.sum())
    gap = np.where(changed, generated - base, 0.0)
    value = gap[changed].mean()
    influence = np.where(changed, n / n_changed * (gap - value), 0.0)
    slack = equal_answers(n_changed) if not gap.any() else 0.0
    return Estimate(float(value), influence, n_changed, slack=slack)


def by_pairs(answers: Array, generated: Array | None, truth: Array, changed: Mask) -> Estimate:
    """PPI++ (Angelopoulos, Duchi and Zrnic, 2023) where the true counterfactual answers of some changed images are known.

    `truth` is NaN where it is not known.  The generator's answers and the images' own serve as predictions of the truth for all
    changed images; the known ones correct them.  Their coefficients are those of smallest variance.
    """
    n, n_changed = len(answers), int(changed.sum())
    known = changed & ~np.isnan(truth)
    n_known = int(known.sum())
    true = np.where(known, truth, 0.0)
    influence = np.where(known, n / n_known * (true - true[known].mean()), 0.0)
    influence -= np.where(changed, n / n_changed * (answers - answers[changed].mean()), 0.0)
    value = true[known].mean() - answers[changed].mean()
    predictions = [answers] if generated is None else [answers, np.where(changed, generated, 0.0)]
    controls = np.zeros((n, len(predictions)))
    shifts = np.zeros(len(predictions))
    for k, prediction in enumerate(predictions):
        of_known, of_all = prediction[known].mean(), prediction[changed].mean()
        controls[known, k] = n / n_known * (prediction[known] - of_known)
        controls[changed, k] -= n / n_changed * (prediction[changed] - of_all)
        shifts[k] = of_known - of_all
    coefficients = subtract_controls(influence, controls)
    left = influence - controls @ coefficients
    left[known] /= 1 - leverage(np.stack([prediction[known] for prediction in predictions], axis=1))
    gap = true[known] - answers[known]
    found = Estimate(
        float(value - shifts @ coefficients), left, max(n_known - len(predictions), 1), elsewhere=one_more_flip(n_known)
    )
    return found if gap.any() else at_least(found, equal_answers(n_known))


def by_outside_pairs(
    base: Array, generated: Array, changed: Mask, before: Array, after: Array, drawn: Array
) -> Estimate:
    """The same with pairs of pictures that are not among the audited images: answers before and after, and those that the
    generator's counterfactuals of the pictures before get (`drawn`).

    The effect in the pairs, less `weight` times what the generator says of them, plus as much of what it says of all images.
    """
    own = by_generator(base, generated, changed)
    effect, said = after - before, drawn - before
    n = len(effect)
    covariance = np.cov(effect, said) if n > 1 else np.full((2, 2), np.nan)
    spread = covariance[1, 1] / n + own.variance
    weight = float(np.clip(covariance[0, 1] / n / spread, 0, 1)) if spread > 0 else 0.0
    left = effect - weight * said
    found = Estimate(
        float(left.mean() + weight * own.value),
        weight * own.influence,
        n,
        elsewhere=float(left.var(ddof=1) / n) + one_more_flip(n),
    )
    return found if effect.any() else at_least(found, equal_answers(n))


def leverage(columns: Array) -> Array:
    """How far each row decides its own fit in a regression on these columns: dividing what is left by 1 - leverage gives what
    would be left had the row not been fitted (the jackknife; HC3)."""
    design = np.concatenate([np.ones((len(columns), 1)), columns], axis=1)
    return np.clip(np.einsum("ij,ji->i", design, np.linalg.pinv(design)), 0, 0.9)


def frechet_bounds(positive: float, effect: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """How many answers may flip to yes, and to no, where only the shares of yes before (p) and after (p + effect) are known.

    max(0, effect) <= p(0 -> 1) <= min(p + effect, 1 - p), and p(1 -> 0) = p(0 -> 1) - effect.

    >>> frechet_bounds(0.5, 0.25)
    ((0.25, 0.5), (0.0, 0.25))
    """
    after = min(max(positive + effect, 0.0), 1.0)
    effect = after - positive
    low, high = max(0.0, effect), min(after, 1 - positive)
    return (low, high), (low - effect, high - effect)
