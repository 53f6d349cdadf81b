"""DeepSCM's ELBO against closed forms of a linear-Gaussian VAE, and its particles against a loop."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal

from lightning_modules.deep_scm import DeepSCM

SCM = {
    "attributes": {
        "thickness": {"kind": "continuous", "low": 0.0, "high": 4.0},
        "label": {"kind": "categorical", "values": [0, 1, 2]},
    },
    "edges": [],
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


class LinearGaussian(nn.Module):
    """A VAE whose every integral is known: y = W z + B a + b + sigma eps, and q(z | x, a) = N(M [y, a] + m, diag s^2)."""

    def __init__(self, pixels: int, a_size: int, latent_dim: int) -> None:
        super().__init__()
        self.W, self.B, self.b = torch.randn(pixels, latent_dim), torch.randn(pixels, a_size), torch.randn(pixels)
        self.M, self.s = 0.1 * torch.randn(latent_dim, pixels + a_size), torch.rand(latent_dim) + 0.1

    def decode(self, z, a):
        return (z @ self.W.T + a @ self.B.T + self.b).unflatten(1, (1, 2, 3))

    def encode(self, x, a):
        return torch.cat([x.flatten(1), a], dim=1) @ self.M.T, self.s.expand(len(x), -1)


def linear_gaussian(particles: int) -> tuple[DeepSCM, LinearGaussian]:
    """DeepSCM with that VAE's encoder and decoder in place of its networks; y = v / 256, the flow of Appendix H."""
    module = DeepSCM(
        SCM, (1, 28, 28), 0.1, 2, log_variance=-1.0, preprocessing="unit", elbo_particles=particles
    ).double()
    toy = LinearGaussian(pixels=6, a_size=4, latent_dim=2).double()
    toy.W, toy.B, toy.b, toy.M, toy.s = (t.double() for t in (toy.W, toy.B, toy.b, toy.M, toy.s))
    module.E.forward, module.G.forward = toy.encode, toy.decode
    return module, toy


def pinned(module: DeepSCM, v: torch.Tensor) -> torch.Tensor:
    """An image of zeros of v's shape, dequantised to v whatever is drawn."""
    module.flow.dequantised = lambda _: v
    return torch.zeros_like(v)


def closed_elbo(toy: LinearGaussian, v: torch.Tensor, a: torch.Tensor, variance: float) -> torch.Tensor:
    """E_q[log p(v | z, a)] - KL(q || p) by hand, with the Jacobian of v = 256 y; the mean over images."""
    y = v.flatten(1) / 256
    m, s = toy.encode(v / 256, a)
    gap = y - m @ toy.W.T - a @ toy.B.T - toy.b
    spread = (toy.W.square() * s[0].square()).sum()  # trace of W diag(s^2) W^T
    likelihood = -0.5 * (gap.square().sum(1) + spread) / variance - 3 * math.log(2 * math.pi * variance)
    kl = 0.5 * (m.square() + s.square() - 1 - s.square().log()).sum(1)
    return (likelihood - 6 * math.log(256) - kl).mean()


def test_elbo_equals_the_closed_form_of_a_linear_gaussian_vae():
    module, toy = linear_gaussian(particles=20_000)
    v, a = torch.rand(3, 1, 2, 3).double() * 256, torch.rand(3, 4).double()
    expected = closed_elbo(toy, v, a, math.exp(-1))
    assert module.elbo(pinned(module, v), a).item() == pytest.approx(expected.item(), rel=2e-3)


def test_elbo_is_the_evidence_when_q_is_the_true_posterior_and_less_otherwise():
    module, toy = linear_gaussian(particles=20_000)
    v, a = torch.rand(1, 1, 2, 3).double() * 256, torch.rand(1, 4).double()
    toy.W = torch.linalg.qr(toy.W)[0]  # orthogonal columns: the posterior of z has a diagonal covariance, as q has
    variance, y = math.exp(-1), v.flatten(1) / 256
    mean = a @ toy.B.T + toy.b
    covariance = toy.W @ toy.W.T + variance * torch.eye(6)
    evidence = MultivariateNormal(mean[0], covariance).log_prob(y[0]) - 6 * math.log(256)
    posterior_mean = (y - mean) @ toy.W / (1 + variance)
    toy.s = torch.full((2,), math.sqrt(variance / (1 + variance))).double()
    module.E.forward = lambda x, a: (posterior_mean, toy.s.expand(1, -1))
    x = pinned(module, v)
    assert module.elbo(x, a).item() == pytest.approx(evidence.item(), rel=2e-3)
    module.E.forward = lambda x, a: (posterior_mean + 1, toy.s.expand(1, -1))
    assert module.elbo(x, a) < evidence - 0.5


def test_gradients_of_the_elbo_are_those_of_the_closed_form():
    module, toy = linear_gaussian(particles=20_000)
    v, a = torch.rand(2, 1, 2, 3).double() * 256, torch.rand(2, 4).double()
    leaves = [t.requires_grad_() for t in (toy.W, toy.b, toy.s)]
    ours = torch.autograd.grad(module.elbo(pinned(module, v), a), leaves)
    theirs = torch.autograd.grad(closed_elbo(toy, v, a, math.exp(-1)), leaves)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05 * other.abs().max().item())


def test_vectorised_particles_equal_a_loop():
    """k particles at once are the mean of k single ones with the same draws of z."""
    module = DeepSCM(SCM, (1, 28, 28), width=0.1, latent_dim=8, particles=5).eval().double()
    images = torch.rand(12, 1, 28, 28).double()
    a, v = torch.rand(12, 4).double(), module.flow.dequantised(images)
    x = pinned(module, v)
    draws = torch.randn(4, 12, 8).double()
    drawn = iter([draws])
    # both estimators get their standard normal draws from here
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.distributions.normal._standard_normal", lambda shape, dtype, device: next(drawn))
        together = module.elbo(x, a)
        module.elbo_particles, drawn = 1, iter(draws[:, None])
        apart = torch.stack([module.elbo(x, a) for _ in draws])
    torch.testing.assert_close(together, apart.mean())
    assert apart.std() > 0
    z = module.abduct(images, a)
    one_by_one = [module.decode((z[0][:, p : p + 1], z[1][:, p : p + 1]), a.flip(0)) for p in range(5)]
    torch.testing.assert_close(module.decode(z, a.flip(0)), torch.stack(one_by_one).mean(0))
