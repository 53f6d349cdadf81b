"""How strongly a model draws what is asked for: identities, references and the coverage of its interval."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from cfgen.effects.strength import Strength, slope_strength, strength


def drawn(rng, share, n=800, right=0.9, wrong=0.15):
    """A predictor that sees an attribute in `right` of the images that have it and in `wrong` of the others, and a model that
    draws it in a `share` of its counterfactuals and leaves the others as they were."""
    changed = rng.random(n) < 0.6
    read = (rng.random(n) < np.where(changed, wrong, right)).astype(float)
    seen = np.where(rng.random(n) < share, rng.random(n) < right, read)
    return np.where(changed, seen, np.nan), read, changed, ~changed


def test_all_and_nothing():
    rng = np.random.default_rng(0)
    seen, read, changed, near = drawn(rng, 0.5)
    untouched = strength(np.where(changed, read, np.nan), read, changed, near)
    assert untouched.value == 0
    assert untouched.low < 0 < untouched.high
    assert untouched.seen == untouched.seen_without == read[changed].mean()
    exact = strength(np.where(changed, 1.0, np.nan), near.astype(float), changed, near)
    assert exact.value == 1
    assert exact.high - exact.low > 0  # as many equal answers leave something possible
    found = strength(seen, read, changed, near)
    assert found.seen_real == read[near].mean()
    assert found.value == pytest.approx(
        (seen[changed].mean() - read[changed].mean()) / (read[near].mean() - read[changed].mean())
    )


def test_only_images_that_it_is_asked_of_count():
    rng = np.random.default_rng(1)
    seen, read, changed, near = drawn(rng, 0.7)
    half = np.arange(len(seen)) % 2 == 0
    fewer = np.where(half, seen, np.nan)
    assert strength(fewer, read, changed, near) == strength(fewer, read, changed & half, near)


def test_weights_stand_for_repeated_images():
    rng = np.random.default_rng(2)
    seen, read, changed, near = drawn(rng, 0.7)
    weights = np.where(near, rng.integers(1, 4, len(seen)), 0).astype(float)
    times = np.where(near, weights, 1).astype(int)
    repeated = strength(*(np.repeat(column, times) for column in (seen, read, changed, near)))
    found = strength(seen, read, changed, near, weights)
    assert found.value == pytest.approx(repeated.value)
    assert found.high - found.low > repeated.high - repeated.low  # repeating an image tells nothing new
    scaled = strength(seen, read, changed, near, 7 * weights)
    assert [scaled.low, scaled.high] == pytest.approx([found.low, found.high])


def test_the_interval_is_as_wide_as_resampling_says():
    """The bootstrap knows nothing of influences: it takes images again, each with all that belongs to it."""
    rng = np.random.default_rng(3)
    seen, read, changed, near = drawn(rng, 0.6, n=1500)
    weights = np.where(near, rng.uniform(0.2, 3, len(seen)), 0.0)
    found = strength(seen, read, changed, near, weights)
    values = []
    for _ in range(1500):
        rows = rng.integers(0, len(seen), len(seen))
        values.append(strength(seen[rows], read[rows], changed[rows], near[rows], weights[rows]).value)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(values), rel=0.1)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.68, 1.0])
def test_the_interval_covers(share):
    rng = np.random.default_rng(4)
    made = [strength(*drawn(rng, share, n=300)) for _ in range(600)]
    covered = np.mean([one.low <= share <= one.high for one in made])
    assert 0.93 <= covered <= 0.98
    assert np.mean([one.value for one in made]) == pytest.approx(share, abs=0.02)


def test_a_predictor_that_cannot_tell_does_not_judge():
    rng = np.random.default_rng(5)
    blind = strength(*drawn(rng, 0.5, right=0.55, wrong=0.4))
    seen, read, changed, near = drawn(rng, 0.5)
    nobody = strength(seen, read, changed, np.zeros_like(near))
    nothing = strength(np.full_like(seen, np.nan), read, changed, near)
    for found in (blind, nobody, nothing):
        assert not found.judged
        assert all(math.isnan(number) for number in (found.value, found.low, found.high))
        again = Strength.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
        assert repr(again) == repr(found)
    assert blind.seen_real > blind.seen_without


def moved(rng, slope, n=400, noise=0.3):
    """A predictor of a continuous attribute that reads 0.8 of it plus 1, with noise, and a model that moves it by `slope`."""
    own = rng.normal(5, 1, n)
    wanted = rng.permutation(own)
    read = 0.8 * own + 1 + noise * rng.normal(size=n)
    seen = 0.8 * (own + slope * (wanted - own)) + 1 + noise * rng.normal(size=n)
    return seen, read, wanted, own


def test_a_slope_is_that_of_regression():
    rng = np.random.default_rng(6)
    seen, read, wanted, own = moved(rng, 0.5)
    found = slope_strength(seen, read, wanted, own)
    assert found.seen_real == pytest.approx(stats.linregress(own, read).slope)
    ones = np.linalg.lstsq((wanted - own)[:, None], seen - read, rcond=None)[0]
    assert found.seen == pytest.approx(ones[0])
    assert found.value == pytest.approx(found.seen / found.seen_real)


def test_a_slope_does_not_depend_on_units():
    rng = np.random.default_rng(7)
    seen, read, wanted, own = moved(rng, 0.5)
    found = slope_strength(seen, read, wanted, own)
    for other in (
        slope_strength(3 * seen + 2, 3 * read + 2, wanted, own),
        slope_strength(seen, read, 10 * wanted - 4, 10 * own - 4),
    ):
        assert [other.value, other.low, other.high] == pytest.approx([found.value, found.low, found.high])


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0])
def test_the_interval_of_a_slope_covers(slope):
    rng = np.random.default_rng(8)
    made = [slope_strength(*moved(rng, slope, n=200)) for _ in range(600)]
    assert 0.93 <= np.mean([one.low <= slope <= one.high for one in made]) <= 0.98
    assert np.mean([one.value for one in made]) == pytest.approx(slope, abs=0.02)


def test_a_predictor_that_also_reads_a_cause_is_allowed_for():
    """It reads brightness from thickness as well, which causes it; the model moves brightness alone, and fully."""
    rng = np.random.default_rng(11)
    cause = rng.normal(size=1000)
    own = cause + 0.7 * rng.normal(size=1000)
    read = 0.5 * own + 0.5 * cause + 0.1 * rng.normal(size=1000)
    seen = read + 0.5 * (1.5 - own) + 0.1 * rng.normal(size=1000)
    assert slope_strength(seen, read, 1.5, own).high < 0.8
    found = slope_strength(seen, read, 1.5, own, cause[:, None])
    assert found.low < 1 < found.high
    assert found.seen_real == pytest.approx(stats.linregress(own - cause, read - cause).slope, abs=0.02)
    alike = slope_strength(seen, read, 1.5, own, np.stack([cause, own], axis=1))
    assert not alike.judged  # nothing is left to tell by


def test_a_slope_of_one_value_asked_of_a_part():
    rng = np.random.default_rng(9)
    seen, read, _, own = moved(rng, 0.0)
    seen = np.where(own < 5, read + 0.8 * 0.9 * (6 - own), np.nan)
    assert slope_strength(seen, read, 6.0, own).value == pytest.approx(0.9, abs=0.05)


def test_readings_that_do_not_follow_do_not_judge():
    rng = np.random.default_rng(10)
    for args in (
        moved(rng, 0.5, noise=3.0),
        (np.ones(5), np.ones(5), np.ones(5), np.arange(5.0)),
        (np.full(5, np.nan), np.arange(5.0), np.ones(5), np.arange(5.0)),
    ):
        found = slope_strength(*args)
        assert not found.judged
        assert math.isnan(found.value)
