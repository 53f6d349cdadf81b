"""Morpho-MNIST: the published causal laws, the splits, the sources and what is said when their files are broken."""

import contextlib
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cfgen.errors import UserError
from cfgen.morpho import measure
from datamodules import MorphoMNIST
from datamodules.morpho_mnist import sample_attributes
from datamodules.sources import cache, digits
from datamodules.sources.idx import read_idx
from tests.processes import Pool

SPLITS = ("train", "val", "test")

WriteIdx = Callable[[Path, np.ndarray], Path]


def ready(**options: Any) -> MorphoMNIST:
    data = MorphoMNIST(**options)
    data.setup()
    return data


def test_intensity_follows_thickness_as_published() -> None:
    """logit((i - 64) / 191) = 2 (t - 2.5) + N(0, 0.5^2), t = 0.5 + Gamma(10, rate 5)."""
    thickness, intensity, slant = sample_attributes(20_000, seed=[0])
    share = (intensity - 64) / 191
    logit = np.log(share / (1 - share))
    slope, intercept = np.polyfit(thickness, logit, 1)
    assert slope == pytest.approx(2, abs=0.03)
    assert intercept == pytest.approx(-5, abs=0.08)
    assert np.std(logit - slope * thickness - intercept) == pytest.approx(0.5, abs=0.01)
    assert thickness.min() > 0.5
    assert (thickness.mean(), thickness.var()) == (pytest.approx(2.5, abs=0.02), pytest.approx(10 / 25, abs=0.02))
    assert abs(np.corrcoef(slant, thickness)[0, 1]) < 0.03
    assert (slant.mean(), slant.std()) == (pytest.approx(0.089, abs=0.01), pytest.approx(0.249, abs=0.01))


def test_fewer_rows_are_the_first_of_more() -> None:
    for few, many in zip(sample_attributes(50, [3, 1]), sample_attributes(80, [3, 1]), strict=True):
        np.testing.assert_array_equal(few, many[:50])


def test_known_before_data_is_read(tmp_path: Path) -> None:
    data = MorphoMNIST(source="published", data_dir=str(tmp_path / "nowhere"))
    assert list(data.scm_spec["attributes"]) == ["thickness", "intensity", "slant", "label"]
    assert data.scm_spec["edges"] == [["thickness", "intensity"]]
    assert data.scm_spec["mechanisms"] == {"intensity": {"kind": "mlp", "low": 64.0, "high": 255.0}}
    assert data.image_shape == (1, 28, 28)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "publishd"}, "Did you mean 'published'.*Valid: embedded, mnist, published"),
        ({"attributes": ["thicknes"]}, "Did you mean 'thickness'"),
        ({"edges": [["thickness", "width"]]}, "'width'"),
        ({"mechanisms": {"tickness": {"kind": "spline"}}}, "Did you mean 'thickness'"),
        ({"source": "published", "independent_slant": True}, "Valid: embedded, mnist"),
        ({"limit": 3}, "limit"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MorphoMNIST(**options)


def test_fewer_attributes() -> None:
    spec = MorphoMNIST(attributes=["intensity", "label"]).scm_spec
    assert list(spec["attributes"]) == ["intensity", "label"]
    assert (spec["edges"], spec["mechanisms"]) == ([], {})


def test_mechanisms_not_named_keep_their_default() -> None:
    spec = MorphoMNIST(mechanisms={"slant": {"kind": "gaussian"}}).scm_spec
    assert {name: how["kind"] for name, how in spec["mechanisms"].items()} == {"intensity": "mlp", "slant": "gaussian"}
    spec = MorphoMNIST(edges=[["label", "slant"]], mechanisms={"slant": {"kind": "mlp"}}).scm_spec
    assert list(spec["mechanisms"]) == ["slant"]


def test_small_set(small: MorphoMNIST) -> None:
    assert [len(small.images(split)) for split in SPLITS] == [240, 30, 30]
    assert small.schema.size == 13
    for split in SPLITS:
        columns = small.columns(split)
        assert all(column.dtype == torch.float32 for column in columns.values())
        torch.testing.assert_close(columns["label"].long(), small.targets(split))
        assert small.targets(split).bincount().tolist() == [len(small.targets(split)) // 10] * 10
    low, high = small.schema.bounds("slant")
    assert (low, high) == (small.train_columns["slant"].min(), small.train_columns["slant"].max())


def test_images_have_the_attributes_they_were_made_for(small: MorphoMNIST) -> None:
    images = torch.cat([small.images(split) for split in SPLITS])[:, 0].numpy()
    label = {
        name: torch.cat([small.columns(s)[name] for s in SPLITS]).numpy()
        for name in ("thickness", "intensity", "slant")
    }
    found = measure(images, list(label))
    assert np.median(np.abs(found["thickness"] - label["thickness"])) <= 0.10
    assert np.median(np.abs(found["intensity"] - label["intensity"])) <= 0.6
    np.testing.assert_allclose(found["slant"], label["slant"], atol=1e-5)


def test_seed(small: MorphoMNIST, tmp_path: Path) -> None:
    """The same seed gives the same set, in another cache too; another seed other attributes of the same digits."""
    again = ready(limit=300, cache_dir=str(tmp_path))
    other = ready(limit=100, seed=1, cache_dir=str(tmp_path))
    assert again.cache_file.name == small.cache_file.name
    for split in SPLITS:
        assert torch.equal(again.images(split), small.images(split))
        assert all(torch.equal(again.columns(split)[name], column) for name, column in small.columns(split).items())
        rows = len(other.targets(split))
        assert torch.equal(other.targets(split), small.targets(split)[:rows])
        assert not torch.isin(other.columns(split)["thickness"], small.columns(split)["thickness"]).any()


def make_digits(cache: str) -> str:
    """In each of two processes: what was said."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        MorphoMNIST(limit=100, cache_dir=cache).prepare_data()
    return said.getvalue()


@pytest.mark.xdist_group("two_processes")
def test_two_processes_at_once(tmp_path: Path, two_processes: Pool) -> None:
    """Both succeed; one makes the set, the other waits and reads it."""
    said = two_processes.run(make_digits, str(tmp_path))
    assert "".join(said).count("preparing morpho_mnist-embedded: 300 steps") == 1, said
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix != ".lock"] == [".npz"]


def test_embedded_splits_are_disjoint_and_balanced() -> None:
    splits = digits.read("embedded", {})
    assert {name: len(part) for name, part in splits.items()} == {"train": 4000, "val": 500, "test": 500}
    assert all(set(np.bincount(part.labels)) == {len(part) // 10} for part in splits.values())
    images = np.concatenate([part.images.reshape(len(part), -1) for part in splits.values()])
    assert len(np.unique(images, axis=0)) == 5000


def test_independent_slant(tmp_path: Path) -> None:
    data = ready(limit=100, independent_slant=True, cache_dir=str(tmp_path))
    drawn = sample_attributes(80, [0, 0])[2]
    np.testing.assert_allclose(data.train_columns["slant"], drawn, rtol=1e-6)
    found = measure(data.images("train")[:, 0].numpy(), ["slant"])["slant"]
    assert np.median(np.abs(found - drawn)) < 0.05


def test_published_files(published: Path, tmp_path: Path) -> None:
    """Test images and attributes as they are; training images rebuilt; the last twelfth of them validates."""
    data = ready(source="published", data_dir=str(published), cache_dir=str(tmp_path / "cache"), batch_size=5)
    assert [len(data.images(split)) for split in SPLITS] == [22, 2, 10]
    folder = published / "morphomnist_deepscm"
    as_published = read_idx(folder / "t10k-images-idx3-ubyte.gz", ndim=3)
    np.testing.assert_array_equal(data.images("test")[:, 0], as_published)
    for part, columns in (("t10k", [data.columns("test")]), ("train", [data.columns("train"), data.columns("val")])):
        table = np.loadtxt(folder / f"{part}-morpho.csv", delimiter=",", skiprows=1, dtype=np.float32)
        for position, name in enumerate(("thickness", "intensity"), start=1):
            np.testing.assert_array_equal(torch.cat([c[name] for c in columns]), table[:, position])
    assert data.targets("val").tolist() == [2, 3]
    measured = measure(data.images("train")[:, 0].numpy(), ["intensity"])["intensity"]
    assert np.median(np.abs(measured - data.train_columns["intensity"].numpy())) < 1


def test_published_training_images_are_used_when_they_are_there(
    published: Path, tmp_path: Path, write_idx: WriteIdx
) -> None:
    rebuilt = ready(source="published", data_dir=str(published), cache_dir=str(tmp_path / "cache")).cache_file
    images = np.random.default_rng(0).integers(0, 256, (24, 28, 28), dtype=np.uint8)
    write_idx(published / "morphomnist_deepscm" / "train-images-idx3-ubyte.gz", images)
    data = ready(source="published", data_dir=str(published), cache_dir=str(tmp_path / "cache"))
    assert data.cache_file != rebuilt
    np.testing.assert_array_equal(torch.cat([data.images("train"), data.images("val")])[:, 0], images)


def test_data_dir_may_be_the_folder_itself_or_come_from_the_environment(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFGEN_DATA", str(published))
    assert len(ready(source="mnist", cache_dir=str(tmp_path / "cache")).images("test")) == 10
    (published / "mnist" / "MNIST").rename(published / "morphomnist_deepscm" / "MNIST")
    data = ready(source="published", data_dir=str(published / "morphomnist_deepscm"), cache_dir=str(tmp_path / "cache"))
    assert len(data.images("train")) == 22


def drop_last_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def no_rows(path: Path) -> None:
    path.write_text(path.read_text().splitlines(keepends=True)[0])


def third_row(row: str, path: Path) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], row, *lines[4:]]) + "\n")


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("morphomnist_deepscm/train-morpho.csv", drop_last_line, "has 23 rows for 24 images"),
        (
            "morphomnist_deepscm/t10k-morpho.csv",
            lambda p: p.write_text("index,thickness\n0,1\n"),
            "no column intensity",
        ),
        (
            "morphomnist_deepscm/t10k-morpho.csv",
            lambda p: p.write_text("index,thickness,intensity\n0,a,b\n"),
            "cannot read",
        ),
        ("morphomnist_deepscm/t10k-morpho.csv", cut_in_half, "t10k-morpho.csv"),
        ("morphomnist_deepscm/t10k-morpho.csv", lambda p: p.write_text(""), "no column index, thickness, intensity"),
        ("morphomnist_deepscm/t10k-morpho.csv", no_rows, "has 0 rows for 10 images"),
        ("morphomnist_deepscm/t10k-morpho.csv", lambda p: p.write_bytes(b"\xff\xfe"), "not a text"),
        (
            "morphomnist_deepscm/train-morpho.csv",
            partial(third_row, "2,-2,100"),
            "thickness is above 0 .* -2 in the row of index 2",
        ),
        ("morphomnist_deepscm/train-morpho.csv", partial(third_row, "2,99,100"), "thickness is above 0 and at most 28"),
        ("morphomnist_deepscm/train-morpho.csv", partial(third_row, "2,3,256"), "intensity is above 0 and at most 255"),
        ("morphomnist_deepscm/train-morpho.csv", partial(third_row, "2,3"), "cannot read"),
        ("morphomnist_deepscm/t10k-images-idx3-ubyte.gz", cut_in_half, "truncated or damaged"),
        ("morphomnist_deepscm/t10k-labels-idx1-ubyte.gz", Path.unlink, "has no t10k-labels-idx1-ubyte"),
        ("morphomnist_deepscm/t10k-morpho.csv", Path.unlink, "neither in .*morphomnist_deepscm nor in"),
        ("mnist/MNIST/raw/train-images-idx3-ubyte", cut_in_half, "truncated: its header promises"),
    ],
)
def test_broken_files_are_named_in_one_line(
    published: Path, tmp_path: Path, name: str, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(published / name)
    with pytest.raises(UserError, match=message) as caught:
        MorphoMNIST(source="published", data_dir=str(published), cache_dir=str(tmp_path / "cache")).prepare_data()
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("cache/*.npz"))


def test_a_cache_of_other_arrays_is_made_again(tmp_path: Path) -> None:
    """Whole by its checksum, and not what this set is made of."""
    data = MorphoMNIST(limit=100, cache_dir=str(tmp_path))
    data.prepare_data()
    path = data.cache_file
    whole = path.read_bytes()
    path.unlink()
    name, _, _ = path.stem.rpartition("-")
    cache.prepared(tmp_path, name, data._recipe({}), lambda: {"train/images": np.zeros(3)})
    assert path.is_file()
    data.setup()
    assert path.read_bytes() == whole


def test_labels_in_another_order(published: Path, tmp_path: Path, write_idx: WriteIdx) -> None:
    write_idx(published / "morphomnist_deepscm" / "train-labels-idx1-ubyte.gz", np.arange(24)[::-1] % 10)
    with pytest.raises(UserError, match="not in the order of MNIST"):
        MorphoMNIST(source="published", data_dir=str(published), cache_dir=str(tmp_path / "cache")).prepare_data()


@pytest.mark.parametrize("source", ["mnist", "published"])
def test_no_folder(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CFGEN_DATA", raising=False)
    with pytest.raises(UserError, match="give data_dir or set the variable CFGEN_DATA"):
        MorphoMNIST(source=source, cache_dir=str(tmp_path)).prepare_data()


@pytest.mark.parametrize("begun", [False, True])
def test_download_that_fails(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Error downloading\ntrain-images-idx3-ubyte.gz")

    monkeypatch.setattr("torchvision.datasets.MNIST.download", fail)
    (published / "mnist" / "MNIST" / "raw" / "train-images-idx3-ubyte").unlink()
    folder = published / ("mnist" if begun else "nowhere")
    with pytest.raises(UserError, match="download failed: Error downloading train-images") as caught:
        MorphoMNIST(source="mnist", data_dir=str(folder), cache_dir=str(tmp_path / "cache")).prepare_data()
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_published_as_published(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "morphomnist_deepscm"
    if not folder.is_dir():
        pytest.skip(f"needs the published Morpho-MNIST in {folder}")
    data = ready(source="published", data_dir=str(real_data), cache_dir=str(tmp_path), limit=700)
    images = read_idx(folder / "t10k-images-idx3-ubyte.gz", ndim=3)
    table = np.loadtxt(folder / "t10k-morpho.csv", delimiter=",", skiprows=1, dtype=np.float32)
    rows = len(data.images("test"))
    assert rows == 100
    np.testing.assert_array_equal(data.images("test")[:, 0], images[:rows])
    np.testing.assert_array_equal(data.columns("test")["thickness"], table[:rows, 1])
    np.testing.assert_array_equal(data.columns("test")["intensity"], table[:rows, 2])
    np.testing.assert_array_equal(data.targets("test"), read_idx(folder / "t10k-labels-idx1-ubyte.gz", ndim=1)[:rows])
