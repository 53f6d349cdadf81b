"""DeepSCM's own attribute flows, as published for Morpho-MNIST: a spline of log-thickness and an intensity that follows it.

The second is misspecified for the published data, whose intensity is affine in thickness itself in logit space: kept so
that DeepSCM can be compared as it was published.  `mlp` is the mechanism that fits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfgen.attributes import Attribute, Continuous
from cfgen.scm.flows import MLP, Spline

__all__ = ["LogAffine", "LogSpline"]


class LogSpline(Spline):
    """A positive root: a = exp(m + s spline(eps)), eps ~ N(0, 1), with m and s the mean and deviation of log a.

    `kind: deepscm_root`, DeepSCM's thickness.
    """

    def __init__(self, attribute: Attribute, parents: list[Attribute], bins: int = 8) -> None:
        if parents:
            raise ValueError("a spline of the logarithm is for a root; this attribute has parents")
        super().__init__(attribute, parents, bins=bins)

    def fit(self, value: Tensor, parents: Tensor) -> None:
        if value.min() <= 0:
            raise ValueError(f"a flow of the logarithm needs positive values, not {value.min().item()}")
        super().fit(value, parents)

    def predict(self, noise: Tensor, parents: Tensor) -> Tensor:
        return (self.forward(noise, parents) * self.scale[1] + self.scale[0]).exp()

    def log_prob(self, value: Tensor, parents: Tensor) -> Tensor:
        log = self._logits(value)
        inside = self._log_prob_y((log - self.scale[0]) / self.scale[1], parents) - self.scale[1].log() - log
        return torch.where(value > 0, inside, -torch.inf)

    def _logits(self, value: Tensor) -> Tensor:
        """The unconstrained value: the logarithm here."""
        return value.clamp_min(torch.finfo(value.dtype).tiny).log()


class LogAffine(MLP):
    """Location and log-scale of the logit, both affine in the logarithm of the one parent p > 0 in its own units.

    a = low + (high - low) sigmoid(w_0 + w_1 log p + exp(v_0 + v_1 log p) eps).  Without `low` and `high` the bounds are
    the smallest and the largest value, as published.  `kind: deepscm`, DeepSCM's intensity.
    """

    parent_range: Tensor
    log_parent: Tensor

    def __init__(
        self, attribute: Attribute, parents: list[Attribute], low: float | None = None, high: float | None = None
    ) -> None:
        if len(parents) != 1 or not isinstance(parents[0], Continuous):
            raise ValueError("affine in the logarithm of one continuous parent; this attribute has not exactly one")
        super().__init__(attribute, parents, low, high)
        self.net = nn.utils.skip_init(nn.Linear, 1, 2)  # a random start would disturb the global seed
        for parameter in self.net.parameters():
            nn.init.zeros_(parameter)
        self.requires_grad_(False)
        self.register_buffer("parent_range", torch.tensor([0.0, 1.0]))  # real units of the scaled parent
        self.register_buffer("log_parent", torch.tensor([0.0, 1.0]))  # mean and deviation of its log: eases the fit

    def set_parent_ranges(self, ranges: Tensor) -> None:
        """The parent's range, (1, 2): parents arrive scaled to [0, 1], and a logarithm needs their own units."""
        if ranges[0, 0] <= 0:
            raise ValueError(
                f"a mechanism in the logarithm of its parent needs positive values, not {ranges[0, 0].item()}"
            )
        self.parent_range.copy_(ranges[0])

    def fit(self, value: Tensor, parents: Tensor) -> None:
        self.log_parent.copy_(torch.tensor([0.0, 1.0]))
        log = self._log(parents)
        self.log_parent.copy_(torch.stack([log.mean(), log.std(correction=0).clamp_min(1e-6)]))
        given = self.declared
        if given is None:
            self.declared = (value.min().item(), value.max().item())
            self.bounds.copy_(torch.tensor(self.declared))
        super().fit(value, parents)
        self.declared = given

    def _location_scale(self, parents: Tensor) -> tuple[Tensor, Tensor]:
        location, log_scale = self.net(self._log(parents)).unbind(1)
        return location, log_scale

    def _log(self, parents: Tensor) -> Tensor:
        low, high = self.parent_range
        # an intervention may leave the range that was seen, but thickness stays positive
        own_units = (low + (high - low) * parents).clamp_min(torch.finfo(parents.dtype).tiny)
        return (own_units.log() - self.log_parent[0]) / self.log_parent[1]
