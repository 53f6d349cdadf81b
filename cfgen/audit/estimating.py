"""The effects of all interventions on classifiers' answers, from the tables of these: by cohort, and for every classifier."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.audit.effect import Effect
from cfgen.audit.plan import Plan, Scores, do_of, held
from cfgen.audit.seen import strength_seen
from cfgen.audit.strength import Strength
from cfgen.audit.unit import POINTS, VALUES
from cfgen.audit.verdict import judge
from cfgen.effects import (
    ENOUGH,
    Array,
    ContrastedImages,
    Estimate,
    Mask,
    RealImages,
    ShiftedImages,
    adjustment_for,
    by_generator,
    by_outside_pairs,
    by_pairs,
    combine,
    exposure_of,
    features,
    pool_models,
    scaled,
    shift_exposure,
)
from cfgen.effects.real_images import STRANGERS
from cfgen.reporting.numbers import count_of, share
from cfgen.scm.graph import CausalGraph

__all__ = ["OutsideAnswers", "Setting", "effects"]

FEWEST = 0.25  # of the images that an intervention changes: an estimate about fewer would not be about them


class OutsideAnswers(NamedTuple):
    """Answers (0 or 1, or values) for pictures before, after, and for the model's counterfactuals of those before."""

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
            kept = held(setting.plan, setting.graph, do)
            adjustment = adjustment_for(setting.graph, do, kept, setting.chosen_by.get(among, ()))
            matrix = features(setting.schema, columns, adjustment.names, others)
            everyone = real_images(setting, change, columns, matrix, members)
            if not everyone.exposure.changed.any():
                continue
            real = everyone if adjustment.problem else comparable_images(everyone)
            shared = Shared(setting, change, real, kept, [*adjustment.names, *others], adjustment.problem, rows)
            for classifier, scores in tables.items():
                outside = setting.outside.get(classifier, {}).get(change) if rows.all() else None
                found[classifier][among, change] = one_effect(shared, scores, outside)
    return found


def real_images(
    setting: Setting, change: str, columns: Mapping[str, Tensor], matrix: Array, members: Tensor
) -> RealImages:
    """Which images of a cohort an intervention changes, and what those that have its values are worth."""
    schema, plan = setting.schema, setting.plan
    if change in plan.shifts:
        ((name, wanted),) = plan.do[change].items()
        values, amount = columns[name].double().cpu().numpy(), plan.shifts[change]
        exposure = shift_exposure(values, amount, *schema.bounds(name))
        # to the bit those that are asked: rounding may decide at the ends of the range
        asked = (wanted[members] != columns[name].to(wanted.dtype)).cpu().numpy()
        return ShiftedImages(replace(exposure, changed=asked), matrix, plan.seed, values=values, amount=amount)
    end = exposure_of(schema, columns, do_of(plan, change, members))
    if change in plan.start:
        start = exposure_of(schema, columns, plan.start[change])
        return ContrastedImages.of(start, end, matrix, plan.seed)
    return RealImages(end, matrix, plan.seed)


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


class Answers(NamedTuple):
    """A classifier's answers in a cohort, NaN where nothing was asked: 1 for yes and 0 for no; of predicted values, these over
    `spread`, their standard deviation, so that all that is said of few answers holds for them too."""

    scores: Scores
    threshold: float
    rows: Mask
    spread: float

    def of(self, column: str) -> Array:
        return self.scores.answers(column, self.threshold).numpy()[self.rows].astype(np.float64) / self.spread

    def known(self, column: str) -> bool:
        return column in self.scores


def one_effect(shared: Shared, tables: Sequence[Scores], outside: OutsideAnswers | None) -> Effect:
    setting, change, exposure = shared.setting, shared.change, shared.real.exposure
    value = tables[0].value
    spread = float(tables[0]["real"].double().std(correction=0)) or 1.0 if value else 1.0
    several = [Answers(scores, setting.threshold, shared.rows, spread) for scores in tables]
    first, base = several[0], tables[0].base_of(change)
    own = first.of("real")
    asked = ~np.isnan(first.of(f"do/{change}"))
    about = float(exposure.changed.sum() / asked.sum())
    drawn = [one.of(f"do/{change}") for one in several]
    generators = [
        by_generator(one.of(base), g, exposure.changed) for one, g in zip(several, drawn, strict=True)
    ]  # fmt: skip
    usable = (
        not shared.problem and shared.real.enough and (outside is None or about == 1)
    )  # such pairs are of all images
    real = shared.real.estimate(own) if usable else None
    truth = first.of(f"pair/{change}") if first.known(f"pair/{change}") else np.full(len(own), np.nan)
    pairs, pair_count = None, int((~np.isnan(truth)).sum())
    if pair_count > 1:
        pairs = by_pairs(own, drawn[0], truth, exposure.changed)
    elif outside is not None:
        outside = OutsideAnswers(*(part / spread for part in outside))
        pairs, pair_count = (
            by_outside_pairs(first.of("base"), drawn[0], exposure.changed, *outside),
            len(outside.before),
        )
    combined = pool_models([with_model(shared.real, own, one, base, change) for one in several]) if usable else None
    if pairs is not None:
        combined = pairs if combined is None else combine([combined, pairs])
    generator = pool_models(generators)
    if value:
        generators = [scaled(one, spread) for one in generators]
        generator = scaled(generator, spread)
        real, pairs, combined = (None if one is None else scaled(one, spread) for one in (real, pairs, combined))
    problem = "" if usable else shared.problem or too_few(shared.real)
    seen = strength_seen(tables[0], change, setting.plan, setting.schema, setting.columns, shared.real, shared.rows)
    seen = setting.strengths.get(change) if seen is None else seen
    checked = real if real is not None else pairs
    unit = VALUES if value else POINTS
    return Effect(
        kind="direct" if shared.held else "total",
        held=shared.held,
        changed=int(exposure.changed.sum()),
        about=about,
        truth=spread * float((first.of(f"true/{change}") - own)[exposure.changed].mean())
        if first.known(f"true/{change}")
        else None,
        have=int(exposure.near.sum()),
        effective=shared.real.effective if exposure.near.any() else 0.0,
        clipped=shared.real.clipped,
        adjusted=shared.adjusted,
        window=exposure.window,
        positive=spread * float((own if base == "base" else first.of(base))[exposure.changed].mean()),
        generator=generator,
        generators=generators,
        real=real,
        pairs=pairs,
        pair_count=pair_count,
        combined=combined,
        strength=seen,
        problem=problem,
        verdict=judge(generator, checked, seen, problem, more_images_help=not shared.problem, unit=unit),
        unit=unit,
    )


def with_model(real: RealImages, own: Array, answers: Answers, base: str, change: str) -> Estimate:
    """Real images with a model's answers as a second outcome model."""
    drawn = answers.of(f"do/{change}")
    return (
        real.combined_sides(own, answers.of(base), drawn)
        if isinstance(real, ContrastedImages)
        else real.combined(own, drawn)
    )


def too_few(real: RealImages) -> str:
    """What real images lack."""
    if isinstance(real, ShiftedImages | ContrastedImages):
        return real.refusal
    have, changed = count_of(int(real.exposure.near.sum()), "image"), int(real.exposure.changed.sum())
    if real.effective < ENOUGH:
        return f"{have} with the values count as {real.effective:.0f} comparable ones, and {ENOUGH} are needed"
    if changed < ENOUGH:
        return f"only {count_of(changed, 'image')} would change, and {ENOUGH} are needed"
    return f"{share(real.strangers)} of the images are unlike all {have} with the values, and {share(STRANGERS)} may be"
