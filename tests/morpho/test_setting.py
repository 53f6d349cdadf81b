"""Setting an attribute makes it measure so; nothing else is touched; the published set comes out as published."""

import gzip
from pathlib import Path

import numba
import numpy as np
import pytest

from cfgen.morpho import measure, set_intensity, set_slant, set_thickness

SETTERS = {"thickness": set_thickness, "intensity": set_intensity, "slant": set_slant}


def test_published_images_are_rebuilt(real_data: Path):
    folder = real_data / "morphomnist_deepscm"
    labels = np.genfromtxt(folder / "t10k-morpho.csv", delimiter=",", names=True)[:100]
    published = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    source = (real_data / "mnist/MNIST/raw/t10k-images-idx3-ubyte").read_bytes()
    published, source = (
        np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)[:100] for raw in (published, source)
    )
    rebuilt = set_intensity(set_thickness(source, labels["thickness"]), labels["intensity"])
    difference = np.abs(rebuilt.astype(int) - published).mean(axis=(1, 2))
    assert difference.mean() < 0.05
    assert difference.max() < 0.5


@pytest.mark.parametrize("target", [2.0, 3.0, 4.5])
def test_set_thickness_is_measured(digits, target):
    error = measure(set_thickness(digits, target), ["thickness"])["thickness"] - target
    assert np.nanmedian(np.abs(error)) < 0.3


@pytest.mark.parametrize("target", [64.0, 145.3])
def test_set_intensity_is_measured(digits, target):
    sharp = np.where(digits > digits.max((1, 2), keepdims=True) / 2, digits, 0)  # no faint rim that crosses half-way
    error = measure(set_intensity(sharp, target), ["intensity"])["intensity"] - target
    assert np.abs(error).max() <= 1


@pytest.mark.parametrize("target", [-0.4, 0.0, 0.3])
def test_set_slant_is_measured(digits, target):
    framed = np.pad(digits, ((0, 0), (10, 10), (20, 20)))  # nothing leaves the frame
    before = measure(framed, ["slant", "height"])
    upright = (np.abs(before["slant"]) < 0.8) & (before["height"] > 6)
    error = measure(set_slant(framed[upright], target), ["slant"])["slant"] - target
    assert np.abs(error).max() < 0.01


def test_setting_what_is_there_changes_nothing(digits):
    values = measure(digits, ["intensity", "slant"])
    np.testing.assert_array_equal(set_intensity(digits, values["intensity"]), digits)
    np.testing.assert_array_equal(set_slant(digits, values["slant"]), digits)


def test_thickness_that_is_there_keeps_the_shape(digits):
    thick = digits[measure(digits, ["thickness"])["thickness"] > 2]
    before = measure(thick)
    after = measure(set_thickness(thick, before["thickness"]))
    for name, tolerance in (("thickness", 0.1), ("slant", 0.02), ("width", 1), ("height", 1)):
        assert np.median(np.abs(after[name] - before[name])) < tolerance, name


def test_intensity_leaves_the_shape(digits):
    bright = digits[measure(digits, ["intensity"])["intensity"] > 150]
    before, after = measure(bright), measure(set_intensity(bright, 120))
    assert np.median(np.abs(after["thickness"] - before["thickness"])) < 0.1
    assert np.median(np.abs(after["slant"] - before["slant"])) < 0.01


@pytest.mark.parametrize("name", SETTERS)
def test_one_target_or_one_each(digits, name):
    some = digits[:12]
    target = {"thickness": 3.0, "intensity": 100.0, "slant": 0.2}[name]
    together = SETTERS[name](some, target)
    assert together.dtype == np.uint8
    np.testing.assert_array_equal(together, SETTERS[name](some, np.full(12, target)))
    np.testing.assert_array_equal(together[7:8], SETTERS[name](some[7:8], target))


@pytest.mark.parametrize("name", SETTERS)
def test_threads_and_memory_layout_do_not_matter(digits, name, monkeypatch):
    many = np.concatenate([digits[:12]] * (2 if name == "thickness" else 12))
    kept = many.copy()
    targets = np.linspace(0.3, 1.2, len(many))
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)
    one = SETTERS[name](many, targets)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 3)
    many.flags.writeable = False
    np.testing.assert_array_equal(SETTERS[name](np.asfortranarray(many), targets), one)
    np.testing.assert_array_equal(many, kept)


@pytest.mark.parametrize("name", SETTERS)
def test_images_without_contrast_are_left_alone(name):
    flat = np.stack([np.full((28, 28), level, np.uint8) for level in (0, 90, 255)])
    np.testing.assert_array_equal(SETTERS[name](flat, 1.0), flat)
    for shape in ((0, 28, 28), (2, 0, 3)):
        assert SETTERS[name](np.empty(shape, np.uint8), 1.0).shape == shape


def test_targets_out_of_reach(digits):
    some = digits[:6]
    assert set_thickness(some, 0.0).max() < some.max()
    assert (set_thickness(some, 500.0) == 255).all()
    np.testing.assert_array_equal(set_intensity(some, 1000.0), set_intensity(some, 255.0))
    assert set_intensity(some, 0.0).max() == 0
    steep = set_slant(some, 1.5)
    assert (np.abs(measure(steep)["slant"] - 1.5) <= np.abs(measure(some)["slant"] - 1.5)).all()


@pytest.mark.parametrize("name", SETTERS)
def test_progress_counts_every_image(digits, name):
    done: list[int] = []
    SETTERS[name](digits[:30], 1.0, progress=done.append)
    assert sum(done) == 30


@pytest.mark.parametrize("name", SETTERS)
def test_wrong_input_is_refused(digits, name):
    setter = SETTERS[name]
    with pytest.raises(ValueError, match="must be uint8"):
        setter(digits / 255, 1.0)
    with pytest.raises(ValueError, match=r"stack \(N, H, W\)"):
        setter(digits[0], 1.0)
    with pytest.raises(ValueError, match=f"{name} must be one number or one for each of 120 images"):
        setter(digits, np.ones(3))
    for bad in (np.nan, np.inf, -9.0):
        with pytest.raises(ValueError, match=f"{name} must be finite and lie in"):
            setter(digits, bad)
