"""The gap between a classifier's answers to exposed and to target images, weighted by inverse propensities: a penalty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cfgen.attributes import Schema
from cfgen.effects import Sample
from cfgen.effects.nuisance import logistic
from cfgen.effects.real_images import CLIP, OVERLAP
from cfgen.interventions import Set

__all__ = ["PropensityWeights", "WeightedGap"]

MEMORY = 0.9  # how much of the sums stays from one batch to the next: a gap is that of about ten batches


class PropensityWeights(nn.Module):
    """The weights of one intervention's exposed images, and its target images, in any batch.

    The weights (1 - e) / e make the exposed images like the target images in W, all attributes that the intervention does not
    cause.  The propensity e(W) = P(exposed | W) is fitted once, on the attributes of the training images.

    Adjustment set, exposure and overlap rule are those of `estimate_effect`: where it restricts the training images to overlap,
    images whose propensity is below `OVERLAP` times its mean have weight 0 and are no target images.
    """

    centre: Tensor
    scale: Tensor
    coefficients: Tensor

    def __init__(self, sample: Sample, intervention: Set) -> None:
        super().__init__()
        schema, comparison = sample.schema, sample.comparison(intervention)
        exposure, compared = intervention.exposure(sample.columns), comparison.real.exposure
        # the model vector's entries of W, those of continuous attributes squared too
        entries = range(schema.size)
        self.linear = [k for name in comparison.adjusted_for for k in entries[schema.slices[name]]]
        self.squared = [schema.slices[name].start for name in comparison.adjusted_for if name in schema.continuous]
        self.regions = [
            exposed_region(schema, name, value, exposure.window) for name, value in intervention.values.items()
        ]
        restricted = int(compared.target.sum()) < comparison.n_target
        self.least = OVERLAP * float(exposure.exposed.mean()) if restricted else 0.0
        self.exact, self.share = exposure.exact, float(compared.exposed.mean())
        a = schema.encode(sample.columns)
        spread, centre = torch.std_mean(self.covariates(a), dim=0)
        self.register_buffer("centre", centre, persistent=False)
        self.register_buffer("scale", spread.where(spread > 0, 1.0), persistent=False)
        coefficients = logistic(self.design(a).double().numpy(), exposure.exposed.astype(float))
        self.register_buffer("coefficients", torch.from_numpy(coefficients).to(a.dtype), persistent=False)

    def covariates(self, a: Tensor) -> Tensor:
        return torch.cat([a[:, self.linear], a[:, self.squared].square()], dim=1)

    def design(self, a: Tensor) -> Tensor:
        """Standardised covariates after a column of ones."""
        standard = (self.covariates(a) - self.centre.to(a)) / self.scale.to(a)
        return torch.cat([torch.ones_like(a[:, :1]), standard], dim=1)

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """For images with attributes a: the weights of the exposed images, 0 elsewhere; and 1 for target images, 0 elsewhere."""
        exposed, target = torch.ones_like(a[:, 0], dtype=torch.bool), torch.zeros_like(a[:, 0], dtype=torch.bool)
        for where, values, window in self.regions:
            distance = (a[:, where] - a.new_tensor(values)).abs().amax(dim=1)
            exposed &= distance <= window
            target |= distance > 0
        e = (self.design(a) * self.coefficients.to(a)).sum(dim=1).sigmoid()
        overlap = e >= self.least
        e = e.clamp(CLIP * self.share, 1 - CLIP * (1 - self.share))
        weights = (1 - e) / e if self.exact else 1 / e
        return weights * (exposed & overlap), (target & overlap).to(a.dtype)


def exposed_region(
    schema: Schema, name: str, value: float, window: Mapping[str, float]
) -> tuple[slice, list[float], float]:
    """Where images are exposed to a value, in the model vector: the attribute's slice, the value there, and the half width."""
    values = schema.encode_one(name, schema.low.new_tensor([value]))[0].tolist()
    if name not in window:
        return schema.slices[name], values, 0.0
    low, high = schema.bounds(name)
    return schema.slices[name], values, window[name] / (high - low)


class WeightedGap(nn.Module):
    """The penalty: the square of each intervention's gap, summed.

    A gap is the weighted mean of p(yes | x) over the exposed images, minus its mean over the target images: the bias (Eq. 5),
    estimated from real images alone.  A batch has few images with several attributes at once, and the square of a noisy gap is
    mostly noise, which would teach the classifier to answer all images alike.  So the sums behind both means run on from batch to
    batch (`MEMORY`): the gap's value is that of the last batches, and its gradient is the gradient of the present batch alone, at
    full strength.

    The running sums, (interventions, 5), belong to a checkpoint of training: `sums`.  A classifier of several classes has as many
    `outputs`, and each intervention a gap for each of them.
    """

    sums: Tensor

    def __init__(self, sample: Sample, interventions: Sequence[Set], memory: float = MEMORY, outputs: int = 1) -> None:
        super().__init__()
        self.propensity_weights = nn.ModuleList(PropensityWeights(sample, one) for one in interventions)
        self.memory = memory
        self.register_buffer("sums", torch.zeros(len(interventions) * outputs, 5), persistent=False)

    def forward(self, logits: Tensor, a: Tensor) -> Tensor:
        """The gaps of all interventions, (interventions,), or of each class of several; 0 while one side has had no image."""
        # a running sum needs more digits than half precision has
        precision = torch.promote_types(self.sums.dtype, torch.float32)
        p, a = (logits.sigmoid()[:, None] if logits.ndim == 1 else logits.softmax(dim=1)).to(precision), a.to(precision)
        compared = [weights(a) for weights in self.propensity_weights]
        here = torch.stack([batch_sums(p[:, k], *pair) for pair in compared for k in range(p.shape[1])])
        everywhere, processes = here.detach().clone(), 1
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(everywhere)
            processes = dist.get_world_size()
        # gradients are averaged over processes, sums are not
        mixed = self.memory * self.sums + everywhere + processes * (here - here.detach())
        self.sums = mixed.detach()
        of_exposed, weights, of_target, targets, batches = mixed.unbind(dim=1)
        known = (weights > 0) & (targets > 0)
        gap = of_exposed / weights.where(known, 1.0) - of_target / targets.where(known, 1.0)
        gap = gap.where(known, 0.0)
        # a batch has a share of the sums, and so of their gradient, which is made up for
        return gap.detach() + batches.detach() / processes * (gap - gap.detach())


def batch_sums(p: Tensor, weights: Tensor, target: Tensor) -> Tensor:
    """The sums over a batch: weighted answers, weights, answers to target images, target images, and 1 for the batch."""
    # no matrix products: in mixed precision they would be in half
    return torch.stack([(weights * p).sum(), weights.sum(), (target * p).sum(), target.sum(), torch.ones_like(p[0])])
