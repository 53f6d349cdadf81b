"""Laws of estimates: what cannot change them, what never widens them, what they bound, and which model may be wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfgen.effects import (
    CONFIDENCE,
    ENOUGH,
    Estimate,
    OutsidePairAnswers,
    RealImages,
    by_generator,
    by_outside_pairs,
    by_pairs,
    combine,
    difference,
    frechet_bounds,
    pool_models,
)
from cfgen.effects.nuisance import FOLDS
from tests.effects.simulated import World, binary_exposure

SEEDS = st.integers(0, 10_000)


def all_estimates(sample, seed: int = 0) -> dict[str, Estimate]:
    real, changed = RealImages(sample.exposure, sample.w, seed), ~sample.has
    pairs = by_pairs(sample.answers, sample.generated, sample.known(60), changed)
    return {
        "generator": by_generator(sample.answers, sample.generated, changed),
        "real": real.estimate(sample.answers),
        "combined": real.combined(sample.answers, sample.generated),
        "pairs": pairs,
        "pairs without a generator": by_pairs(sample.answers, None, sample.known(60), changed),
        "all": combine([real.combined(sample.answers, sample.generated), pairs]),
    }


def test_influences_have_mean_0():
    for name, estimate in all_estimates(World().draw(1200, seed=0)).items():
        # the jackknife divides by 1 - leverage, image by image, which leaves a little
        assert abs(estimate.influence.mean()) < 0.1 * estimate.se, name


def test_images_in_another_order_change_nothing_but_the_folds():
    sample = World().draw(1200, seed=1)
    order = np.random.default_rng(0).permutation(1200)
    truth = sample.known(60)
    one, other = all_estimates(sample), all_estimates(sample.reordered(order))
    pairs = [
        by_pairs(s.answers, s.generated, t, ~s.has)
        for s, t in ((sample, truth), (sample.reordered(order), truth[order]))
    ]
    assert pairs[0].value == pytest.approx(pairs[1].value)
    assert pairs[0].se == pytest.approx(pairs[1].se)
    assert one["generator"].interval == pytest.approx(other["generator"].interval)
    assert one["real"].value == pytest.approx(other["real"].value, abs=0.2 * one["real"].se)


def test_answers_of_the_other_class_change_the_sign():
    sample = World().draw(1200, seed=2)
    real = RealImages(sample.exposure, sample.w)
    yes, no = real.combined(sample.answers, sample.generated), real.combined(1 - sample.answers, 1 - sample.generated)
    assert yes.value == pytest.approx(-no.value)
    assert yes.interval == pytest.approx((-no.high, -no.low))


def test_a_constant_answer_has_no_effect_and_an_interval():
    """Nobody's answer differs, which does not prove that nobody's can: about 3 in n."""
    sample = World().draw(1200, seed=3)
    nothing = np.zeros(1200)
    changed, known = ~sample.has, np.where(np.isnan(sample.known(60)), np.nan, 0.0)
    real = RealImages(sample.exposure, sample.w)
    for estimate, images in (
        (real.estimate(nothing), real.effective),
        (by_generator(nothing, np.where(changed, 0.0, np.nan), changed), changed.sum()),
        (by_pairs(nothing, np.where(changed, 0.0, np.nan), known, changed), 60),
        (by_outside_pairs(nothing, nothing, changed, OutsidePairAnswers(*np.zeros((3, 60)))), 60),
    ):
        assert estimate.value == pytest.approx(0)
        assert estimate.high == pytest.approx(1 - (1 - CONFIDENCE) ** (1 / images), rel=0.01)
        assert estimate.low == pytest.approx(-estimate.high)
        assert estimate.p_value() == 1


@st.composite
def several_estimates(draw):
    rng = np.random.default_rng(draw(SEEDS))
    n, number = draw(st.integers(5, 60)), draw(st.integers(2, 4))
    shared = rng.normal(size=n)
    return [
        Estimate(
            float(rng.uniform(-1, 1)),
            rng.uniform(0, 2) * shared + rng.uniform(0, 2) * rng.normal(size=n),
            float(rng.uniform(2, 200)),
            elsewhere=float(rng.choice([0, rng.uniform(0, 0.1)])),
            slack=float(rng.choice([0, rng.uniform(0, 0.1)])),
        )
        for _ in range(number)
    ]


@given(several_estimates())
def test_a_combination_is_never_wider_than_the_first(estimates):
    both = combine(estimates)
    assert both.se <= estimates[0].se * (1 + 1e-9)
    assert both.half <= estimates[0].half * (1 + 1e-9)
    assert min(e.value for e in estimates) - 1e-9 <= both.value <= max(e.value for e in estimates) + 1e-9


@given(several_estimates())
def test_a_combination_of_two_has_the_smallest_variance(estimates):
    one, other = (Estimate(e.value, e.influence, 100, e.elsewhere) for e in estimates[:2])
    n = len(one.influence)
    weights = np.linspace(0, 1, 201)
    variances = [
        (mixed := (1 - w) * one.influence + w * other.influence) @ mixed / n**2
        + (1 - w) ** 2 * one.elsewhere
        + w**2 * other.elsewhere
        for w in weights
    ]
    assert combine([one, other]).variance <= min(variances) + 1e-12


@given(several_estimates())
def test_a_difference_from_itself_is_nothing(estimates):
    for estimate in estimates:
        if estimate.elsewhere == 0:
            assert difference(estimate, estimate).value == 0
            assert difference(estimate, estimate).se == 0


@given(several_estimates())
def test_pooled_models_are_no_surer_than_one_of_them_on_average(estimates):
    pooled = pool_models(estimates)
    assert pooled.variance >= np.mean([e.variance for e in estimates]) - 1e-12
    assert pooled.effective <= np.mean([e.effective for e in estimates]) + 1e-9


@given(SEEDS)
def test_a_generator_that_draws_noise_widens_nothing(seed):
    sample = World().draw(600, seed)
    noise = np.where(sample.has, np.nan, np.random.default_rng(seed).integers(2, size=600).astype(float))
    real = RealImages(sample.exposure, sample.w)
    assert real.combined(sample.answers, noise).half <= real.estimate(sample.answers).half * (1 + 1e-9)


@given(SEEDS)
def test_predictions_never_raise_the_variance_of_pairs_before_its_correction(seed):
    """The coefficients are those of smallest variance, and 0 is one of the choices."""
    sample = World().draw(400, seed)
    changed = ~sample.has
    alone = by_pairs(sample.answers, None, sample.known(80, seed), changed)
    helped = by_pairs(sample.answers, sample.generated, sample.known(80, seed), changed)
    assert helped.se <= alone.se * 1.05  # one more prediction costs one more degree of freedom


@given(SEEDS, st.floats(-2, 2), st.floats(-1.5, 1.5))
def test_the_bounds_contain_the_true_flips(seed, effect, base):
    sample = World(effect=effect, base=base).draw(300, seed)
    before, after = sample.without, np.random.default_rng(seed).permutation(sample.with_it)
    (up_low, up_high), (down_low, down_high) = frechet_bounds(before.mean(), after.mean() - before.mean())
    assert up_low - 1e-9 <= (after > before).mean() <= up_high + 1e-9
    assert down_low - 1e-9 <= (after < before).mean() <= down_high + 1e-9


def test_each_image_is_predicted_by_models_that_have_not_seen_it():
    """An image's own answer moves neither its own prediction nor any of its fold's."""
    sample = World().draw(500, seed=5)
    real = RealImages(sample.exposure, sample.w)
    assert len(real.parts) == FOLDS
    assert sum(test.astype(int) for _, test in real.parts).tolist() == [1] * 500
    before, _ = real.outcome_model(sample.answers)
    for row in np.flatnonzero(sample.has)[:3]:
        changed = sample.answers.copy()
        changed[row] = 1 - changed[row]
        after, _ = real.outcome_model(changed)
        fold = next(test for _, test in real.parts if test[row])
        assert after[fold] == pytest.approx(before[fold], abs=1e-12)
        assert not np.allclose(after[~fold], before[~fold])


@pytest.mark.parametrize("wrong", ["outcome", "propensity"])
def test_one_of_the_two_models_may_be_wrong(wrong):
    """Double robustness: with one model spoilt the estimate stays right, where the plain difference is not."""
    rng = np.random.default_rng(0)
    n = 40_000
    w = rng.normal(size=n)
    has = rng.random(n) < 1 / (1 + np.exp(-(w - 0.5)))
    without = 0.2 + 0.2 * w + 0.1 * rng.normal(size=n)
    with_it = without + 0.15
    if wrong == "outcome":
        without, with_it = (
            without + 0.3 * np.abs(w) ** 3,
            with_it + 0.3 * np.abs(w) ** 3,
        )  # the linear model cannot say this
    else:
        has = rng.random(n) < np.where(np.abs(w) > 0.7, 0.6, 0.15)  # nor the logistic one this
    answers = np.where(has, with_it, without)
    estimate = RealImages(binary_exposure(has), w[:, None]).estimate(answers)
    truth = 0.15
    naive = answers[has].mean() - answers[~has].mean()
    if wrong == "outcome":
        assert abs(naive - truth) > 0.1
    assert estimate.value == pytest.approx(truth, abs=0.03)


def test_too_few_or_incomparable_images_are_refused():
    few = World(share=0.05).draw(600, seed=0)
    assert not RealImages(few.exposure, few.w).enough
    assert RealImages(few.exposure, few.w).effective < ENOUGH
    assert f"{few.has.sum()} images have it" in RealImages(few.exposure, few.w).refusal
    many = World().draw(600, seed=0)
    assert RealImages(many.exposure, many.w).enough
    assert RealImages(many.exposure, many.w).refusal == ""
    most = World(share=0.95).draw(600, seed=0)
    assert "do not have it yet" in RealImages(most.exposure, most.w).refusal
    rng = np.random.default_rng(0)
    w = rng.normal(size=4000)
    apart = RealImages(binary_exposure(w + 0.1 * rng.normal(size=4000) > 0), w[:, None])
    assert apart.off_support_share > 0.5
    assert not apart.enough
    assert "unlike" in apart.refusal
