"""`estimate_effect`: the effect of an intervention on one classifier's answers, from everything that is known about it.

The audit, the Bias callback and the calibration of a model call it, so that they report the same quantity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cfgen.effects.estimate import Array, Estimate, combine, difference, pool_models, scaled
from cfgen.effects.generator import OutsidePairAnswers, by_generator, by_outside_pairs, by_pairs, frechet_bounds
from cfgen.effects.outcome import Outcome, YesNo
from cfgen.effects.sample import Comparison, Sample
from cfgen.interventions import Intervention

__all__ = ["Effect", "SampleAnswers", "estimate_effect"]

SIGNIFICANT = 0.05  # the bias that the paper calls significant
PAIRS_ABOUT_ALL = "the pairs of pictures are about all images, and not all of these have overlap"


@dataclass(frozen=True)
class SampleAnswers:
    """One classifier's answers to the images of a sample, as `Outcome.answers` gives them; NaN where there is no picture.

    Attributes:
        real: answers to the images themselves, (n,).
        base: answers to what counterfactuals are compared with, (models, n).
        counterfactual: answers to counterfactuals, (models, n).
        pairs: answers to the true counterfactuals of some target images, (n,).
        truth: answers to the true counterfactuals of all target images, (n,).
        outside: answers to pairs of pictures that are not among these images.
        spread: what answers are divided by before they are analysed.
    """

    real: Array
    base: Array
    counterfactual: Array
    pairs: Array | None = None
    truth: Array | None = None
    outside: OutsidePairAnswers | None = None
    outcome: Outcome = field(default_factory=YesNo)
    spread: float = 1.0


@dataclass(frozen=True)
class Effect:
    """The effect of an intervention on the mean answer of one classifier, in one sample.

    Attributes:
        kind: "total", or "direct" where `held` attributes keep their values.
        n_target: the number of images that the estimate is about.
        share_compared: their share of all images that would change; below 1 where the others lack overlap.
        n_with_value: the number of exposed images, with an effective sample size of `effective_n`.
        clipped: the share of the exposed images whose weight was clipped.
        window: the half width within which a continuous value counts as exposed.
        base_mean: the mean answer before the intervention.
        model_only: the model-only estimate (Eq. 5), pooled over `models`.
        real, pairs, combined: the estimates from real images, from true pairs, and from everything; None where `problem` says
            why there is none.
        truth: the true effect, where it is known.
    """

    outcome: Outcome
    kind: str
    held: list[str]
    n_target: int
    share_compared: float
    n_with_value: int
    effective_n: float
    clipped: float
    adjusted_for: list[str]
    window: dict[str, float]
    base_mean: float
    model_only: Estimate
    models: list[Estimate] = field(repr=False)
    real: Estimate | None
    pairs: Estimate | None
    n_pairs: int
    combined: Estimate | None
    truth: float | None
    problem: str
    more_images_help: bool

    @property
    def headline(self) -> Estimate:
        """The combined estimate; where there is none, the model-only estimate."""
        return self.model_only if self.combined is None else self.combined

    @property
    def independent(self) -> Estimate | None:
        """The estimate that owes nothing to the model: from real images, or else from true pairs."""
        return self.real if self.real is not None else self.pairs

    @property
    def significant(self) -> str:
        """ "5%" where the whole interval lies beyond 5 points, "0" where it excludes zero, else "no"."""
        low, high = self.headline.interval
        beyond = self.outcome.flips and (low > SIGNIFICANT or high < -SIGNIFICANT)
        return "5%" if beyond else "0" if low > 0 or high < 0 else "no"

    @property
    def gap(self) -> Estimate | None:
        """The model-only estimate minus the independent one."""
        return None if self.independent is None else difference(self.model_only, self.independent)

    @property
    def bounds(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Fréchet bounds of the shares that flip to yes and to no, over the interval of the headline."""
        if not self.outcome.flips:
            return (math.nan, math.nan), (math.nan, math.nan)
        (up_least, _), (_, down_most) = frechet_bounds(self.base_mean, self.headline.low)
        (_, up_most), (down_least, _) = frechet_bounds(self.base_mean, self.headline.high)
        return (up_least, up_most), (down_least, down_most)

    def to_dict(self) -> dict[str, Any]:
        """As audit.json has it."""
        estimates = {
            "combined": self.combined, "generator": self.model_only, "real": self.real, "pairs": self.pairs, "gap": self.gap
        }  # fmt: skip
        return {
            "effect": self.kind,
            "held": self.held,
            "significant": self.significant,
            **{name: None if one is None else one.to_dict() for name, one in estimates.items()},
            "models": [one.to_dict() for one in self.models],
            "images": {
                "changed": self.n_target,
                "share_compared": self.share_compared,
                "have": self.n_with_value,
                "effective": self.effective_n,
                "clipped": self.clipped,
            },
            "adjusted_for": self.adjusted_for,
            "window": self.window,
            "pairs_used": self.n_pairs,
            "flips_possible": dict(zip(("to_yes", "to_no"), map(list, self.bounds), strict=True)),
            "problem": self.problem,
        }


def estimate_effect(sample: Sample, intervention: Intervention, answers: SampleAnswers) -> Effect | None:
    """The effect of an intervention on the answers; None where it changes none of the images.

    Real images are used where they overlap with the target: all of it, or the part with overlap.  The model's counterfactuals
    serve as a second outcome model, and true pairs are combined with both.

    >>> import torch
    >>> from cfgen.attributes import Schema
    >>> from cfgen.interventions import Set
    >>> from cfgen.scm.graph import CausalGraph
    >>> young = torch.arange(400) % 2
    >>> schema = Schema({"Young": {"kind": "binary"}})
    >>> sample = Sample(schema, CausalGraph(["Young"]), {"Young": young})
    >>> old = Set.from_values(schema, {"Young": 0})
    >>> says = young.double().numpy()  # yes to the young alone
    >>> drawn = np.where(young == 1, 0.0, np.nan)  # and no to their counterfactuals
    >>> effect = estimate_effect(sample, old, SampleAnswers(says, says[None], drawn[None]))
    >>> round(effect.combined.value, 3), effect.model_only.value
    (-1.0, -1.0)
    """
    comparison = sample.comparison(intervention)
    if not comparison.n_target:
        return None
    target = comparison.real.exposure.target
    estimates = estimates_of(comparison, answers)
    two_arms = len(intervention.arms(sample.columns)) > 1
    before = answers.base[0] if two_arms else answers.real
    truth = None if answers.truth is None else float((answers.truth - answers.real)[target].mean())
    return Effect(
        outcome=answers.outcome,
        kind="direct" if comparison.held else "total",
        held=comparison.held,
        n_target=int(target.sum()),
        share_compared=comparison.share,
        n_with_value=int(comparison.real.exposure.exposed.sum()),
        effective_n=comparison.real.effective if comparison.real.exposure.exposed.any() else 0.0,
        clipped=comparison.real.clipped,
        adjusted_for=comparison.adjusted_for,
        window=comparison.real.exposure.window,
        base_mean=float(before[target].mean()),
        truth=truth,
        more_images_help=comparison.more_images_help,
        **estimates,
    )


def estimates_of(comparison: Comparison, answers: SampleAnswers) -> dict[str, Any]:
    """The fields of `Effect` that are estimates, and why some are missing."""
    shared, target = comparison.real, comparison.real.exposure.target
    own, base, drawn = (part / answers.spread for part in (answers.real, answers.base, answers.counterfactual))
    # pairs from outside are about all images, not about those with overlap
    usable = not comparison.problem and (answers.outside is None or comparison.share == 1)
    models = [by_generator(b, g, target & ~np.isnan(g)) for b, g in zip(base, drawn, strict=True)]
    real = shared.estimate(own) if usable else None
    combined = pool_models([shared.combined(own, g, b) for b, g in zip(base, drawn, strict=True)]) if usable else None
    pairs, n_pairs = pair_estimate(answers, comparison, own, base, drawn)
    if pairs is not None:
        combined = pairs if combined is None else combine([combined, pairs])

    def in_units(estimate: Estimate) -> Estimate:
        return scaled(estimate, answers.spread) if answers.outcome.limit > 1 else estimate

    known = {"real": real, "pairs": pairs, "combined": combined}
    return {
        "models": [in_units(one) for one in models],
        "model_only": in_units(pool_models(models)),
        "n_pairs": n_pairs,
        "problem": "" if usable else comparison.problem or PAIRS_ABOUT_ALL,
        **{name: None if one is None else in_units(one) for name, one in known.items()},
    }


def pair_estimate(
    answers: SampleAnswers, comparison: Comparison, own: Array, base: Array, drawn: Array
) -> tuple[Estimate | None, int]:
    """The estimate from true pairs among the images, or from outside, and their number."""
    target = comparison.real.exposure.target
    if answers.pairs is not None:
        known = int((~np.isnan(answers.pairs)).sum())
        if known > 1:
            return by_pairs(own, drawn[0], answers.pairs / answers.spread, target), known
    if answers.outside is not None:
        outside = OutsidePairAnswers(*(part / answers.spread for part in answers.outside))
        return by_outside_pairs(base[0], drawn[0], target, outside), len(outside.before)
    return None, 0 if answers.pairs is None else int((~np.isnan(answers.pairs)).sum())
