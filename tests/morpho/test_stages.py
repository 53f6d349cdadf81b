"""Each stage beside scikit-image, or beside what scikit-image was when the published set was made."""

import numpy as np
import pytest
from scipy import ndimage
from skimage import morphology, transform

from cfgen.morpho.dilation import footprint, set_radius
from cfgen.morpho.resample import expand, reduce_binary
from cfgen.morpho.skeleton import measure_strokes


class LegacyOrder(np.random.Generator):
    """Breaks ties as scikit-image did before 0.19."""

    def permutation(self, x, axis=0):
        return np.random.RandomState(0).permutation(x)


def cubic(image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """`skimage.transform.resize(order=3)` before 0.19: cubic convolution, clipped to the input's range."""
    resized = image.astype(float)
    for size in shape[::-1]:  # columns first
        resized = resized.T
        at = (np.arange(size) + 0.5) * len(resized) / size - 0.5
        base = np.floor(at).astype(int)
        t = (at - base)[:, None]
        mirrored = np.pad(resized, ((3, 3), (0, 0)), mode="reflect")
        f0, f1, f2, f3 = (mirrored[base + 2 + k] for k in range(4))
        resized = f1 + 0.5 * t * (f2 - f0 + t * (2 * f0 - 5 * f1 + 4 * f2 - f3 + t * (3 * (f1 - f2) + f3 - f0)))
    return np.clip(resized, image.min(), image.max())


def blurred_disk(radius: int) -> np.ndarray:
    """DeepSCM's footprint: where a disk reduced sixteenfold is not zero."""
    if radius == 0:
        return np.ones((1, 1), bool)
    return transform.pyramid_reduce(morphology.disk(16 * radius).astype(float), downscale=16, order=1) != 0


def test_expanding_is_pyramid_expand(sized):
    reference = [(255.0 * transform.pyramid_expand(image, upscale=4, order=3)).astype(np.uint8) for image in sized]
    different = expand(sized, 4, "spline") != np.stack(reference)
    assert different.mean() < 1e-5


def test_expanding_is_exact_on_plateaus():
    """Where rounding decides between 254 and 255, and with it the threshold of the whole image."""
    rng = np.random.default_rng(0)
    images = np.zeros((30, 28, 28), np.uint8)
    for image in images:
        y, x = rng.integers(2, 10, 2)
        image[y : y + rng.integers(3, 15), x : x + rng.integers(3, 15)] = rng.choice([255, 253, 200, 17])
    reference = [(255.0 * transform.pyramid_expand(image, upscale=4, order=3)).astype(np.uint8) for image in images]
    np.testing.assert_array_equal(expand(images, 4, "spline"), np.stack(reference))


def test_expanding_by_convolution_is_the_old_pyramid_expand(sized):
    images = sized[:6]
    big = (16 * images.shape[1], 16 * images.shape[2])
    reference = [ndimage.gaussian_filter(cubic(image * (1 / 255), big), 2 * 16 / 6) for image in images]
    different = expand(images, 16, "convolution") != (255.0 * np.stack(reference)).astype(np.uint8)
    assert different.mean() < 1e-5


def test_reducing_is_the_old_pyramid_reduce(sized):
    binary = (expand(sized[:6], 16, "convolution") >= 60).astype(np.uint8)
    shape = sized.shape[1:]
    reference = [cubic(ndimage.gaussian_filter(np.float32(image), 2 * 16 / 6), shape) for image in binary]
    difference = reduce_binary(binary, 16).astype(int) - (255.0 * np.stack(reference)).astype(np.uint8)
    assert np.abs(difference).max() <= 2
    assert (difference != 0).mean() < 1e-2


@pytest.mark.parametrize("radius", [0, 1, 2, 7, 8, 13, 19, 30])
def test_footprint_is_what_is_left_of_a_blurred_disk(radius):
    rows = footprint(radius)[np.abs(np.arange(-radius, radius + 1))]
    inside = np.abs(np.arange(-radius, radius + 1))[None, :] <= rows[:, None]
    np.testing.assert_array_equal(inside, blurred_disk(radius))


def test_growing_and_shrinking_are_dilation_and_erosion(digits):
    hires = expand(digits[:6], 4, "spline")
    radius = np.array([0, 1, -1, 4, -2, 9])
    for image, by, got in zip(hires, radius, set_radius(hires, radius), strict=True):
        middle = int(image.min()) + (int(image.max()) - int(image.min())) / 2
        operation = morphology.dilation if by >= 0 else morphology.erosion
        np.testing.assert_array_equal(got, operation((image >= middle).astype(np.uint8), blurred_disk(abs(by))))


def test_strokes_are_those_of_the_medial_axis(sized):
    """To the last digit, if scikit-image breaks ties in the same order."""
    hires = expand(sized, 4, "spline")
    area, thickness, length = measure_strokes(hires, 4, orders=1)
    for k, image in enumerate(hires):
        binary = image >= image.min() + (image.max() - image.min()) * 0.5
        skeleton, distance = morphology.medial_axis(binary, return_distance=True, rng=LegacyOrder(np.random.PCG64()))
        ways = [[0, 0, 0], [0, 0, 1], [np.sqrt(2), 1, np.sqrt(2)]]
        steps = ndimage.correlate(skeleton.astype(float), np.array(ways), mode="constant")
        assert area[k] == binary.sum() / 16
        assert thickness[k] == pytest.approx(2 * distance[skeleton].mean() / 4, rel=1e-12)
        assert length[k] == pytest.approx(steps[skeleton].sum() / 4, rel=1e-12)
