"""The counterfactual latent divergence against slow loops, full matrices and its extremes."""

import math

import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from cfgen.evaluation.metrics.minimality import LatentModel, Minimality, latent_divergence, same_value_codes
from cfgen.evaluation.statistics import mean_score
from datamodules import MorphoMNIST
from tests.evaluation.scoring import subject_of, table_of
from tests.fakes import Ignorant, fitted

NOTHING_DONE = math.log(1 + math.e)


@pytest.fixture(scope="module")
def digits(digits_cache):
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="module")
def latent(digits):
    return LatentModel(digits.images("train")[:200], components=8)


def test_the_posterior_is_that_of_the_linear_gaussian_model(digits, latent):
    """q(z | x) by conditioning a joint Gaussian, with the matrices that the closed form avoids."""
    x = digits.images("test")[:5].double().flatten(1) / 255
    w = latent.directions * (latent.eigenvalues - latent.noise).sqrt()
    covariance = w @ w.T + latent.noise * torch.eye(len(w))
    gain = w.T @ torch.linalg.inv(covariance)
    means, variance = latent.posterior(digits.images("test")[:5])
    torch.testing.assert_close(means, (x - latent.mean) @ gain.T, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(variance.diag(), torch.eye(8).double() - gain @ w, rtol=1e-3, atol=1e-5)


def test_the_model_is_the_most_likely_one(digits, latent):
    """The images are less probable under any model near it."""
    x = (digits.images("train")[:200].double() / 255).flatten(1) - latent.mean
    scale = (latent.eigenvalues - latent.noise).sqrt()

    def likelihood(noise: torch.Tensor, stretch: float) -> float:
        covariance = (w := latent.directions * scale * stretch) @ w.T + noise * torch.eye(len(w)).double()
        return MultivariateNormal(torch.zeros(len(w)).double(), covariance).log_prob(x).mean().item()

    best = likelihood(latent.noise, 1.0)
    for noise, stretch in [(0.9, 1.0), (1.1, 1.0), (1.0, 0.9), (1.0, 1.1)]:
        assert likelihood(noise * latent.noise, stretch) < best


def test_distances_are_divergences_of_the_posteriors(digits, latent):
    x = digits.images("test")[:6]
    means, variance = latent.posterior(x)
    q = [Independent(Normal(mean, variance.sqrt()), 1) for mean in means]
    distances = torch.cdist(latent.whitened(x), latent.whitened(x)).square() / 2
    for i in range(6):
        for j in range(6):
            assert distances[i, j].item() == pytest.approx(kl_divergence(q[i], q[j]).item(), abs=1e-6)


def test_divergence_against_a_loop():
    generator = torch.Generator().manual_seed(0)
    divergence, distances = torch.rand(7, generator=generator), torch.rand(7, 30, generator=generator)
    asked, own = (torch.rand(7, 30, generator=generator) < 0.4 for _ in range(2))
    found = latent_divergence(divergence, distances, asked, own)
    for i in range(7):
        s_cf = [distances[i, j].item() for j in range(30) if asked[i, j]]
        s_f = [distances[i, j].item() for j in range(30) if own[i, j]]
        nearer = sum(d <= divergence[i].item() for d in s_cf) / len(s_cf)
        farther = sum(d >= divergence[i].item() for d in s_f) / len(s_f)
        assert found[i].item() == pytest.approx(math.log(math.exp(nearer) + math.exp(farther)), abs=1e-6)


def test_extremes():
    distances = torch.tensor([[1.0, 1.0, 5.0, 5.0]])
    like_x, like_asked = distances < 3, distances > 3
    values = {at: latent_divergence(torch.tensor([at]), distances, like_asked, like_x).item() for at in (0.0, 3.0, 9.0)}
    assert values[3.0] == pytest.approx(math.log(2))  # nearer than any as asked, farther than any like x
    assert values[0.0] == pytest.approx(NOTHING_DONE)
    assert latent_divergence(torch.tensor([3.0]), distances, like_x, like_asked).item() == pytest.approx(
        1 + math.log(2)
    )
    assert latent_divergence(torch.tensor([3.0]), distances, ~like_x & like_x, like_x).isnan()


def values(mechanism, digits):
    return table_of([Minimality], subject_of(fitted(mechanism, digits), digits))


def test_doing_nothing_scores_what_doing_nothing_scores(digits):
    scores = values(Ignorant, digits)
    assert set(scores.slices) == {f"minimality_cld/do({k})" for k in digits.schema.names}
    for name in scores.slices:
        counted = scores[name][~scores[name].isnan()]
        torch.testing.assert_close(counted, torch.full_like(counted, NOTHING_DONE))
    assert not scores["minimality_cld/do(label)"].isnan().all()


def test_images_of_anything_score_worse_than_real_ones_of_the_label_asked_for(digits):
    """A mechanism that answers with a real digit of the label asked for, and one whose answer is all white."""

    class Looks(Ignorant):
        def decode(self, z, a):
            labels = digits.schema.decode(a)["label"]
            rows = [int((digits.columns("train")["label"] == label).nonzero()[0]) for label in labels]
            return digits.images("train")[torch.tensor(rows)].float() / 255

    class White(Ignorant):
        def decode(self, z, a):
            return torch.ones_like(z)

    real, white = (mean_score(values(kind, digits)["minimality_cld/do(label)"]) for kind in (Looks, White))
    assert real.value + 2 * real.standard_error < white.value
    assert white.value == pytest.approx(NOTHING_DONE, abs=0.02)  # farther than all of both sets


def test_values_in_the_same_tenth_count_as_the_same(digits):
    column = digits.columns("train")["thickness"]
    codes = same_value_codes(digits.schema, digits.columns("train"), "thickness", column)
    assert sorted(set(codes.tolist())) == list(range(10))
    assert torch.bincount(codes).float().div(len(column)).sub(0.1).abs().max() < 0.02
    assert codes[column.argmin()] == 0
    assert codes[column.argmax()] == 9
