"""The test and its measure against those of the books, where these apply."""

import numpy as np
import pytest
from causallearn.utils.cit import CIT
from scipy import stats
from scipy.stats.contingency import association as scipy_association
from statsmodels.stats.contingency_tables import StratifiedTable

from cfgen.attributes import Binary, Categorical, Continuous
from cfgen.graph_check.dependence import dependence
from cfgen.graph_check.regression import Smoother
from cfgen.graph_check.scores import Scores, scores_of

N = 600
FOUR, THREE = Categorical(tuple("abcd")), Categorical(tuple("xyz"))


def dependent(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two discrete columns, of four and of three values."""
    one = rng.integers(4, size=N).astype(float)
    return one, np.where(rng.random(N) < 0.3, one % 3, rng.integers(3, size=N)).astype(float)


def counts(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.array([[((one == i) & (other == j)).sum() for j in np.unique(other)] for i in np.unique(one)])


def test_two_discrete_attributes_are_pearsons_chi_squared_and_cramers_v():
    rng = np.random.default_rng(0)
    one, other = dependent(rng)
    found = dependence(Smoother([], N), scores_of(FOUR, one), scores_of(THREE, other))
    pearson = stats.chi2_contingency(counts(one, other), correction=False)
    assert found.statistic == pytest.approx(pearson.statistic * (N - 1) / N)
    assert found.freedom == pearson.dof
    assert found.strength == pytest.approx(scipy_association(counts(one, other), method="cramer"))


def test_two_continuous_attributes_have_spearmans_correlation():
    rng = np.random.default_rng(1)
    one = rng.exponential(size=N)
    other = -np.exp(one) + rng.normal(size=N)
    found = dependence(Smoother([], N), scores_of(Continuous(), one), scores_of(Continuous(), other))
    assert found.strength == pytest.approx(stats.spearmanr(one, other).statistic)
    assert found.strength < -0.5


def test_a_continuous_and_a_discrete_one_have_the_correlation_ratio_of_kruskal_and_wallis():
    rng = np.random.default_rng(2)
    group = rng.integers(4, size=N).astype(float)
    value = group % 2 + rng.standard_t(3, size=N)
    found = dependence(Smoother([], N), scores_of(FOUR, group), scores_of(Continuous(), value))
    h = stats.kruskal(*(value[group == k] for k in range(4))).statistic
    assert found.strength == pytest.approx(np.sqrt(h / (N - 1)))


def test_within_strata_it_is_cochran_mantel_and_haenszels():
    rng = np.random.default_rng(3)
    stratum = (rng.random(N) < 0.4).astype(float)
    one = (rng.random(N) < 0.3 + 0.3 * stratum).astype(float)
    other = (rng.random(N) < 0.2 + 0.4 * stratum + 0.1 * one).astype(float)
    found = dependence(Smoother([(Binary(), stratum)], N), scores_of(Binary(), one), scores_of(Binary(), other))
    tables = [counts(one[stratum == k], other[stratum == k]) for k in (0, 1)]
    reference = StratifiedTable(tables).test_null_odds(correction=False)
    assert found.statistic == pytest.approx(reference.statistic, rel=0.01)
    assert found.p_value == pytest.approx(reference.pvalue, rel=0.05)


def test_lines_and_normal_noise_agree_with_the_partial_correlation():
    """Of the very columns, in place of their ranks, by causal-learn; its curves cost the smoother a little."""
    ours, theirs = [], []
    for seed in range(30):
        rng = np.random.default_rng([4, seed])
        z = rng.normal(size=N)
        x = z + rng.normal(size=N)
        y = -z + 0.2 * (seed % 2) * x + rng.normal(size=N)
        smoother = Smoother([(Continuous(), z)], N)
        found = dependence(smoother, *(Scores(column[:, None], discrete=False, ordered=True) for column in (x, y)))
        ours.append(stats.norm.isf(found.p_value / 2))
        theirs.append(stats.norm.isf(CIT(np.stack([x, y, z], axis=1), "fisherz")(0, 1, [2]) / 2))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.97
    assert np.abs(np.subtract(ours, theirs)).mean() < 0.25


def test_dependence_that_a_correlation_misses_is_seen():
    """y has no more than the square of x, and the sign of x is a coin."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=N)
    y = x**2 + rng.normal(size=N)
    found = dependence(Smoother([], N), scores_of(Continuous(), x), scores_of(Continuous(), y))
    assert abs(found.strength) < 0.15
    assert found.p_value < 1e-10


def test_monotone_changes_of_scale_change_nothing():
    rng = np.random.default_rng(6)
    z, noise = rng.normal(size=(2, N))
    x, y = z + noise, rng.normal(size=N) + z
    found = [
        dependence(Smoother([(Continuous(), f(z))], N), scores_of(Continuous(), f(x)), scores_of(Continuous(), y))
        for f in (lambda v: v, lambda v: np.exp(3 * v))
    ]
    assert found[0].p_value == pytest.approx(found[1].p_value)
