"""Intervals cover and tests hold their level over simulated studies, also where participants differ; and known answers."""

import numpy as np
import pytest
from scipy import stats

from cfgen.study.statistics import (
    chance_test,
    clustered_interval,
    drawn_shares,
    equivalence_test,
    exact_test,
    power,
    share,
    standard_error,
    wilson,
)

STUDIES, EACH = 4000, 10


def simulated(mean, spread, people, seed=0):
    random = np.random.default_rng(seed)
    return random.binomial(EACH, drawn_shares(random, mean, spread, (STUDIES, people))), np.full(people, EACH)


@pytest.mark.parametrize(("mean", "spread"), [(0.5, 0.0), (0.5, 0.15), (0.7, 0.1), (0.95, 0.03)])
@pytest.mark.parametrize("people", [12, 66])
def test_clustered_intervals_cover(mean, spread, people):
    low, high = clustered_interval(*simulated(mean, spread, people))
    covered = ((low <= mean) & (mean <= high)).mean()
    assert 0.94 <= covered <= 0.98


def test_intervals_of_independent_answers_are_too_narrow_where_participants_differ():
    right, asked = simulated(0.5, 0.2, 66)
    low, high = wilson(right.sum(axis=1), asked.sum(), 1.96)
    assert ((low <= 0.5) & (high >= 0.5)).mean() < 0.87


@pytest.mark.parametrize("spread", [0.0, 0.15])
@pytest.mark.parametrize("people", [12, 66])
def test_the_test_against_chance_holds_its_level(spread, people):
    rejected = (chance_test(*simulated(0.5, spread, people)) < 0.05).mean()
    assert 0.04 <= rejected <= 0.062


def test_the_exact_test_holds_its_level_where_nobody_sees_anything():
    """Summed over all outcomes, not simulated."""
    asked = 120
    chosen = [k for k in range(asked + 1) if exact_test(k, asked) < 0.05]
    assert 0.02 < stats.binom.pmf(chosen, asked, 0.5).sum() <= 0.05


@pytest.mark.parametrize("spread", [0.0, 0.15])
@pytest.mark.parametrize("mean", [0.4, 0.6])
def test_equivalence_is_rarely_found_at_the_margin(mean, spread):
    assert (equivalence_test(*simulated(mean, spread, 66), 0.1) < 0.05).mean() <= 0.062


def test_a_single_participant_says_nothing_about_how_they_vary():
    assert np.isnan([*clustered_interval([7], [10]), chance_test([7], [10]), equivalence_test([7], [10], 0.1)]).all()


def test_everybody_right_has_an_interval():
    low, high = clustered_interval([10] * 8, [10] * 8)
    assert high == pytest.approx(1)
    assert 0.9 < low < 1


def test_references():
    reference = stats.binomtest(340, 660).proportion_ci(0.95, method="wilson")
    assert wilson(340, 660, stats.norm.ppf(0.975)) == pytest.approx((reference.low, reference.high))
    scores = np.array([2, 9, 5, 7, 4, 8, 9])
    assert chance_test(scores, [10] * 7) == pytest.approx(stats.ttest_1samp(scores, 5).pvalue)
    assert standard_error(scores, [10] * 7) == pytest.approx(stats.sem(scores) / 10)
    # unequal numbers of questions: the linearised ratio, written out
    right, asked = np.array([1, 9, 3, 0]), np.array([1, 10, 8, 4])
    p = 13 / 23
    assert share(right, asked) == p
    assert standard_error(right, asked) == pytest.approx(np.sqrt(4 / 3 * ((right - p * asked) ** 2).sum()) / 23)


def test_power_rises_with_participants_and_falls_with_their_spread():
    few, many, varied = power(10, 10, 0.1), power(60, 10, 0.1), power(60, 10, 0.1, spread=0.2)
    assert few.detects < varied.detects < many.detects
    assert few.equivalent < varied.equivalent < many.equivalent
    # one-sample t-test with the noncentral t distribution
    sd = np.sqrt(0.6 * 0.4 / 10)
    t = stats.t.ppf(0.975, 29)
    known = stats.nct.sf(t, 29, 0.1 / (sd / np.sqrt(30)))
    assert power(30, 10, 0.1).detects == pytest.approx(known, abs=0.03)
