"""The losses of the paper as pure functions; D's scores are logits throughout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from cfgen.attributes import Categorical, Continuous, Schema

__all__ = [
    "ali_d",
    "ali_eg",
    "attribute_errors",
    "attributes",
    "beyond",
    "distance",
    "kl_to_standard",
    "log_likelihood",
    "r1",
]


def ali_d(real: Tensor, fake: Tensor) -> Tensor:
    """Eq. 2 for D, to minimise: -E[log D(x, E(x,a), a)] - E[log(1 - D(G(z,a), z, a))].

    `real` are the logits of (x, E(x,a), a) and `fake` those of (G(z,a), z, a).

    >>> ali_d(torch.zeros(4), torch.zeros(4))  # log 4: D has no idea
    tensor(1.3863)
    """
    return F.softplus(-real).mean() + F.softplus(fake).mean()  # -log sigmoid(s) = softplus(-s)


def ali_eg(real: Tensor, fake: Tensor) -> Tensor:
    """Eq. 2 for E and G, non-saturating, to minimise: -E[log(1 - D(x, E(x,a), a))] - E[log D(G(z,a), z, a)].

    Eq. 2 as written asks for the minimum of E[log D(real)] + E[log(1 - D(fake))], whose gradient vanishes where D is
    sure.  Swapping the two labels has the same fixed point and, as in ALI, keeps the gradient there.
    """
    return F.softplus(real).mean() + F.softplus(-fake).mean()


def r1(scores: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """R1 penalty (Mescheder et al., 2018): 1/2 E[|grad D(x, z, a)|^2] over the `inputs` that gave the `scores`."""
    gradients = torch.autograd.grad(scores.sum(), list(inputs), create_graph=True)
    return 0.5 * sum((g.square().flatten(1).sum(dim=1) for g in gradients), torch.zeros_like(scores)).mean()


def attributes(predicted: Tensor, a: Tensor, schema: Schema) -> Tensor:
    """How far a predictor's reading of images is from the attributes a, summed over attributes, averaged over images."""
    return attribute_errors(predicted, a, schema).sum(dim=1).mean()


def attribute_errors(predicted: Tensor, a: Tensor, schema: Schema) -> Tensor:
    """How far a predictor's reading is from the attributes a, (N, attributes).

    |p - a| for a continuous attribute (in scaled units), cross-entropy of the logits p for a binary or categorical one.
    """
    errors = []
    for name, attribute in schema.attributes.items():
        p, target = predicted[:, schema.slices[name]], a[:, schema.slices[name]]
        if isinstance(attribute, Continuous):
            errors.append((p - target).abs().flatten())
        elif isinstance(attribute, Categorical):
            errors.append(F.cross_entropy(p, target, reduction="none"))
        else:
            errors.append(F.binary_cross_entropy_with_logits(p, target, reduction="none").flatten())
    return torch.stack(errors, dim=1)


def distance(one: Tensor, other: Tensor, power: float) -> Tensor:
    """L_x and L_z of the cyclic cost: the mean of |one - other|^power; 2 gives the mean squared error, 1 the absolute one.

    >>> distance(torch.zeros(2), torch.tensor([1.0, 3.0]), power=2)
    tensor(5.)
    """
    return (one - other).abs().pow(power).mean()


def beyond(x: Tensor, mean: Tensor) -> Tensor:
    """mean - x for pixels in [0, 1], and 0 where the mean is darker than black or brighter than white as x is.

    An image is cut to [0, 1] after it is drawn, so what lies beyond is no error.

    >>> beyond(torch.tensor([0.0, 0.0, 1.0, 0.5]), torch.tensor([-0.2, 0.2, 1.3, 1.3]))
    tensor([0.0000, 0.2000, 0.0000, 0.8000])
    """
    return torch.where(x <= 0, mean.relu(), torch.where(x >= 1, mean.clamp(max=1) - 1, mean - x))


def log_likelihood(x: Tensor, mean: Tensor, log_scale: Tensor) -> Tensor:
    """log N(x; mean, scale^2) in nats, summed over all entries of each image: (N,).

    >>> log_likelihood(torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2))  # 2 log(1 / sqrt(2 pi))
    tensor([-1.8379])
    """
    z = (x - mean) * (-log_scale).exp()
    return -(0.5 * z.square() + log_scale + 0.5 * math.log(2 * math.pi)).flatten(1).sum(dim=1)


def kl_to_standard(mean: Tensor, log_scale: Tensor) -> Tensor:
    """KL(N(mean, scale^2) | N(0, 1)) in nats, summed over all entries of each row: (N,).

    >>> kl_to_standard(torch.tensor([[0.0], [1.0]]), torch.zeros(2, 1))
    tensor([0.0000, 0.5000])
    """
    return (0.5 * (mean.square() + (2 * log_scale).exp() - 1) - log_scale).flatten(1).sum(dim=1)
