"""Minimality: the counterfactual latent divergence of Sanchez & Tsaftaris (2022)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from cfgen.attributes import Columns, Continuous, Schema
from cfgen.counterfactual import Swept, as_unit_float
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Cell, Description, Metric, Values
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import do_name

__all__ = ["LatentModel", "Minimality", "latent_divergence", "same_value_codes"]

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
        from sklearn.decomposition import PCA  # here: importing it takes a second

        x = as_unit_float(images).flatten(1)
        count, pixels = x.shape
        # ARPACK finds the leading directions alone, and to rounding; the default for so many is an approximation
        pca = PCA(min(components, count - 1, pixels - 1), svd_solver="arpack", random_state=0).fit(x.numpy())
        self.mean, self.directions = torch.from_numpy(pca.mean_), torch.from_numpy(pca.components_.T.astype(float))
        # the likelihood's variances are divided by n, not n - 1; its noise is the mean over all directions that remain, where
        # scikit-learn's `noise_variance_` leaves out those in which fewer images than pixels cannot vary
        largest = torch.from_numpy(pca.explained_variance_.astype(float)) * (count - 1) / count
        total = x.var(dim=0, correction=0).double().sum()
        self.noise = ((total - largest.sum()) / (pixels - len(largest))).clamp(min=1e-9)
        self.eigenvalues = torch.maximum(largest, self.noise)

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


class Minimality(Metric):
    """For each image and attribute k, `minimality_cld/do(k)`: CLD of x_c under do(k = the value asked); lower is better.

    D is the KL divergence of a `LatentModel` fitted on training images, S_cf and S_f are of the split's first 1,000 images,
    x itself left out.  An image that is asked for a value that counts as its own does not count.
    """

    name = "minimality"
    title = "Minimality: counterfactual latent divergence, from 0.693; doing nothing scores 1.313"
    unit = ""
    place = 80

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        images = self.data.images("train")
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:TRAINING_IMAGES]
        self.latent = LatentModel(images[chosen.sort().values])
        self.references = self.latent.whitened(self.data.images(subject.split)[:REFERENCES])
        held = self.data.columns(subject.split)
        self.held = self.codes({k: held[k][:REFERENCES] for k in self.schema.names})
        self.own = self.codes(subject.columns)
        self.wanted: Values = {}

    def codes(self, columns: Columns) -> Values:
        training = self.data.columns("train")
        return {k: same_value_codes(self.schema, training, k, columns[k]) for k in self.schema.names}

    def descriptions(self) -> dict[str, Description]:
        return {
            f"minimality_cld/{do_name(k)}": self.describe(
                direction=-1, attribute=k, cell=Cell("Single interventions", k, "minimality")
            )
            for k in self.schema.names
        }

    def start(self, seed: int, asked: Columns) -> None:
        super().start(seed, asked)
        self.wanted = self.codes(asked)

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.schema.names)

    def update(self, batch: Swept) -> Values:
        rows = batch.rows
        here = self.latent.whitened(batch.x)
        to_references = torch.cdist(here, self.references).square() / 2
        others = torch.arange(len(self.references)) != rows[:, None]
        found = {}
        for k in self.schema.names:
            own, wanted = self.own[k][rows, None], self.wanted[k][rows, None]
            there = self.latent.whitened(batch.x_c(do_name(k)))
            divergence = (there - here).square().sum(dim=1) / 2
            like_asked, like_own = self.held[k] == wanted, (self.held[k] == own) & others
            cld = latent_divergence(divergence, to_references, like_asked, like_own)
            found[f"minimality_cld/{do_name(k)}"] = cld.where((own != wanted)[:, 0], torch.nan)
        return found
