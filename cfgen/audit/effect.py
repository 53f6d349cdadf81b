"""The effect of each intervention on a classifier's answers: what the model says, what real images say, and both together."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.audit.plan import Plan, Scores, held
from cfgen.audit.seen import strength_seen
from cfgen.audit.strength import Strength
from cfgen.audit.verdict import Verdict, judge
from cfgen.effects import (
    ENOUGH,
    Array,
    Estimate,
    Mask,
    RealImages,
    adjustment_for,
    by_generator,
    by_outside_pairs,
    by_pairs,
    combine,
    difference,
    exposure_of,
    features,
    frechet_bounds,
    pool_models,
)
from cfgen.effects.real_images import STRANGERS
from cfgen.reporting.numbers import count_of, share
from cfgen.scm.graph import CausalGraph

__all__ = ["Effect", "OutsideAnswers", "Setting", "effects"]

THRESHOLD = 0.05  # the bias that the paper calls significant
FEWEST = 0.25  # of the images that an intervention changes: an estimate about fewer would not be about them


@dataclass(frozen=True)
class Effect:
    """What is known of the effect of an intervention on the share of yes, in one cohort.

    `generator` is the model's word (Eq. 5), `real` what real images alone say, `pairs` what true pairs say, and `combined` all
    of that together; the last three are None where they cannot say (`problem`).  `have` images have what the intervention asks
    for already, which are worth `effective` comparable ones.  It is `about` a share of the images that would change, below 1
    where the others are unlike all that have it; `truth` is the true effect on these, where it is known.  `kind` is "total", or
    "direct" where `held` attributes keep their values.
    """

    kind: str
    held: list[str]
    changed: int
    about: float
    truth: float | None
    have: int
    effective: float
    clipped: float
    adjusted: list[str]
    window: dict[str, float]
    positive: float
    generator: Estimate
    generators: list[Estimate] = field(repr=False)
    real: Estimate | None
    pairs: Estimate | None
    pair_count: int
    combined: Estimate | None
    strength: Strength | None
    problem: str
    verdict: Verdict

    @property
    def headline(self) -> Estimate:
        """The combined estimate; where there is none, the model's word."""
        return self.generator if self.combined is None else self.combined

    @property
    def significant(self) -> str:
        """ "5%" where the whole interval lies beyond 5 points, "0" where it excludes no difference, else "no"."""
        low, high = self.headline.interval
        return "5%" if low > THRESHOLD or high < -THRESHOLD else "0" if low > 0 or high < 0 else "no"

    @property
    def gap(self) -> Estimate | None:
        """The model's estimate minus that of real images (or pairs, where these cannot say)."""
        checked = self.real if self.real is not None else self.pairs
        return None if checked is None else difference(self.generator, checked)

    @property
    def bounds(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """How many answers may flip to yes and to no (Fréchet), whatever share of yes the interval allows afterwards."""
        (up_least, _), (_, down_most) = frechet_bounds(self.positive, self.headline.low)
        (_, up_most), (down_least, _) = frechet_bounds(self.positive, self.headline.high)
        return (up_least, up_most), (down_least, down_most)

    def record(self) -> dict[str, Any]:
        """As bias.csv has it."""
        (up_low, up_high), (down_low, down_high) = self.bounds
        plain: dict[str, Any] = {"verdict": self.verdict.code, "effect": self.kind, "significant": self.significant}
        for name in ("combined", "real", "pairs", "gap"):
            estimate: Estimate | None = getattr(self, name)
            ends = (math.nan, math.nan, math.nan) if estimate is None else (estimate.value, *estimate.interval)
            plain |= dict(zip((name, f"{name}/low", f"{name}/high"), ends, strict=True))
        plain |= {
            "share_compared": self.about,
            "have": self.have,
            "effective": self.effective,
            "pair_count": self.pair_count,
        }
        drawn = self.strength
        for end in ("value", "low", "high"):
            plain[f"strength/{end}"] = math.nan if drawn is None else getattr(drawn, end)
        return plain | {"up/least": up_low, "up/most": up_high, "down/least": down_low, "down/most": down_high}

    def to_dict(self) -> dict[str, Any]:
        """As audit.json has it."""
        estimates = {
            name: None if estimate is None else estimate.to_dict()
            for name, estimate in (
                ("combined", self.combined), ("generator", self.generator), ("real", self.real), ("pairs", self.pairs),
                ("gap", self.gap),
            )
        }  # fmt: skip
        return {
            "verdict": self.verdict.to_dict(),
            "effect": self.kind,
            "held": self.held,
            "significant": self.significant,
            **estimates,
            "models": [estimate.to_dict() for estimate in self.generators],
            "images": {
                "changed": self.changed,
                "share_compared": self.about,
                "have": self.have,
                "effective": self.effective,
                "clipped": self.clipped,
            },
            "adjusted_for": self.adjusted,
            "window": self.window,
            "pairs_used": self.pair_count,
            "strength": None if self.strength is None else self.strength.to_dict(),
            "flips_possible": dict(zip(("to_yes", "to_no"), map(list, self.bounds), strict=True)),
            "problem": self.problem,
        }


class OutsideAnswers(NamedTuple):
    """A classifier's answers (0 or 1) for pictures before, after, and for the model's counterfactuals of those before."""

    before: Array
    after: Array
    drawn: Array


@dataclass(frozen=True)
class Setting:
    """What effects are computed from, beside the tables: the images' attributes and other columns, the graph, the plan.

    `cohorts` are named masks over the images, with the attributes that chose them; `strengths` are known from an earlier
    calibration, by intervention; `outside` are answers about pairs of pictures, by classifier and intervention.
    """

    schema: Schema
    graph: CausalGraph
    columns: Mapping[str, Tensor]
    plan: Plan
    cohorts: Mapping[str, Tensor]
    chosen_by: Mapping[str, Collection[str]]
    threshold: float = 0.5
    others: Mapping[str, Tensor] = field(default_factory=dict)
    strengths: Mapping[str, Strength] = field(default_factory=dict)
    outside: Mapping[str, Mapping[str, OutsideAnswers]] = field(default_factory=dict)


def effects(setting: Setting, tables: Mapping[str, Sequence[Scores]]) -> dict[str, dict[tuple[str, str], Effect]]:
    """Of each classifier, by cohort and intervention; `tables` are its own, one for each model, the first model's first."""
    found: dict[str, dict[tuple[str, str], Effect]] = {name: {} for name in tables}
    for among, members in setting.cohorts.items():
        rows = members.numpy()
        columns = {name: column[members] for name, column in setting.columns.items()}
        others = {name: column[members] for name, column in setting.others.items()}
        for change, do in setting.plan.do.items():
            exposure = exposure_of(setting.schema, columns, do)
            if not exposure.changed.any():
                continue
            kept = held(setting.plan, setting.graph, do)
            adjustment = adjustment_for(setting.graph, do, kept, setting.chosen_by.get(among, ()))
            matrix = features(setting.schema, columns, adjustment.names, others)
            everyone = RealImages(exposure, matrix, setting.plan.seed)
            real = everyone if adjustment.problem else comparable_images(everyone)
            shared = Shared(setting, change, real, kept, [*adjustment.names, *others], adjustment.problem, rows)
            for classifier, scores in tables.items():
                outside = setting.outside.get(classifier, {}).get(change) if rows.all() else None
                found[classifier][among, change] = one_effect(shared, scores, outside)
    return found


def comparable_images(real: RealImages) -> RealImages:
    """All images; or, where these cannot be compared, those that can, if they are enough and not too few of all."""
    if real.enough or not real.exposure.near.any():
        return real
    fewer = real.comparable()
    return fewer if fewer.exposure.changed.sum() >= FEWEST * real.exposure.changed.sum() and fewer.enough else real


class Shared(NamedTuple):
    """What all classifiers share of one intervention in one cohort."""

    setting: Setting
    change: str
    real: RealImages
    held: list[str]
    adjusted: list[str]
    problem: str
    rows: Mask


def one_effect(shared: Shared, tables: Sequence[Scores], outside: OutsideAnswers | None) -> Effect:
    setting, change, exposure = shared.setting, shared.change, shared.real.exposure
    first = tables[0]

    def answers(scores: Scores, column: str) -> Array:
        """1 for yes and 0 for no, NaN where nothing was asked."""
        p = scores[column].numpy()[shared.rows]
        return np.where(np.isnan(p), np.nan, p > setting.threshold)

    own = answers(first, "real")
    asked = ~np.isnan(answers(first, f"do/{change}"))
    about = float(exposure.changed.sum() / asked.sum())
    drawn = [answers(scores, f"do/{change}") for scores in tables]
    generators = [
        by_generator(answers(scores, "base"), g, exposure.changed) for scores, g in zip(tables, drawn, strict=True)
    ]
    usable = (
        not shared.problem and shared.real.enough and (outside is None or about == 1)
    )  # such pairs are of all images
    real = shared.real.estimate(own) if usable else None
    truth = answers(first, f"pair/{change}") if f"pair/{change}" in first else np.full(len(own), np.nan)
    pairs, pair_count = None, int((~np.isnan(truth)).sum())
    if pair_count > 1:
        pairs = by_pairs(own, drawn[0], truth, exposure.changed)
    elif outside is not None:
        pairs, pair_count = (
            by_outside_pairs(answers(first, "base"), drawn[0], exposure.changed, *outside),
            len(outside.before),
        )
    combined = pool_models([shared.real.combined(own, g) for g in drawn]) if usable else None
    if pairs is not None:
        combined = pairs if combined is None else combine([combined, pairs])
    generator = pool_models(generators)
    problem = "" if usable else shared.problem or too_few(shared.real)
    seen = strength_seen(first, change, setting.plan, setting.schema, setting.columns, shared.real, shared.rows)
    seen = setting.strengths.get(change) if seen is None else seen
    checked = real if real is not None else pairs
    return Effect(
        kind="direct" if shared.held else "total",
        held=shared.held,
        changed=int(exposure.changed.sum()),
        about=about,
        truth=float((answers(first, f"true/{change}") - own)[exposure.changed].mean())
        if f"true/{change}" in first
        else None,
        have=int(exposure.near.sum()),
        effective=shared.real.effective if exposure.near.any() else 0.0,
        clipped=shared.real.clipped,
        adjusted=shared.adjusted,
        window=exposure.window,
        positive=float(own[exposure.changed].mean()),
        generator=generator,
        generators=generators,
        real=real,
        pairs=pairs,
        pair_count=pair_count,
        combined=combined,
        strength=seen,
        problem=problem,
        verdict=judge(generator, checked, seen, problem, more_images_help=not shared.problem),
    )


def too_few(real: RealImages) -> str:
    """What real images lack."""
    have, changed = count_of(int(real.exposure.near.sum()), "image"), int(real.exposure.changed.sum())
    if real.effective < ENOUGH:
        return f"{have} with the values count as {real.effective:.0f} comparable ones, and {ENOUGH} are needed"
    if changed < ENOUGH:
        return f"only {count_of(changed, 'image')} would change, and {ENOUGH} are needed"
    return f"{share(real.strangers)} of the images are unlike all {have} with the values, and {share(STRANGERS)} may be"
