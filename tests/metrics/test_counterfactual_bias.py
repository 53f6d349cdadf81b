"""Laws of the bias metric: its three forms are one number, the paper's table obeys it, its intervals cover."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial, norm

from cfgen.metrics import CounterfactualBias

# Table 3: p(y_r != y_c), p(0 -> 1 | flip), bias
PAPER = {
    "horizontal_flip": (0.073, 0.436, -0.009),
    "brightness": (0.192, 0.498, -0.001),
    "black_h": (0.103, 0.586, 0.018),
    "black_h, pale": (0.180, 0.937, 0.158),
    "blond_h": (0.115, 0.413, -0.02),
    "blond_h, pale": (0.155, 0.738, 0.073),
    "brown_h": (0.099, 0.704, 0.041),
    "brown_h, pale": (0.186, 0.942, 0.164),
    "bangs": (0.106, 0.526, 0.005),
}
BOLD = {"black_h, pale", "blond_h, pale", "brown_h, pale"}

pairs = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)


def measured(y_r, y_c, **options) -> dict[str, torch.Tensor]:
    metric = CounterfactualBias(**options)
    metric.update(torch.as_tensor(y_r), torch.as_tensor(y_c))
    return metric.compute()


def of_counts(counts, **options) -> dict[str, torch.Tensor]:
    """Of so many pairs (0, 0), (0, 1), (1, 0), (1, 1)."""
    both = torch.repeat_interleave(torch.arange(4), torch.as_tensor(counts))
    return measured(both // 2, both % 2, **options)


@given(pairs)
def test_equation_4_is_equation_5_is_the_difference_of_rates(rows):
    y_r, y_c = torch.tensor(rows).T
    result = {key: value.item() for key, value in measured(y_r, y_c).items()}
    assert result["n"] == len(rows)
    assert -1 <= result["bias"] <= 1
    assert result["bias"] == pytest.approx(result["up"] - result["down"], abs=1e-6)
    assert result["bias"] == pytest.approx((y_c.double().mean() - y_r.double().mean()).item(), abs=1e-6)
    assert result["flipped"] == pytest.approx((y_r != y_c).double().mean().item(), abs=1e-6)
    if result["flipped"]:
        q = result["up_given_flip"]
        assert result["bias"] == pytest.approx(result["flipped"] * (q - (1 - q)), abs=1e-6)
    else:
        assert np.isnan(result["up_given_flip"])
    for key in ("flipped", "up", "down", "bias"):
        assert result[f"{key}/low"] <= result[key] <= result[f"{key}/high"]
        assert result[f"{key}/low"] >= (-1 if key == "bias" else 0)
        assert result[f"{key}/high"] <= 1


@pytest.mark.parametrize("row", PAPER)
def test_the_papers_table(row):
    p, q, bias = PAPER[row]
    n = 100_000
    up, down = round(n * p * q), round(n * p * (1 - q))
    result = of_counts([n - up - down, up, down, 0])
    rounding = 0.0005 * (1 + abs(2 * q - 1) + 2 * p)  # of all three numbers
    assert result["bias"].item() == pytest.approx(bias, abs=rounding)
    assert result["significant"].item() == (row in BOLD)


def coverage(n: int, up: float, down: float, confidence: float) -> dict[str, float]:
    """How often the intervals hold the truth, summed over all that n pairs can show; where a share is defined."""
    known = {"flipped": up + down, "up_given_flip": up / (up + down), "up": up, "down": down, "bias": up - down}
    held, seen = dict.fromkeys(known, 0.0), dict.fromkeys(known, 0.0)
    for ups, downs in itertools.product(range(n + 1), repeat=2):
        chance = multinomial.pmf([ups, downs, n - ups - downs], n, [up, down, 1 - up - down])
        if ups + downs > n or chance < 1e-5:
            continue
        result = of_counts([n - ups - downs, ups, downs, 0], confidence=confidence, resamples=500)
        for key, truth in known.items():
            if not result[key].isnan():
                seen[key] += chance
                held[key] += chance * (result[f"{key}/low"].item() <= truth <= result[f"{key}/high"].item())
    return {key: held[key] / seen[key] for key in known}


@pytest.mark.parametrize(
    ("n", "up", "down", "confidence", "bias_too"),
    [(100, 0.02, 0.005, 0.95, 0.92), (30, 0.3, 0.1, 0.95, 0.92), (30, 0.3, 0.1, 0.8, 0.77)],
    ids=["rare", "common", "common, 80 %"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(n, up, down, confidence, bias_too):
    """Rare answers as well, where resampling what was not seen shows no doubt: there it held `down` in 39 %."""
    covered = coverage(n, up, down, confidence)
    assert covered.pop("bias") > bias_too  # approximately: what a bootstrap promises
    assert min(covered.values()) >= confidence, covered


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_intervals_of_shares_are_wilsons_with_continuity_correction(up, down, rest, confidence):
    """Newcombe (1998), method 4, as it is written there."""
    n, z = up + down + rest, norm.ppf((1 + confidence) / 2)
    result = of_counts([rest, up, down, 0], confidence=confidence, resamples=0)
    for key, k, of in (("flipped", up + down, n), ("up_given_flip", up, up + down), ("up", up, n), ("down", down, n)):
        ends = [result[f"{key}/low"].item(), result[f"{key}/high"].item()]
        if of:
            p, q, total = k / of, 1 - k / of, 2 * (of + z**2)
            low = (2 * of * p + z**2 - 1 - z * np.sqrt(z**2 - 2 - 1 / of + 4 * p * (of * q + 1))) / total if k else 0
            high = (
                (2 * of * p + z**2 + 1 + z * np.sqrt(z**2 + 2 - 1 / of + 4 * p * (of * q - 1))) / total if k < of else 1
            )
            assert ends == pytest.approx([low, high], abs=1e-6)
        else:
            assert np.isnan(ends).all()
    assert result["bias/low"].isnan()
    assert result["bias/high"].isnan()


@pytest.mark.parametrize("n", [1, 20, 5000])
def test_no_flip_leaves_a_bias_of_three_in_n(n):
    """Of the largest bias in the interval, all to one side, n pairs without a flip are a case in twenty."""
    result = of_counts([n - n // 3, 0, 0, n // 3])
    assert result["bias"] == 0
    assert result["bias/low"] == -result["bias/high"]
    assert (1 - result["bias/high"].double()) ** n == pytest.approx(0.05, abs=1e-3)
    if n > 10:
        assert result["bias/high"].item() == pytest.approx(3 / n, rel=0.08)


def test_the_bootstrap_is_that_of_the_pairs():
    """The multinomial shortcut has the spread of resampling the very pairs."""
    generator = np.random.default_rng(1)
    y_r, y_c = generator.integers(0, 2, 150), generator.integers(0, 2, 150)
    rows = generator.integers(0, 150, (4000, 150))
    low, high = np.quantile(y_c[rows].mean(1) - y_r[rows].mean(1), [0.025, 0.975])
    result = measured(y_r, y_c, resamples=4000)
    assert result["bias/low"].item() == pytest.approx(low, abs=0.011)
    assert result["bias/high"].item() == pytest.approx(high, abs=0.011)


def test_cancelling_flips_are_not_hidden():
    result = of_counts([10, 40, 40, 10])
    assert result["bias"] == 0
    assert not result["significant"]
    assert result["flipped"] == pytest.approx(0.8)
    assert result["up"] == result["down"] == pytest.approx(0.4)


def test_the_threshold_is_for_the_size_not_the_sign():
    assert of_counts([90, 0, 10, 0])["significant"]
    assert not of_counts([96, 4, 0, 0])["significant"]
    assert of_counts([96, 4, 0, 0], threshold=0.03)["significant"]


def test_nothing_seen_and_nothing_flipped():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics': computed before any update
        nothing = CounterfactualBias().compute()
    assert nothing["n"] == 0
    assert not nothing["significant"]
    assert all(value.isnan() for key, value in nothing.items() if key not in ("n", "significant"))
    still = of_counts([7, 0, 0, 3])
    assert still["bias"] == still["flipped"] == 0
    assert all(still[f"up_given_flip{end}"].isnan() for end in ("", "/low", "/high"))
    metric = CounterfactualBias()
    metric.update(torch.zeros(0), torch.zeros(0))
    assert metric.compute()["n"] == 0


@given(pairs, st.integers(0, 60))
def test_parts_add_up_to_the_whole(rows, cut):
    """Batches of one process, and the states of two, give what all pairs at once give, intervals included."""
    y_r, y_c = torch.tensor(rows).T
    whole = measured(y_r, y_c, resamples=50)
    one, other = CounterfactualBias(resamples=50), CounterfactualBias(resamples=50)
    one.update(y_r[:cut], y_c[:cut])
    other.update(y_r[cut:], y_c[cut:])
    one.merge_state(other)
    for key, value in one.compute().items():
        assert torch.equal(value, whole[key]) or (value.isnan() and whole[key].isnan())


def test_seeds_decide_and_repeat():
    assert of_counts([50, 30, 10, 60])["bias/low"] == of_counts([50, 30, 10, 60])["bias/low"]
    lows = {of_counts([50, 30, 10, 60], seed=seed, resamples=50)["bias/low"].item() for seed in range(5)}
    assert len(lows) > 1


@pytest.mark.parametrize(
    ("y_r", "y_c", "message"),
    [
        (torch.zeros(3), torch.zeros(4), "one class for each image"),
        (torch.zeros(3, 1), torch.zeros(3, 1), "one class for each image"),
        (torch.tensor([0, 2]), torch.tensor([0, 1]), "0 or 1"),
        (torch.tensor([0.0, 1.0]), torch.tensor([0.2, 0.9]), "0 or 1"),
    ],
)
def test_what_is_not_a_pair_of_classes_is_refused(y_r, y_c, message):
    with pytest.raises(ValueError, match=message):
        CounterfactualBias().update(y_r, y_c)
