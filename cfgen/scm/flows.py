"""Flow mechanisms of bounded continuous attributes, in logit space: location-scale by a small MLP, and splines."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from cfgen.attributes import Attribute
from cfgen.scm.mechanism import Mechanism, with_intercept

__all__ = ["MLP", "Spline"]


class LogitFlow(Mechanism):
    """a = low + (high - low) sigmoid(f(eps; parents)), eps ~ N(0, 1), f invertible in eps.

    Without `low` and `high` the bounds are the data's own range and 2 % beyond.  The fit always starts from the same
    weights and sees rows in the same order: it depends on nothing but the data.
    """

    bounds: Tensor
    scale: Tensor

    def __init__(
        self, attribute: Attribute, parents: list[Attribute], low: float | None = None, high: float | None = None
    ) -> None:
        super().__init__(attribute, parents)
        if (low is None) != (high is None) or (low is not None and high is not None and not low < high):
            raise ValueError(f"bounds need both low and high, low < high, or neither; not low={low}, high={high}")
        self.declared = None if low is None or high is None else (low, high)
        self.register_buffer("bounds", torch.tensor(self.declared or (0.0, 1.0)))
        self.register_buffer("scale", torch.tensor([0.0, 1.0]))  # mean and deviation of the logits: eases the fit

    @abstractmethod
    def inverse(self, y: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """eps with f(eps; parents) = y, and log |d eps / d y|."""

    @abstractmethod
    def forward(self, noise: Tensor, parents: Tensor) -> Tensor:
        """f(eps; parents)."""

    @abstractmethod
    def optimise(self, y: Tensor, parents: Tensor) -> None:
        """Maximises the likelihood of y, the standardised logits."""

    def fit(self, value: Tensor, parents: Tensor) -> None:
        if self.declared is None:
            low, high = value.min().item(), value.max().item()
            margin = 0.02 * max(high - low, 1e-6)
            self.bounds.copy_(torch.tensor([low - margin, high + margin]))
        logits = self._logits(value)
        self.scale.copy_(torch.stack([logits.mean(), logits.std(correction=0).clamp_min(1e-6)]))
        y = (logits - self.scale[0]) / self.scale[1]
        self.requires_grad_(True)
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.optimise(y, parents)
        self.requires_grad_(False)

    def abduct(self, value: Tensor, parents: Tensor, generator: torch.Generator) -> Tensor:
        return self.inverse((self._logits(value) - self.scale[0]) / self.scale[1], parents)[0]

    def predict(self, noise: Tensor, parents: Tensor) -> Tensor:
        low, high = self.bounds
        return low + (high - low) * (self.forward(noise, parents) * self.scale[1] + self.scale[0]).sigmoid()

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, generator=generator, device=generator.device)

    def log_prob(self, value: Tensor, parents: Tensor) -> Tensor:
        logits = self._logits(value)
        inside = self._log_prob_y((logits - self.scale[0]) / self.scale[1], parents)
        # d logit(s) / d value = 1 / (s (1 - s) (high - low))
        jacobian = -nn.functional.logsigmoid(logits) - nn.functional.logsigmoid(-logits)
        return inside - self.scale[1].log() + jacobian - (self.bounds[1] - self.bounds[0]).log()

    def _log_prob_y(self, y: Tensor, parents: Tensor) -> Tensor:
        eps, log_det = self.inverse(y, parents)
        return -0.5 * eps.square() - 0.5 * math.log(2 * math.pi) + log_det

    def _logits(self, value: Tensor) -> Tensor:
        share = (value - self.bounds[0]) / (self.bounds[1] - self.bounds[0])
        return share.clamp(1e-6, 1 - 1e-6).logit()


class MLP(LogitFlow):
    """Location and scale of the logit by a small MLP of the parents: f(eps) = mu(parents) + exp(s(parents)) eps."""

    def __init__(
        self,
        attribute: Attribute,
        parents: list[Attribute],
        low: float | None = None,
        high: float | None = None,
        hidden: int = 16,
    ) -> None:
        super().__init__(attribute, parents, low, high)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(1 + self.parents_size, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        self.requires_grad_(False)

    def _location_scale(self, parents: Tensor) -> tuple[Tensor, Tensor]:
        location, log_scale = self.net(with_intercept(parents)).unbind(1)
        return location, log_scale

    def inverse(self, y: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        location, log_scale = self._location_scale(parents)
        return (y - location) * (-log_scale).exp(), -log_scale

    def forward(self, noise: Tensor, parents: Tensor) -> Tensor:
        location, log_scale = self._location_scale(parents)
        return location + log_scale.exp() * noise

    def optimise(self, y: Tensor, parents: Tensor) -> None:
        start = [weight.detach().clone() for weight in self.net.parameters()]
        for decay in (0.0, 1e-3, 1e-2, 0.1):
            self._optimise(y, parents, decay)
            if all(weight.isfinite().all() for weight in self.net.parameters()):
                return
            # few rows can be fitted without end, the scale falling to 0 at one of them: again, with a weak prior
            with torch.no_grad():
                for weight, first in zip(self.net.parameters(), start, strict=True):
                    weight.copy_(first)
        raise ValueError(f"{len(y)} rows are not enough to fit this mechanism; `gaussian` needs fewer")

    def _optimise(self, y: Tensor, parents: Tensor, decay: float) -> None:
        optimiser = torch.optim.LBFGS(self.net.parameters(), max_iter=150, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = -self._log_prob_y(y, parents).mean()
            if decay:
                value = value + decay * sum(weight.square().sum() for weight in self.net.parameters())
            value.backward()
            return value

        optimiser.step(loss)


class Spline(LogitFlow):
    """A conditional rational spline (Pyro's) of the logit: any shape of noise, also where it changes with the parents."""

    def __init__(
        self,
        attribute: Attribute,
        parents: list[Attribute],
        low: float | None = None,
        high: float | None = None,
        bins: int = 8,
        hidden: int = 16,
    ) -> None:
        super().__init__(attribute, parents, low, high)
        from pyro.distributions.transforms import ConditionalSpline  # only here: most models do without Pyro
        from pyro.nn import DenseNN

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = DenseNN(
                1 + self.parents_size, [hidden], param_dims=[bins, bins, bins - 1, bins], nonlinearity=nn.Tanh()
            )
            self.spline = ConditionalSpline(net, 1, bins, bound=5.0, order="linear")
            # the identity's neighbourhood: a fit that starts from a random spline wastes half its steps
            with torch.no_grad():
                list(net.parameters())[-2].mul_(0.1)  # the last layer's weight
        self.requires_grad_(False)

    def inverse(self, y: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        spline = self.spline.condition(with_intercept(parents))
        eps = spline.inv(y[:, None])
        return eps[:, 0], -spline.log_abs_det_jacobian(eps, y[:, None]).reshape(-1)

    def forward(self, noise: Tensor, parents: Tensor) -> Tensor:
        return self.spline.condition(with_intercept(parents))(noise[:, None])[:, 0]

    def optimise(self, y: Tensor, parents: Tensor) -> None:
        steps, batch = 400, min(2048, len(y))
        optimiser = torch.optim.Adam(self.spline.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(steps):
            rows = torch.randint(len(y), (batch,)).to(y.device)
            optimiser.zero_grad()
            (-self._log_prob_y(y[rows], parents[rows]).mean()).backward()
            optimiser.step()
            schedule.step()
