"""`measure` beside the public tool's method, its published values, and the laws that measures obey."""

import gzip
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from skimage import morphology, transform

from cfgen.morpho import MEASURES, measure, measuring

EXACT = ("intensity", "slant", "area", "width", "height")


def morpho_mnist(image: np.ndarray, seed: int) -> dict[str, float]:
    """One image the way of Morpho-MNIST and DeepSCM, in plain scikit-image, ties broken by `seed`."""

    def ink(grey: np.ndarray) -> np.ndarray:
        return grey >= int(grey.min()) + (int(grey.max()) - int(grey.min())) / 2

    hires = (255.0 * transform.pyramid_expand(image, upscale=4, order=3)).astype(np.uint8)
    skeleton, distance = morphology.medial_axis(ink(hires), return_distance=True, rng=seed)
    right, below = skeleton[:, :-1] & skeleton[:, 1:], skeleton[:-1] & skeleton[1:]
    diagonal = (skeleton[:-1, :-1] & skeleton[1:, 1:]).sum() + (skeleton[:-1, 1:] & skeleton[1:, :-1]).sum()

    mass = hires / hires.sum()
    y, x = np.mgrid[: hires.shape[0], : hires.shape[1]]
    cx, cy = (x * mass).sum(), (y * mass).sum()
    shear = ((x - cx) * (y - cy) * mass).sum() / ((y - cy) ** 2 * mass).sum()
    lines, rows = np.arange(hires.shape[1]), np.arange(hires.shape[0])
    left_of = [mass[x + 0.5 < line + shear * (y - cy)].sum() for line in lines]
    above = [mass[y < row].sum() for row in rows]
    return {
        "thickness": 2 * distance[skeleton].mean() / 4,
        "intensity": float(np.median(image[ink(image)])),
        "slant": np.arctan(-shear),
        "area": ink(hires).sum() / 16,
        "length": (right.sum() + below.sum() + np.sqrt(2) * diagonal) / 4,
        "width": np.diff(np.interp([0.01, 0.99], left_of, lines))[0] / 4,
        "height": np.diff(np.interp([0.01, 0.99], above, rows))[0] / 4,
    }


def test_agrees_with_scikit_image(sized):
    images = sized[:14]
    got = measure(images)
    calls = [[morpho_mnist(image, seed) for seed in range(3)] for image in images]
    for name in EXACT:
        expected = [call[0][name] for call in calls]
        np.testing.assert_allclose(got[name], expected, rtol=1e-9, atol=1e-9, err_msg=name)
    for name, typical, largest in (("thickness", 0.005, 0.05), ("length", 0.5, 1.5)):
        error = got[name] - np.mean([[call[name] for call in image] for image in calls], axis=1)
        assert np.median(np.abs(error)) < typical, name
        assert np.abs(error).max() < largest, name


@pytest.mark.parametrize(
    ("reference", "images"),
    [
        ("morphometry_reference_mnist_t10k.csv", "mnist/MNIST/raw/t10k-images-idx3-ubyte"),
        ("morphometry_reference_morphomnist_t10k.csv", "morphomnist_deepscm/t10k-images-idx3-ubyte.gz"),
    ],
)
def test_agrees_with_the_public_tool(real_data: Path, reference: str, images: str):
    expected = np.genfromtxt(real_data / reference, delimiter=",", names=True)
    with (gzip.open if images.endswith("gz") else open)(real_data / images, "rb") as file:
        stack = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    got = measure(stack[: len(expected)])
    for name in EXACT:
        np.testing.assert_allclose(got[name], expected[name], atol=1e-6, err_msg=name)  # the file has six decimals
    thickness, length = (np.abs(got[name] - expected[name]) for name in ("thickness", "length"))
    assert np.median(thickness) <= 0.005
    assert np.quantile(thickness, 0.99) <= 0.05
    assert np.median(length) <= 0.3
    assert np.quantile(length, 0.99) <= 1.5


@pytest.mark.parametrize("names", [("thickness",), ("area",), ("slant",), ("width", "intensity"), ("length", "slant")])
def test_subset_equals_full(digits, names):
    full, got = measure(digits), measure(digits, names)
    assert list(got) == list(names)
    for name in names:
        np.testing.assert_array_equal(got[name], full[name])


def test_only_what_is_asked_for_is_computed(digits, monkeypatch):
    monkeypatch.setattr(measuring, "measure_strokes", None)
    assert np.isfinite(measure(digits, ["slant", "width", "intensity"])["slant"]).all()
    monkeypatch.setattr(measuring, "expand", None)
    assert np.isfinite(measure(digits, ["intensity"])["intensity"]).all()


def test_threads_do_not_change_results(digits, monkeypatch):
    many = np.concatenate([digits] * 3)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)
    one = measure(many)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 3)
    for name, values in measure(many).items():
        np.testing.assert_array_equal(values, one[name])


def test_float_tensor_and_strided_images_agree_with_bytes(digits):
    expected = measure(digits)
    levels = digits / 255
    for same in (levels, levels.astype(np.float32), torch.tensor(levels), np.asfortranarray(digits)):
        for name, values in measure(same).items():
            np.testing.assert_array_equal(values, expected[name])
    np.testing.assert_array_equal(measure(digits[::-3])["width"], expected["width"][::-3])


def test_moving_a_digit_changes_nothing(digits):
    framed = np.pad(digits, ((0, 0), (12, 12), (12, 12)))
    moved = np.roll(framed, (5, -4), axis=(1, 2))
    for name, values in measure(framed).items():
        np.testing.assert_allclose(measure(moved)[name], values, atol=1e-6, err_msg=name)


def test_twice_the_size_is_twice_the_thickness():
    bar = np.zeros((1, 40, 40), np.uint8)
    bar[:, 8:32, 16:22] = 255
    small, large = measure(bar), measure(bar.repeat(2, axis=1).repeat(2, axis=2))
    assert small["thickness"] == pytest.approx(6, abs=1)
    for name, factor in (("thickness", 2), ("width", 2), ("height", 2), ("area", 4), ("intensity", 1)):
        assert large[name] / small[name] == pytest.approx(factor, rel=0.1), name


def test_slant_is_positive_to_the_right():
    image = np.zeros((2, 28, 28), np.uint8)
    for y in range(5, 23):
        image[0, y, 26 - y : 28 - y] = image[1, y, y : y + 2] = 200
    slant = measure(image, "slant")["slant"]
    np.testing.assert_allclose(slant, [np.pi / 4, -np.pi / 4], atol=0.02)


def test_half_as_bright_is_as_thick(digits):
    bright = np.where(digits > 100, digits, 0)[digits.max((1, 2)) > 200]
    full, half = measure(bright), measure(bright // 2)
    np.testing.assert_allclose(half["intensity"], full["intensity"] / 2, atol=1)
    assert np.median(np.abs(half["thickness"] - full["thickness"])) < 0.05


@pytest.mark.parametrize("level", [0, 1, 128, 255])
def test_constant_images_have_no_measures(level):
    for name, values in measure(np.full((3, 28, 28), level, np.uint8)).items():
        assert values.shape == (3,)
        assert np.isnan(values).all(), name


@pytest.mark.parametrize("shape", [(0, 28, 28), (0, 0, 0), (2, 0, 5)])
def test_no_images(shape):
    for values in measure(np.empty(shape, np.uint8)).values():
        assert values.shape == (shape[0],)
        assert values.dtype == np.float64


@given(
    arrays(np.uint8, array_shapes(min_dims=3, max_dims=3, max_side=9), elements=st.sampled_from([0, 1, 9, 254, 255]))
)
def test_any_image_is_measured_or_nan(images):
    values = measure(images)
    assert list(values) == list(MEASURES)
    flat = np.ptp(images, axis=(1, 2)) == 0
    np.testing.assert_array_equal(np.isnan(values["intensity"]), flat)
    for name in MEASURES:
        assert not np.isinf(values[name]).any()
        assert np.isnan(values[name][flat]).all()
    assert not (values["thickness"] <= 0).any()


def test_progress_counts_every_image(digits):
    done: list[int] = []
    measure(np.concatenate([digits] * 2), ["area"], progress=done.append)
    assert sum(done) == 2 * len(digits)
    assert len(done) > 1


def test_wrong_input_is_refused(digits):
    with pytest.raises(ValueError, match=r"unknown measure 'thicknes'; valid are thickness, intensity, slant"):
        measure(digits, ["thicknes"])
    with pytest.raises(ValueError, match=r"stack \(N, H, W\), got shape \(28, 28\)"):
        measure(digits[0])
    with pytest.raises(ValueError, match="uint8 in 0..255 or float"):
        measure(digits.astype(np.int64))
    with pytest.raises(ValueError, match=r"lie in \[0, 1\], got 0 to 255"):
        measure(np.where(digits == digits.max(), 255.0, 0.0))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinite"):
            measure(np.full((1, 5, 5), bad))
    with pytest.raises(ValueError, match="sides of up to 2048"):
        measure(np.zeros((0, 4096, 1), np.uint8))
