"""Reading idx files: what was written comes back, and a broken file is named in one line."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfgen.errors import UserError
from datamodules.sources.idx import find_idx, read_idx

WriteIdx = Callable[[Path, np.ndarray], Path]


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_round_trip(tmp_path: Path, write_idx: WriteIdx, name: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (7, 28, 28), dtype=np.uint8)
    path = write_idx(tmp_path / name, images)
    assert find_idx(tmp_path, "images") == path
    read = read_idx(path, ndim=3)
    np.testing.assert_array_equal(read, images)
    assert read.flags.writeable


@pytest.mark.parametrize("keep", [0, 3, 10, 16, 500])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_truncated(tmp_path: Path, write_idx: WriteIdx, keep: int, suffix: str) -> None:
    path = write_idx(tmp_path / f"images{suffix}", np.random.default_rng(0).integers(0, 256, (7, 28, 28)))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="images") as caught:
        read_idx(path, ndim=3)
    assert "\n" not in str(caught.value)


def test_too_long(tmp_path: Path, write_idx: WriteIdx) -> None:
    path = write_idx(tmp_path / "labels.gz", np.arange(5))
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"x"))
    with pytest.raises(UserError, match="too long"):
        read_idx(path, ndim=1)


def test_a_small_file_that_unpacks_to_a_large_one(
    tmp_path: Path, write_idx: WriteIdx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datamodules.sources.idx._MOST_BYTES", 10_000)
    path = write_idx(tmp_path / "labels.gz", np.zeros(1_000_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(UserError, match="more than 10,000 bytes"):
        read_idx(path, ndim=1)


def test_labels_are_not_images(tmp_path: Path, write_idx: WriteIdx) -> None:
    with pytest.raises(UserError, match="not an idx file of bytes in 3"):
        read_idx(write_idx(tmp_path / "labels", np.arange(5)), ndim=3)


def test_missing(tmp_path: Path) -> None:
    assert find_idx(tmp_path, "images") is None
    with pytest.raises(UserError, match="cannot read"):
        read_idx(tmp_path / "images", ndim=3)
