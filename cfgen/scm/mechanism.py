"""What every structural assignment a_i := g_i(P_ai, eps_i) can do (Appendix A)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from cfgen.attributes import Attribute

__all__ = ["Mechanism", "with_intercept"]


class Mechanism(nn.Module, ABC):
    """a := g(parents, eps).  `predict` runs g, `abduct` inverts it, `fit` finds g by maximum likelihood.

    A value is a column (N,) in real units; `parents` is (N, P), each parent as in the model vector (continuous scaled to
    [0, 1], binary 0/1, categorical one-hot), P = 0 for a root.  Everything fitted lives in the state dict.
    """

    def __init__(self, attribute: Attribute, parents: list[Attribute]) -> None:
        super().__init__()
        self.attribute = attribute
        self.parents = parents
        self.parents_size = sum(parent.size for parent in parents)

    @abstractmethod
    def fit(self, value: Tensor, parents: Tensor) -> None:
        """Maximum likelihood on N rows."""

    def set_parent_ranges(self, ranges: Tensor) -> None:
        """The ranges of the continuous parents in real units, (their number, 2), for a g that needs those units."""

    @abstractmethod
    def abduct(self, value: Tensor, parents: Tensor, generator: torch.Generator) -> Tensor:
        """The noise eps that makes g(parents, eps) the observed value; drawn from its posterior where several do."""

    @abstractmethod
    def predict(self, noise: Tensor, parents: Tensor) -> Tensor:
        """g(parents, eps)."""

    @abstractmethod
    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        """eps from its prior."""

    @abstractmethod
    def log_prob(self, value: Tensor, parents: Tensor) -> Tensor:
        """log p(value | parents), (N,): what `fit` maximises, and how a choice of mechanism can be checked."""


def with_intercept(parents: Tensor) -> Tensor:
    """A column of ones before the parents, so that a root is no special case."""
    return nn.functional.pad(parents, (1, 0), value=1.0)
