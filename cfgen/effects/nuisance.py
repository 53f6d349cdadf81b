"""Nuisance models of cross-fitting: each image is predicted by a model fitted on others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cfgen.effects.estimate import Array
from cfgen.image_ids import random_order
from cfgen.interventions import Mask

__all__ = ["FOLDS", "folds", "logistic", "predict_logistic", "ridge", "with_intercept"]

FOLDS = 5
PENALTY = 1.0  # on standardised columns: as much as one more image says


def folds(n: int, seed: int, strata: Mask, ids: Sequence[str] | None = None) -> Iterator[tuple[Mask, Mask]]:
    """(train, test) masks of `FOLDS` parts, stratified by exposure (`strata`); an image's part depends on its id and the seed."""
    order = random_order([str(row) for row in range(n)] if ids is None else ids, seed, "folds")
    order = order[np.argsort(strata[order], kind="stable")]
    part = np.empty(n, dtype=np.int64)
    part[order] = np.arange(n) % FOLDS
    for fold in range(FOLDS):
        test = part == fold
        yield ~test, test


def with_intercept(features: Array) -> Array:
    """Standardised columns, those that do not vary left out, after a column of ones."""
    spread = features.std(axis=0)
    varying = spread > 1e-12
    scaled = (features[:, varying] - features[:, varying].mean(axis=0)) / spread[varying]
    return np.concatenate([np.ones((len(features), 1)), scaled], axis=1)


def ridge(design: Array, targets: Array, penalty: float = PENALTY, shrink_intercept: bool = False) -> Array:
    """Coefficients (columns, outputs) of least squares with a penalty on all columns but the first."""
    weights = np.full(design.shape[1], penalty)
    weights[0] = penalty if shrink_intercept else 1e-9
    return np.asarray(np.linalg.solve(design.T @ design + np.diag(weights), design.T @ targets), dtype=np.float64)


def logistic(design: Array, outcome: Array, penalty: float = PENALTY) -> Array:
    """Coefficients of logistic regression by Newton's method, with a penalty on all columns but the first."""
    weights = np.full(design.shape[1], penalty)
    weights[0] = 1e-9
    share = np.clip(outcome.mean(), 1e-6, 1 - 1e-6)
    beta = np.zeros(design.shape[1])
    beta[0] = np.log(share / (1 - share))
    for _ in range(50):
        p = predict_logistic(design, beta)
        curvature = np.maximum(p * (1 - p), 1e-9)
        hessian = design.T @ (design * curvature[:, None]) + np.diag(weights)
        gradient = design.T @ (outcome - p) - weights * beta
        step = np.linalg.solve(hessian, gradient)
        step /= max(1.0, float(np.abs(step).max()) / 2)  # a far step overshoots where classes are separable
        beta = beta + step
        if np.abs(step).max() < 1e-7:
            break
    return beta


def predict_logistic(design: Array, beta: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(design @ beta, -35, 35)))
