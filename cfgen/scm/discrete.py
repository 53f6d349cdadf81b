"""Mechanisms of binary and categorical attributes: probability tables and logistic regression."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from cfgen.attributes import Attribute, Binary, Categorical, Continuous
from cfgen.scm.mechanism import Mechanism, with_intercept

__all__ = ["CPT", "Logistic"]


class Discrete(Mechanism):
    """A discrete attribute through its conditional probabilities p(a | parents).

    Two values: a = [u < p], u uniform.  More: a = argmax_k (log p_k + gumbel_k), the Gumbel-max form, which for two values
    is the same model and does not depend on the order of the values.  Abduction draws the noise from its posterior, so the
    factual value always comes back.
    """

    def __init__(self, attribute: Attribute, parents: list[Attribute]) -> None:
        super().__init__(attribute, parents)
        self.states = 2 if isinstance(attribute, Binary) else attribute.size

    @abstractmethod
    def probabilities(self, parents: Tensor) -> Tensor:
        """p(a = k | parents), (N, states)."""

    def abduct(self, value: Tensor, parents: Tensor, generator: torch.Generator) -> Tensor:
        p = self.probabilities(parents)
        noise = self.sample_noise(len(value), generator)
        if self.states == 2:
            p1 = p[:, 1]
            present = torch.minimum(noise * p1, p1 * (1 - 1e-6))  # rounding must not carry u up to p
            return torch.where(value == 1, present, p1 + noise * (1 - p1))
        # Posterior of the Gumbels: the winner's perturbed value is a standard Gumbel (sum of p is 1), the others are
        # Gumbels cut off below it.
        log_p = p.clamp_min(torch.finfo(p.dtype).tiny).log()
        winner = value.long()[:, None]
        top = noise.gather(1, winner)
        below = -torch.logaddexp(-top, -(log_p + noise))
        # a gap wider than rounding, or log_p + (below - log_p) could overtake the winner
        below = torch.minimum(below, top - 1e-5 * (1 + top.abs() + log_p.abs()))
        return below.scatter(1, winner, top) - log_p

    def predict(self, noise: Tensor, parents: Tensor) -> Tensor:
        p = self.probabilities(parents)
        if self.states == 2:
            return (noise < p[:, 1]).to(p.dtype)
        return (p.clamp_min(torch.finfo(p.dtype).tiny).log() + noise).argmax(dim=1).to(p.dtype)

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        shape = (rows,) if self.states == 2 else (rows, self.states)
        uniform = torch.rand(shape, generator=generator, device=generator.device)
        if self.states == 2:
            return uniform
        tiny = torch.finfo(uniform.dtype).tiny
        return -(-uniform.clamp_min(tiny).log()).clamp_min(tiny).log()

    def log_prob(self, value: Tensor, parents: Tensor) -> Tensor:
        return self.probabilities(parents).gather(1, value.long()[:, None]).log()[:, 0]


class CPT(Discrete):
    """Conditional probability table: counts of the value for each state of the discrete parents.

    `smoothing` is the number of imaginary rows per parent state, spread as the attribute's marginal: a state never seen
    answers with the marginal.  With smoothing 0 a seen state's row is plain counting.
    """

    table: Tensor

    def __init__(self, attribute: Attribute, parents: list[Attribute], smoothing: float = 1.0) -> None:
        super().__init__(attribute, parents)
        if any(isinstance(parent, Continuous) for parent in parents):
            raise ValueError("a probability table takes binary and categorical parents only; 'logistic' takes any")
        if smoothing < 0:
            raise ValueError(f"smoothing is a number of imaginary rows, not {smoothing}")
        self.smoothing = smoothing
        self.radices = [2 if isinstance(parent, Binary) else parent.size for parent in parents]
        rows = 1
        for radix in self.radices:
            rows *= radix
        if rows > 1_000_000:
            raise ValueError(f"a table over {rows} parent states is too large; 'logistic' needs no table")
        self.register_buffer("table", torch.full((rows, self.states), 1 / self.states))

    def fit(self, value: Tensor, parents: Tensor) -> None:
        cell = self._state(parents) * self.states + value.long()
        counts = torch.bincount(cell, minlength=self.table.numel()).reshape(self.table.shape).double()
        marginal = counts.sum(0) + 0.5  # never exactly 0: a value absent from training stays possible
        marginal = marginal / marginal.sum()
        pseudo = torch.where(counts.sum(1, keepdim=True) == 0, max(self.smoothing, 1.0), self.smoothing)
        table = (counts + pseudo * marginal) / (counts.sum(1, keepdim=True) + pseudo)
        self.table.copy_(table)

    def probabilities(self, parents: Tensor) -> Tensor:
        return self.table[self._state(parents)]

    def _state(self, parents: Tensor) -> Tensor:
        """The row of the table for each parent vector: its values read as digits of one number."""
        state = torch.zeros(len(parents), dtype=torch.long, device=parents.device)
        start = 0
        for parent, radix in zip(self.parents, self.radices, strict=True):
            part = parents[:, start : start + parent.size]
            digit = part.argmax(dim=1) if isinstance(parent, Categorical) else part[:, 0].round().long()
            state = state * radix + digit
            start += parent.size
        return state


class Logistic(Discrete):
    """(Multinomial) logistic regression: p(a = k | parents) = softmax_k(W [1, parents]); parents of any kind.

    `decay` is a weak Gaussian prior on the weights of the parents: separable data would otherwise send them to infinity.
    """

    weight: Tensor

    def __init__(self, attribute: Attribute, parents: list[Attribute], decay: float = 1e-4) -> None:
        super().__init__(attribute, parents)
        self.decay = decay
        self.register_buffer("weight", torch.zeros(1 + self.parents_size, self.states))

    def fit(self, value: Tensor, parents: Tensor) -> None:
        features, target = with_intercept(parents).double(), value.long()
        weight = torch.zeros(self.weight.shape, dtype=torch.float64, device=parents.device, requires_grad=True)
        optimiser = torch.optim.LBFGS([weight], max_iter=200, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = nn.functional.cross_entropy(features @ weight, target) + self.decay * weight[1:].square().sum()
            value.backward()
            return value

        with torch.enable_grad():
            optimiser.step(loss)
        self.weight.copy_(weight.detach())

    def probabilities(self, parents: Tensor) -> Tensor:
        return (with_intercept(parents) @ self.weight).softmax(dim=1)
