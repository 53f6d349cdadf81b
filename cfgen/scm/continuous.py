"""Mechanisms of continuous attributes that have closed forms: the empirical marginal and linear-Gaussian regression."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cfgen.attributes import Attribute
from cfgen.scm.mechanism import Mechanism, with_intercept

__all__ = ["Empirical", "Gaussian"]


class Empirical(Mechanism):
    """A root by its empirical marginal: a = F^-1(u), u uniform, F piecewise linear between `knots` quantiles."""

    quantiles: Tensor

    def __init__(self, attribute: Attribute, parents: list[Attribute], knots: int = 1025) -> None:
        super().__init__(attribute, parents)
        if parents:
            raise ValueError("an empirical marginal is for a root; this attribute has parents")
        self.register_buffer("quantiles", torch.linspace(0, 1, knots))

    def fit(self, value: Tensor, parents: Tensor) -> None:
        ordered = value.double().sort().values
        position = torch.linspace(0, len(ordered) - 1, len(self.quantiles), dtype=torch.float64, device=value.device)
        below = position.floor().long()
        above = position.ceil().long()
        self.quantiles.copy_(torch.lerp(ordered[below], ordered[above], position - below))

    def abduct(self, value: Tensor, parents: Tensor, generator: torch.Generator) -> Tensor:
        last = len(self.quantiles) - 1
        above = torch.searchsorted(self.quantiles, value.contiguous()).clamp(1, last)
        low, high = self.quantiles[above - 1], self.quantiles[above]
        inside = ((value - low) / (high - low).clamp_min(torch.finfo(value.dtype).tiny)).clamp(0, 1)
        return (above - 1 + inside) / last

    def predict(self, noise: Tensor, parents: Tensor) -> Tensor:
        last = len(self.quantiles) - 1
        position = noise.clamp(0, 1) * last
        below = position.floor().long().clamp(max=last - 1)
        return torch.lerp(self.quantiles[below], self.quantiles[below + 1], position - below)

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.rand(rows, generator=generator, device=generator.device)

    def log_prob(self, value: Tensor, parents: Tensor) -> Tensor:
        last = len(self.quantiles) - 1
        above = torch.searchsorted(self.quantiles, value.contiguous()).clamp(1, last)
        width = (self.quantiles[above] - self.quantiles[above - 1]).clamp_min(torch.finfo(value.dtype).tiny)
        outside = (value < self.quantiles[0]) | (value > self.quantiles[-1])
        return torch.where(outside, -torch.inf, -(width * last).log())


class Gaussian(Mechanism):
    """Linear-Gaussian: a = w . [1, parents] + sigma eps, eps ~ N(0, 1); least squares, which is maximum likelihood."""

    weight: Tensor
    sigma: Tensor

    def __init__(self, attribute: Attribute, parents: list[Attribute]) -> None:
        super().__init__(attribute, parents)
        self.register_buffer("weight", torch.zeros(1 + self.parents_size))
        self.register_buffer("sigma", torch.ones(()))

    def fit(self, value: Tensor, parents: Tensor) -> None:
        features, target = with_intercept(parents).double(), value.double()
        # one-hot parents sum to the intercept: the pseudo-inverse takes the shortest of the equivalent solutions
        weight = torch.linalg.pinv(features.T @ features, hermitian=True) @ (features.T @ target)
        self.weight.copy_(weight)
        self.sigma.copy_((target - features @ weight).square().mean().sqrt().clamp_min(1e-12))

    def mean(self, parents: Tensor) -> Tensor:
        return parents @ self.weight[1:] + self.weight[0]

    def abduct(self, value: Tensor, parents: Tensor, generator: torch.Generator) -> Tensor:
        return (value - self.mean(parents)) / self.sigma

    def predict(self, noise: Tensor, parents: Tensor) -> Tensor:
        return self.mean(parents) + self.sigma * noise

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, generator=generator, device=generator.device)

    def log_prob(self, value: Tensor, parents: Tensor) -> Tensor:
        eps = self.abduct(value, parents, torch.Generator())
        return -0.5 * eps.square() - self.sigma.log() - 0.5 * math.log(2 * math.pi)
