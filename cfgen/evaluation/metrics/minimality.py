"""Minimality: the counterfactual latent divergence of Sanchez & Tsaftaris (2022)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Columns, Continuous, Schema
from cfgen.counterfactual import as_unit_float
from cfgen.evaluation.metrics.asked import asked_values, asked_vectors
from cfgen.evaluation.metrics.batches import batches
from lightning_modules import ImageMechanismModule

__all__ = ["LatentModel", "latent_divergence", "minimality", "same_value_codes"]

COMPONENTS = 32
TRAINING_IMAGES = 2000  # that the latent model is fitted on, at most
REFERENCES = 1000  # real images that distances are compared with, at most


class LatentModel:
    """x = W z + mu + noise with z ~ N(0, 1): probabilistic PCA (Tipping & Bishop, 1999), a linear VAE in closed form.

    The published metric trains a VAE for its distances.  A linear one has its maximum of likelihood in closed form, so it
    needs no training and is the same for every model compared.  With the leading eigenvalues l_i and eigenvectors u_i of
    the images' covariance, and s2 the mean of the remaining eigenvalues,

        q(z_i | x) = N( sqrt(l_i - s2) / l_i * u_i (x - mu),  s2 / l_i ).

    All posteriors share their covariance, so the KL divergence of two is half the squared distance of their means, each
    coordinate divided by its standard deviation: `whitened` gives those coordinates.
    """

    def __init__(self, images: Tensor, components: int = COMPONENTS) -> None:
        x = as_unit_float(images).flatten(1)
        self.mean = x.mean(dim=0)
        x = x - self.mean
        # the eigenvalues of x x^T / n are those of the covariance x^T x / n, and there are fewer images than pixels
        eigenvalues, vectors = torch.linalg.eigh((x @ x.T / len(x)).double())
        kept = slice(-min(components, len(x) - 1), None)
        largest, vectors = eigenvalues[kept], vectors[:, kept]
        remaining = (eigenvalues.sum() - largest.sum()) / (x.shape[1] - len(largest))
        self.noise = remaining.clamp(min=1e-9)  # of images that so few components explain wholly
        self.eigenvalues = torch.maximum(largest, self.noise)
        self.directions = torch.nn.functional.normalize((x.T @ vectors.float()).double(), dim=0)

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, (N, components), and variance, (components,), of q(z | x) for images in [0, 1]."""
        projected = (as_unit_float(x.cpu()).flatten(1) - self.mean).double() @ self.directions
        means = projected * (self.eigenvalues - self.noise).sqrt() / self.eigenvalues
        return means, self.noise / self.eigenvalues

    def whitened(self, x: Tensor) -> Tensor:
        """Coordinates in which KL(q(z|x) | q(z|x')) is half the squared distance."""
        means, variance = self.posterior(x)
        return means / variance.sqrt()


def latent_divergence(divergence: Tensor, to_references: Tensor, asked: Tensor, own: Tensor) -> Tensor:
    """CLD = log( exp P(S_cf <= div) + exp P(S_f >= div) ), one for each image, from log 2 (best) to 1 + log 2.

    `divergence` (N,) is div = D(x, x_c); `to_references` (N, R) is D(x, x') of real images x'.  S_cf are those whose x' has
    the value asked for (`asked`, a mask), S_f those whose x' has x's own (`own`): a good x_c is nearer to x than real images
    that look as asked, and farther than those that look as x does.  An image left as it is scores log(1 + e) = 1.313, as does
    any change that is small beside what tells images apart.  NaN where a set is empty.
    """
    nearer = share(to_references <= divergence[:, None], asked)
    farther = share(to_references >= divergence[:, None], own)
    return (nearer.exp() + farther.exp()).log()


def share(which: Tensor, among: Tensor) -> Tensor:
    return (which & among).sum(dim=1) / among.sum(dim=1)


def same_value_codes(schema: Schema, training: Columns, name: str, column: Tensor) -> Tensor:
    """Numbers that are equal where values count as the same: of a continuous attribute, the tenth of the training split."""
    if not isinstance(schema[name], Continuous):
        return column.cpu().long()
    tenths = torch.quantile(training[name].cpu().double(), torch.linspace(0.1, 0.9, 9, dtype=torch.double))
    return torch.bucketize(column.cpu().double(), tenths)


@torch.inference_mode()
def minimality(
    mechanism: ImageMechanismModule, data: Any, split: str, x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image and attribute k, `minimality_cld/do(k)`: CLD of x_c under do(k = the value asked); lower is better.

    D is the KL divergence of a `LatentModel` fitted on training images, S_cf and S_f are of the split's first 1,000 images,
    x itself left out.  An image that is asked for a value that counts as its own does not count.
    """
    scm = mechanism.scm
    schema = scm.schema
    images_to_fit = data.images("train")
    chosen = torch.randperm(len(images_to_fit), generator=torch.Generator().manual_seed(0))[:TRAINING_IMAGES]
    latent = LatentModel(images_to_fit[chosen.sort().values])
    references = latent.whitened(data.images(split)[:REFERENCES])
    numbers = torch.arange(len(references))

    def codes(k: str, column: Tensor) -> Tensor:
        return same_value_codes(schema, data.columns("train"), k, column)

    held = {k: codes(k, data.columns(split)[k][:REFERENCES]) for k in schema.names}
    own = {k: codes(k, columns[k]) for k in schema.names}
    asked = {k: codes(k, values) for k, values in asked_values(columns, schema, seed).items()}
    vectors = asked_vectors(scm, columns, seed)
    for rows, images, a in batches(schema, x, columns):
        z = mechanism.abduct(images, a)
        here = latent.whitened(images)
        to_references = torch.cdist(here, references).square() / 2
        part = {}
        for k, a_c in vectors.items():
            there = latent.whitened(mechanism.decode(z, a_c[rows]))
            divergence = (there - here).square().sum(dim=1) / 2
            like_asked = held[k] == asked[k][rows, None]
            like_own = (held[k] == own[k][rows, None]) & (numbers != rows[:, None])
            cld = latent_divergence(divergence, to_references, like_asked, like_own)
            part[f"minimality_cld/do({k})"] = cld.where(own[k][rows] != asked[k][rows], torch.nan)
        yield part
