"""Effects against independent references: DoubleML, an oracle, scikit-learn, ppi-python, Rubin's formulas by hand."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cfgen.effects import Estimate, OutsidePairAnswers, RealImages, by_outside_pairs, by_pairs, pool_models
from cfgen.effects.nuisance import logistic, predict_logistic, ridge, with_intercept
from tests.effects.simulated import World

WORLDS = [World(), World(effect=-1.0, share=0.2, confounding=1.0), World(base=-1.2, effect=0.3, share=0.5)]


def drawn_design(seed: int = 0, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 4)) * [1, 5, 0.1, 2] + [0, 3, 0, -1]
    return features, (rng.random(rows) < 1 / (1 + np.exp(-features[:, 0] - 0.3 * features[:, 1]))).astype(float)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_ridge_is_scikit_learns(penalty):
    features, outcome = drawn_design()
    design = with_intercept(features)
    theirs = Ridge(alpha=penalty).fit(design[:, 1:], outcome)
    ours = ridge(design, outcome, penalty)
    assert ours == pytest.approx(np.array([theirs.intercept_, *theirs.coef_]), abs=1e-6)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_logistic_regression_is_scikit_learns(penalty):
    features, outcome = drawn_design()
    design = with_intercept(features)
    theirs = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=1000).fit(design[:, 1:], outcome)
    ours = logistic(design, outcome, penalty)
    assert ours == pytest.approx(np.array([*theirs.intercept_, *theirs.coef_[0]]), abs=1e-4)
    assert predict_logistic(design, ours) == pytest.approx(theirs.predict_proba(design[:, 1:])[:, 1], abs=1e-4)


@pytest.mark.parametrize("world", WORLDS)
def test_real_images_are_doubleml(world):
    """DoubleML's effect on the treated: the treated here are the images that the intervention changes, and the treatment is not
    to have the attribute, so its sign is the other one.  The folds differ."""
    from doubleml import DoubleMLData, DoubleMLIRM

    sample = world.draw(4000, seed=1)
    data = DoubleMLData.from_arrays(sample.w, sample.answers, (~sample.has).astype(float))
    learners = (make_pipeline(StandardScaler(), model) for model in (Ridge(1.0), LogisticRegression(C=1.0)))
    np.random.seed(0)  # noqa: NPY002  # DoubleML draws its folds from it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a ridge regression of 0/1 answers is meant
        theirs = DoubleMLIRM(data, *learners, n_rep=9, score="ATTE", normalize_ipw=True).fit()
    ours = [RealImages(sample.exposure, sample.w, seed=seed).estimate(sample.answers) for seed in range(9)]
    value, se = np.median([e.value for e in ours]), np.median([e.se for e in ours])
    assert value == pytest.approx(-theirs.coef[0], abs=0.15 * se)
    assert se == pytest.approx(theirs.se[0], rel=0.05)


@pytest.mark.parametrize("world", WORLDS)
def test_real_images_are_an_oracle_that_knows_both_models(world):
    """AIPW by hand with the true propensity and outcome model, which are counted in a million images."""
    million, sample = world.draw(1_000_000, seed=99), world.draw(4000, seed=2)
    cell = lambda w: (w[:, :3] @ [1, 2, 4]).astype(int)  # noqa: E731  # answers and T depend on these three alone
    count = np.bincount(cell(million.w))
    e = (np.bincount(cell(million.w), million.has) / count)[cell(sample.w)]
    m = (np.bincount(cell(million.w), million.with_it) / count)[cell(sample.w)]
    f, changed = sample.answers, ~sample.has
    parts = np.where(changed, m - f, (1 - e) / e * (f - m))
    oracle = parts.mean() / changed.mean()
    spread = (parts - oracle * changed).std() / changed.mean() / np.sqrt(len(f))
    ours = RealImages(sample.exposure, sample.w).estimate(f)
    assert ours.value == pytest.approx(oracle, abs=0.35 * spread)
    assert ours.se == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("world", WORLDS)
def test_pairs_are_prediction_powered_inference(world):
    """The mean of Y(1) where no image says yes without T: then the answers themselves predict nothing and the generator is
    the one prediction, as in ppi-python."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    sample = world.draw(4000, seed=3)
    changed = np.ones(4000, dtype=bool)
    known = np.arange(4000) < 400
    truth = np.where(known, sample.with_it, np.nan)
    ours = by_pairs(np.zeros(4000), sample.drawn, truth, changed)
    labelled, unlabelled = sample.drawn[known], sample.drawn[~known]
    theirs = float(ppi_mean_pointestimate(sample.with_it[known], labelled, unlabelled)[0])
    low, high = (float(end[0]) for end in ppi_mean_ci(sample.with_it[known], labelled, unlabelled, alpha=0.05))
    half = (high - low) / 2
    assert ours.value == pytest.approx(theirs, abs=0.05 * half)
    assert ours.half == pytest.approx(half, rel=0.1)


def test_outside_pairs_are_prediction_powered_inference():
    """The same with pairs from elsewhere: every audited image is then one without a label."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    sample, elsewhere = World().draw(4000, seed=4), World().draw(300, seed=5)
    nothing, everyone = np.zeros(4000), np.ones(4000, dtype=bool)
    pairs = OutsidePairAnswers(np.zeros(300), elsewhere.with_it, elsewhere.drawn)
    ours = by_outside_pairs(nothing, sample.drawn, everyone, pairs)
    theirs = float(ppi_mean_pointestimate(elsewhere.with_it, elsewhere.drawn, sample.drawn)[0])
    low, high = (float(end[0]) for end in ppi_mean_ci(elsewhere.with_it, elsewhere.drawn, sample.drawn, alpha=0.05))
    half = (high - low) / 2
    assert ours.value == pytest.approx(theirs, abs=0.05 * half)
    assert ours.half == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize("number", [2, 3, 7])
def test_several_models_are_pooled_by_rubins_rule(number):
    """Q = mean of Q_m; T = mean of U_m + (1 + 1/M) B; degrees of freedom by Barnard and Rubin (1999)."""
    rng = np.random.default_rng(number)
    estimates = [Estimate(float(rng.normal()), rng.normal(size=50), 50, elsewhere=0.01) for _ in range(number)]
    values = [estimate.value for estimate in estimates]
    pooled = pool_models(estimates)
    within = sum(estimate.variance for estimate in estimates) / number
    between = sum((value - sum(values) / number) ** 2 for value in values) / (number - 1)
    assert pooled.value == pytest.approx(sum(values) / number)
    assert pooled.variance == pytest.approx(within + (1 + 1 / number) * between)
    of_models = (number - 1) * (1 + within / ((1 + 1 / number) * between)) ** 2
    assert pooled.effective - 1 == pytest.approx(1 / (1 / 49 + 1 / of_models))
