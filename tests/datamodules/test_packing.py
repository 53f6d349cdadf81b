"""CelebA packed once: interrupted, damaged, shared by two processes, and never written to again."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cfgen.errors import UserError
from datamodules.celeba import CelebA
from datamodules.sources import celeba_files, packing
from tests.datamodules.celeba_folder import (
    COUNT,
    GONE,
    IMAGES,
    cut,
    every_image,
    garbage,
    ready,
    reference,
)
from tests.processes import Pool


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BLOCK", 4)
    monkeypatch.setattr(packing, "cores", lambda: 1)


class Counting:
    """Counts the images decoded, and may be stopped at one of them as by Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.stop_at = 0, 10**9
        self.decode = celeba_files.decoded_jpeg
        monkeypatch.setattr(celeba_files, "decoded_jpeg", self)

    def __call__(self, data: bytes, where: str) -> Image.Image:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        return self.decode(data, where)


@pytest.mark.usefixtures("small_blocks")
def test_interrupted_packing_goes_on(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    counting.stop_at = 27
    with pytest.raises(KeyboardInterrupt):
        ready(made, tmp_path)
    assert not list(tmp_path.glob("*.npy"))
    before, counting.stop_at = counting.calls, 10**9
    data = ready(made, tmp_path)
    assert counting.calls - before <= COUNT - len(GONE) - 20  # six whole blocks of four were there, perhaps one less
    fresh = ready(made, tmp_path / "fresh")
    assert torch.equal(every_image(data), every_image(fresh))
    assert data.cache_file.read_bytes() == fresh.cache_file.read_bytes()
    assert not list(tmp_path.glob(".*.partial"))


@pytest.mark.usefixtures("small_blocks")
def test_partial_pack_is_not_trusted_blindly(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block on the disk that is not what was written is made again."""
    counting = Counting(monkeypatch)
    counting.stop_at = 27
    with pytest.raises(KeyboardInterrupt):
        ready(made, tmp_path)
    counting.stop_at = 10**9
    (partial,) = tmp_path.glob(".*.partial")
    with partial.open("r+b") as file:
        file.seek(1000)
        file.write(b"\0" * 64)
    assert torch.equal(every_image(ready(made, tmp_path)), every_image(ready(made, tmp_path / "fresh")))


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("spoil", "most"),
    [(flip_byte, 4), (cut, COUNT), (garbage, COUNT), (lambda path: path.write_bytes(b""), COUNT)],
)
def test_damaged_pack_is_noticed_and_repaired(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
    most: int,
) -> None:
    data = ready(made, tmp_path)
    whole = data.cache_file.read_bytes()
    del data  # what is mapped would go with the file
    (path,) = tmp_path.glob("*.npy")
    spoil(path)
    counting = Counting(monkeypatch)
    ready(made, tmp_path)
    assert "damaged" in caplog.text
    assert 0 < counting.calls <= most
    assert path.read_bytes() == whole


def test_second_use_decodes_nothing(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(made, tmp_path)
    counting = Counting(monkeypatch)
    ready(made, tmp_path)
    assert counting.calls == 0


def test_another_image_makes_another_pack(layout: Path, tmp_path: Path) -> None:
    first = ready(layout, tmp_path / "cache").cache_file
    Image.new("RGB", (178, 218), (200, 10, 10)).save(layout / IMAGES / "000001.jpg")
    data = ready(layout, tmp_path / "cache")
    assert data.cache_file != first
    assert torch.equal(data.images("train")[0], reference(layout / IMAGES / "000001.jpg", 64))
    assert ready(layout, tmp_path / "cache", image_size=32).cache_file != data.cache_file


def test_another_image_of_the_same_size_makes_another_pack(layout: Path, tmp_path: Path) -> None:
    path = layout / IMAGES / "000001.jpg"
    size = path.stat().st_size
    ready(layout, tmp_path / "cache")
    Image.new("RGB", (178, 218), (200, 10, 10)).save(path)
    path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    assert path.stat().st_size == size
    assert torch.equal(ready(layout, tmp_path / "cache").images("train")[0], reference(path, 64))


def test_file_is_an_ordinary_array_that_is_never_written_to(made: Path, tmp_path: Path) -> None:
    data = ready(made, tmp_path)
    before = data.cache_file.read_bytes()
    np.testing.assert_array_equal(np.load(data.cache_file), every_image(data))
    data.images("train")[:] = 0
    assert data.cache_file.read_bytes() == before


def test_cache_that_cannot_be_written(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write in"):
        ready(made, tmp_path / "file" / "cache")


def pack(made: str, cache: str) -> tuple[int, str]:
    """In each of two processes: the sum of all pixels, and what was said."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        data = CelebA(made, cache_dir=cache)
        data.prepare_data()
        data.setup()
    return int(data.images("train").sum()), said.getvalue()


@pytest.mark.xdist_group("two_processes")
def test_two_processes_at_once(made: Path, tmp_path: Path, two_processes: Pool) -> None:
    """Both succeed; one packs, the other waits and reads."""
    sums, said = zip(*two_processes.run(pack, str(made), str(tmp_path)), strict=True)
    assert sums[0] == sums[1]
    assert "".join(said).count("packing CelebA at 64 x 64: 42 images") == 1, said
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix != ".lock"] == [".npy"]
