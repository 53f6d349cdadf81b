"""The gap between a classifier's answers for real images with and without an attribute, weighted to be alike in all else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cfgen.attributes import Columns, Schema
from cfgen.effects import RealImages, adjustment_for, exposure_of, features
from cfgen.effects.nuisance import logistic
from cfgen.effects.real_images import LEAST
from cfgen.scm.graph import CausalGraph

__all__ = ["Comparison", "WeightedGap", "comparable_images"]

MEMORY = 0.9  # how much of the sums stays from one batch to the next: a gap is that of about ten batches


def comparable_images(
    schema: Schema, graph: CausalGraph, columns: Columns, do: Mapping[str, Any]
) -> tuple[RealImages, str]:
    """What real images with these attributes can say of an intervention; and, where they cannot say anything, why."""
    adjustment = adjustment_for(graph, do)
    real = RealImages(exposure_of(schema, columns, do), features(schema, columns, adjustment.names))
    return real, adjustment.problem or real.refusal


class Comparison(nn.Module):
    """One intervention: which images have what it asks for, with what weights, and which ones it would change.

    The weights (1 - e) / e make the images that have it like those it changes in W, all attributes that it does not cause.
    e(W) = P(has it | W) is fitted once, on the attributes of the training images.
    """

    centre: Tensor
    scale: Tensor
    coefficients: Tensor

    def __init__(self, schema: Schema, graph: CausalGraph, columns: Columns, do: Mapping[str, Any]) -> None:
        super().__init__()
        adjustment, exposure = adjustment_for(graph, do), exposure_of(schema, columns, do)
        # the model vector's entries of W, those of continuous attributes squared too
        entries = range(schema.size)
        self.linear = [k for name in adjustment.names for k in entries[schema.slices[name]]]
        self.squared = [schema.slices[name].start for name in adjustment.names if name in schema.continuous]
        self.asked = [
            asked_entries(schema, name, value, exposure.window) for name, value in schema.check_do(do).items()
        ]
        self.exact, self.share = exposure.exact, float(exposure.near.mean())
        a = schema.encode(columns)
        spread, centre = torch.std_mean(self.covariates(a), dim=0)
        self.register_buffer("centre", centre, persistent=False)
        self.register_buffer("scale", spread.where(spread > 0, 1.0), persistent=False)
        coefficients = logistic(self.design(a).double().numpy(), exposure.near.astype(float))
        self.register_buffer("coefficients", torch.from_numpy(coefficients).to(a.dtype), persistent=False)

    def covariates(self, a: Tensor) -> Tensor:
        return torch.cat([a[:, self.linear], a[:, self.squared].square()], dim=1)

    def design(self, a: Tensor) -> Tensor:
        """Standardised covariates after a column of ones."""
        standard = (self.covariates(a) - self.centre.to(a)) / self.scale.to(a)
        return torch.cat([torch.ones_like(a[:, :1]), standard], dim=1)

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Of images with attributes a: the weights of those that have what is asked for, else 0; and 1 for those changed."""
        near, changed = torch.ones_like(a[:, 0], dtype=torch.bool), torch.zeros_like(a[:, 0], dtype=torch.bool)
        for where, values, window in self.asked:
            away = (a[:, where] - a.new_tensor(values)).abs().amax(dim=1)
            near &= away <= window
            changed |= away > 0
        e = (self.design(a) * self.coefficients.to(a)).sum(dim=1).sigmoid()
        e = e.clamp(LEAST * self.share, 1 - LEAST * (1 - self.share))
        weights = (1 - e) / e if self.exact else 1 / e
        return weights * near, changed.to(a.dtype)


def asked_entries(
    schema: Schema, name: str, value: Tensor, window: Mapping[str, float]
) -> tuple[slice, list[float], float]:
    """Of an attribute asked for: its place in the model vector, what is asked for there, and how far from it is near."""
    values = schema.encode_one(name, value.reshape(1))[0].tolist()
    if name not in window:
        return schema.slices[name], values, 0.0
    low, high = schema.bounds(name)
    return schema.slices[name], values, window[name] / (high - low)


class WeightedGap(nn.Module):
    """The penalty: the square of each intervention's gap, summed.

    A gap is the weighted mean of p(yes | x) over the images that have what is asked for, minus its mean over those that would
    be changed: what the paper calls bias, by real images alone.  A batch has few images with several attributes at once, and the
    square of a noisy gap is mostly the noise's, which would teach the classifier to answer all alike.  So the sums behind both
    means run on from batch to batch (`MEMORY`): the gap's value is that of the last batches, and its gradient the gradient of
    the present batch alone, at full strength.

    The running sums, (interventions, 5), belong to a checkpoint of training: `sums`.  A classifier of several classes has as many
    `outputs`, and each intervention a gap for each of them.
    """

    sums: Tensor

    def __init__(
        self,
        schema: Schema,
        graph: CausalGraph,
        columns: Columns,
        do: Sequence[Mapping[str, Any]],
        memory: float = MEMORY,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.comparisons = nn.ModuleList(Comparison(schema, graph, columns, one) for one in do)
        self.memory = memory
        self.register_buffer("sums", torch.zeros(len(do) * outputs, 5), persistent=False)

    def forward(self, logits: Tensor, a: Tensor) -> Tensor:
        """The gaps of all interventions, (interventions,), or of each and every class of several; 0 while a side has had no
        image."""
        # a running sum needs more digits than half precision has
        precision = torch.promote_types(self.sums.dtype, torch.float32)
        p, a = (logits.sigmoid()[:, None] if logits.ndim == 1 else logits.softmax(dim=1)).to(precision), a.to(precision)
        compared = [comparison(a) for comparison in self.comparisons]
        here = torch.stack([batch_sums(p[:, k], *weights) for weights in compared for k in range(p.shape[1])])
        everywhere, processes = here.detach().clone(), 1
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(everywhere)
            processes = dist.get_world_size()
        # gradients are averaged over processes, sums are not
        mixed = self.memory * self.sums + everywhere + processes * (here - here.detach())
        self.sums = mixed.detach()
        of_having, weights, of_changed, changed, batches = mixed.unbind(dim=1)
        known = (weights > 0) & (changed > 0)
        gap = of_having / weights.where(known, 1.0) - of_changed / changed.where(known, 1.0)
        gap = gap.where(known, 0.0)
        # a batch has a share of the sums, and so of their gradient, which is made up for
        return gap.detach() + batches.detach() / processes * (gap - gap.detach())


def batch_sums(p: Tensor, weights: Tensor, changed: Tensor) -> Tensor:
    """Of a batch: the sums of weighted answers and weights, of the changed images' answers and of them, and 1 batch."""
    # no matrix products: in mixed precision they would be in half
    return torch.stack([(weights * p).sum(), weights.sum(), (changed * p).sum(), changed.sum(), torch.ones_like(p[0])])
