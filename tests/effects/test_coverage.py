"""Intervals hold the truth as often as they say: exact where it can be counted, by simulation elsewhere."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from cfgen.attributes import Schema
from cfgen.effects import CONFIDENCE, OutsidePairAnswers, RealImages, by_outside_pairs, by_pairs, combine, features
from cfgen.interventions import Set
from tests.effects.simulated import World

REPLICATES = 300
# the share of 300 intervals that hold the truth is as low as this, where 95 % do, once in a thousand cases
LOW = stats.binom(REPLICATES, CONFIDENCE).ppf(0.001) / REPLICATES
WORLDS = [
    World(),  # an effect of 21 points
    World(effect=0.0, confounding=1.0),  # none, and confounded
    World(effect=-0.5, base=-1.5),  # few say yes, and fewer then
    World(effect=1.5, share=0.2, weakness=1.0),  # a large one, that the generator does not draw
]


@pytest.mark.parametrize("world", WORLDS, ids=["middle", "none", "rare", "not drawn"])
def test_intervals_hold_the_truth(world):
    truth, n = world.truth(), 500
    held: dict[str, list[bool]] = {name: [] for name in ("real", "combined", "pairs", "all", "outside")}
    for seed in range(REPLICATES):
        sample, elsewhere = world.draw(n, seed), world.draw(100, seed + 10_000)
        real, changed = RealImages(sample.exposure, sample.w, seed), ~sample.has
        if not real.enough:
            continue
        combined = real.combined(sample.answers, sample.generated)
        pairs = by_pairs(sample.answers, sample.generated, sample.known(50, seed), changed)
        before_and_after = (elsewhere.without, elsewhere.with_it, elsewhere.drawn)
        outside_pairs = OutsidePairAnswers(*(part[~elsewhere.has] for part in before_and_after))
        outside = by_outside_pairs(sample.answers, sample.generated, changed, outside_pairs)
        found = (real.estimate(sample.answers), combined, pairs, combine([combined, pairs]), outside)
        for name, estimate in zip(held, found, strict=True):
            held[name].append(estimate.holds(truth))
    for name, hits in held.items():
        assert len(hits) > 0.9 * REPLICATES
        assert np.mean(hits) >= LOW, name
    assert np.mean(held["real"]) <= 0.99  # nor is the interval as wide as to say nothing


@pytest.mark.parametrize("exceptions", [0.002, 0.01, 0.03])
def test_a_classifier_that_looks_at_another_attribute_is_covered(exceptions):
    """Its answers are that attribute, which is adjusted for: nothing is left of them but rare exceptions, and few images show none
    or hardly any.  By their spread alone, intervals would hold the truth in 75 % of cases at one exception in a hundred."""
    hits = {"real": [], "combined": []}
    for seed in range(REPLICATES):
        rng = np.random.default_rng(seed)
        sample = World().draw(500, seed)
        hair, rare = sample.w[:, 0], rng.random(500) < exceptions
        answers = np.where(sample.has & rare, 1 - hair, hair)
        real = RealImages(sample.exposure, sample.w, seed)
        share = 0.363  # of the images without T that have this attribute, below the 40 % of all
        truth = exceptions * (1 - 2 * share)
        hits["real"].append(real.estimate(answers).holds(truth))
        hits["combined"].append(real.combined(answers, np.where(sample.has, np.nan, hair)).holds(truth))
    for name, held in hits.items():
        assert np.mean(held) >= LOW, name


@pytest.mark.parametrize("pairs", [50, 100, 200])
def test_rare_flips_are_covered_whatever_their_share(pairs):
    """Counted over all outcomes: of the pairs, k flip with a binomial probability.  By the spread alone, intervals would hold the
    truth in only 80 % of cases at the worst share."""
    ends = []
    for k in range(pairs + 1):
        truth = np.full(1000, np.nan)
        truth[:pairs] = np.arange(pairs) < k
        ends.append(by_pairs(np.zeros(1000), None, truth, np.ones(1000, dtype=bool)).interval)
    low, high = np.array(ends).T
    covered = []
    for share in np.arange(0.002, 0.5, 0.002):
        chance = stats.binom(pairs, share).pmf(np.arange(pairs + 1))
        covered.append(chance[(low <= share) & (share <= high)].sum())
    assert min(covered) > 0.9
    assert np.mean(covered) > CONFIDENCE


def continuous_sample(seed: int, n: int) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """W -> T, and answers that follow both in a straight line: at T = t on average 0.3 + 0.1 (t - 2) + 0.2 w."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=n)
    t = 2 + 0.4 * w + rng.normal(size=n)
    answers = 0.3 + 0.1 * (t - 2) + 0.2 * w + 0.2 * rng.normal(size=n)
    return {"t": torch.from_numpy(t), "w": torch.from_numpy(w)}, answers


@pytest.mark.parametrize("value", [1.5, 2.0, 3.0])
def test_a_straight_line_is_found_at_a_continuous_value(value):
    schema = Schema({name: {"kind": "continuous", "low": -20, "high": 20} for name in ("t", "w")})
    effect, hits = 0.1 * (value - 2), []
    for seed in range(REPLICATES):
        columns, answers = continuous_sample(seed, 1500)
        exposure = Set.from_values(schema, {"t": value}).exposure(columns)
        real = RealImages(exposure, features(schema, columns, ["w"]), seed)
        if real.enough:
            hits.append(real.estimate(answers).holds(effect))
    assert len(hits) > 0.8 * REPLICATES
    assert np.mean(hits) >= LOW


def test_a_value_between_unequally_many_images_is_read_off_a_line():
    """Most images lie to the left of the value.  Their mean is too low; the line through them is not."""
    rng = np.random.default_rng(0)
    t = rng.exponential(size=20_000)
    schema = Schema({"t": {"kind": "continuous", "low": 0, "high": 100}})
    columns = {"t": torch.from_numpy(t)}
    value, answers = 3.0, np.exp(0.5 * t) / 10
    exposure = Set.from_values(schema, {"t": value}).exposure(columns)
    real = RealImages(exposure, np.zeros((len(t), 0)))
    truth = math.exp(1.5) / 10 - answers.mean()
    line, mean = real.estimate(answers).value, answers[exposure.exposed].mean() - answers.mean()
    assert abs(line - truth) < 0.5 * abs(mean - truth)
