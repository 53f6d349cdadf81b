"""Shifts and contrasts of a continuous attribute by real images, against simulated truth."""

import functools

import numpy as np
import pytest
import torch

from cfgen.effects import real_images, scaled
from cfgen.effects.contrasted import ContrastedImages
from cfgen.effects.shifted import ShiftedImages
from cfgen.interventions import Contrast, Shift

LOW, HIGH = -3.0, 3.0
REPEATS = 40


def world(seed: int, n: int = 600):
    """W causes A and the answer, which bends in A; the answers under any value of A are known."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(n, 2))
    a = np.clip(0.7 * w[:, 0] + rng.normal(size=n), LOW, HIGH)
    u = rng.uniform(size=n)

    def answers(values):
        score = -0.3 + 0.9 * values - 0.25 * values**2 + 0.8 * w[:, 0] - 0.4 * w[:, 1]
        return (u < 1 / (1 + np.exp(-score))).astype(float)

    return w, a, answers


def shifted_images(w, a, amount: float) -> ShiftedImages:
    shift = Shift(f"a=+{amount}", "a", amount, step=amount, bounds=(LOW, HIGH))
    real = real_images(shift.exposure({"a": torch.from_numpy(a)}), w)
    assert isinstance(real, ShiftedImages)
    return real


def shifted(seed: int, amount: float):
    w, a, answers = world(seed)
    real = shifted_images(w, a, amount)
    return real, answers(a), answers(a + amount)


@functools.cache
def truth(amount: float) -> float:
    """In the population, of those whose value stays in range."""
    _, a, answers = world(99_999, n=400_000)
    inside = (a + amount >= LOW) & (a + amount <= HIGH)
    return float((answers(a + amount) - answers(a))[inside].mean())


@pytest.mark.parametrize("amount", [0.8, -0.5])
def test_the_interval_of_a_shift_contains_the_truth_and_a_plain_comparison_does_not(amount):
    inside, plain, errors = 0, 0, []
    for seed in range(REPEATS):
        real, own, drawn = shifted(seed, amount)
        estimate = real.estimate(own)
        inside += estimate.holds(truth(amount))
        errors.append(estimate.value - truth(amount))
        # the slope of answers over values, without adjusting for W
        plain += estimate.holds(amount * np.polyfit(real.values, own, 1)[0])
        assert real.combined(own, np.where(real.exposure.target, drawn, np.nan)).half <= estimate.half + 1e-12
    assert inside >= 0.9 * REPEATS
    assert abs(np.mean(errors)) < 0.5 * np.std(errors)
    assert plain < 0.5 * REPEATS


def test_a_generator_that_is_wrong_does_not_move_the_combined_estimate_out_of_its_interval():
    inside = 0
    for seed in range(REPEATS // 2):
        real, own, drawn = shifted(seed, 0.8)
        wrong = np.where(real.exposure.target, 1 - drawn, np.nan)
        inside += real.combined(own, wrong).holds(truth(0.8))
    assert inside >= 0.87 * (REPEATS // 2)


def test_a_shift_is_right_if_the_outcome_model_alone_is():
    """With a linear outcome and weights that are all wrong."""
    w, a, _ = world(0)
    answers = 0.3 * a + 0.2 * w[:, 0]
    real = shifted_images(w, a, 0.5)
    vars(real)["weights"] = np.ones(len(a))
    assert real.estimate(answers).value == pytest.approx(0.15, abs=0.01)


def test_answers_of_all_classes_add_up_to_no_effect():
    w, a, _ = world(1)
    classes = np.digitize(a + w[:, 1], [-0.5, 0.8])
    real = shifted_images(w, a, 0.5)
    effects = [real.estimate((classes == k).astype(float)).value for k in range(3)]
    assert sum(effects) == pytest.approx(0, abs=1e-6)
    assert max(map(abs, effects)) > 0.05


def test_too_few_images_are_refused_in_words():
    w, a, _ = world(2)
    real = shifted_images(w, a, 5.7)
    assert "can be shifted so far" in real.refusal
    assert not real.enough


def test_the_interval_of_a_contrast_contains_the_truth():
    inside, combined, errors = 0, 0, []
    _, values, of_many = world(99_999, n=400_000)
    effect = float((of_many(np.full(len(values), 0.7)) - of_many(np.full(len(values), -0.5))).mean())
    for seed in range(REPEATS):
        w, a, answers = world(seed, n=900)
        real = real_images(Contrast("a=-0.5:0.7", "a", -0.5, 0.7).exposure({"a": torch.from_numpy(a)}), w)
        assert isinstance(real, ContrastedImages)
        start, end = answers(np.full(len(a), -0.5)), answers(np.full(len(a), 0.7))
        assert real.enough, real.refusal
        estimate = real.estimate(answers(a))
        inside += estimate.holds(effect)
        errors.append(estimate.value - effect)
        combined += real.combined(answers(a), end, start).holds(effect)
    assert min(inside, combined) >= 0.9 * REPEATS
    assert abs(np.mean(errors)) < 0.4 * np.std(errors)


def test_an_estimate_in_other_units_is_the_same_estimate():
    real, own, _ = shifted(0, 0.5)
    one = real.estimate(own)
    other = scaled(one, 40.0)
    assert other.value == 40 * one.value
    assert other.half == pytest.approx(40 * one.half)
    assert other.p_value() == pytest.approx(one.p_value())
    assert scaled(one, 1000.0).interval[1] > 1  # a value has no limit
