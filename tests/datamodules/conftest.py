"""A small generated set that the tests share, and files in the formats of MNIST, Morpho-MNIST and CelebA."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from datamodules import MorphoMNIST
from tests.datamodules.celeba_folder import make_celeba

WriteIdx = Callable[[Path, np.ndarray], Path]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> MorphoMNIST:
    """300 embedded digits with sampled thickness and intensity; set up, never changed by a test."""
    data = MorphoMNIST(limit=300, batch_size=32, cache_dir=str(tmp_path_factory.mktemp("cache")))
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="session")
def write_idx() -> WriteIdx:
    """Writes an array of bytes as an idx file, gzipped when its name says so."""

    def write(path: Path, array: np.ndarray) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
        data = header + array.astype(np.uint8).tobytes()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path

    return write


@pytest.fixture
def published(tmp_path: Path, write_idx: WriteIdx) -> Path:
    """A folder like DeepSCM's with 24 training and 10 test digits, and MNIST to rebuild the training images from."""
    rng = np.random.default_rng(0)
    for part, rows in (("train", 24), ("t10k", 10)):
        images = np.zeros((rows, 28, 28), dtype=np.uint8)
        for image in images:  # a bar that leans to one side
            top, bottom = rng.integers(8, 18, size=2)
            for y, x in zip(range(5, 23), np.linspace(top, bottom, 18).astype(int), strict=True):
                image[y, x : x + 4] = rng.integers(200, 255)
        labels = np.arange(rows) % 10
        write_idx(tmp_path / "mnist" / "MNIST" / "raw" / f"{part}-images-idx3-ubyte", images)
        write_idx(tmp_path / "mnist" / "MNIST" / "raw" / f"{part}-labels-idx1-ubyte", labels)
        folder = tmp_path / "morphomnist_deepscm"
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", labels)
        values = np.column_stack([np.arange(rows), rng.uniform(2, 5, rows), rng.uniform(100, 250, rows)])
        lines = [f"{int(i)},{t:.6f},{v:.4f}" for i, t, v in values]
        (folder / f"{part}-morpho.csv").write_text("\n".join(["index,thickness,intensity", *lines]) + "\n")
        if part == "t10k":
            write_idx(folder / "t10k-images-idx3-ubyte.gz", images)
    return tmp_path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small set in CelebA's layout."""
    folder = tmp_path_factory.mktemp("celeba")
    make_celeba(folder)
    return folder


@pytest.fixture
def layout(made: Path, tmp_path: Path) -> Path:
    """A copy of the set that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "celeba"))
