"""Digits drawn from lines, for tests that need no data."""

from itertools import pairwise

import numpy as np
import pytest
from skimage import draw, filters, morphology


def strokes(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Images of a few connected lines, thin to thick, faint to bright, sharp to soft, some touching the edge."""
    rng = np.random.default_rng(seed)
    images = np.zeros((count, height, width), np.uint8)
    for image in images:
        ink = np.zeros((height, width), bool)
        margin = rng.integers(0, 5)
        points = rng.integers(margin, [height - margin, width - margin], (rng.integers(2, 6), 2))
        for start, end in pairwise(points):
            ink[draw.line(*start, *end)] = True
        ink = morphology.dilation(ink, morphology.disk(int(rng.integers(0, 3))))
        soft = filters.gaussian(ink.astype(float), rng.uniform(0.3, 0.9))
        image[:] = np.clip(soft * rng.uniform(60, 400), 0, 255)
    return images


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    return strokes(120, 28, 28)


@pytest.fixture(scope="session", params=[(28, 28), (20, 33), (64, 48)], ids=lambda size: "x".join(map(str, size)))
def sized(request: pytest.FixtureRequest) -> np.ndarray:
    """Images of the size of MNIST's and of others."""
    return strokes(24, *request.param, seed=1)
