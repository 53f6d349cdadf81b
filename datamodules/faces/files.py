"""A drawn set on disk, in CelebA's layout, with a list of checksums: what is missing or damaged is drawn again."""

from __future__ import annotations

import io
import logging
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from cfgen.errors import UserError
from cfgen.io.pictures import MOST_BYTES
from cfgen.progress import progress
from datamodules.faces.draw import paint
from datamodules.faces.scm import ATTRIBUTES, TARGET, Population
from datamodules.sources import cache
from datamodules.sources.celeba_files import IMAGES, PARTITION, TABLE, ImageFiles
from datamodules.sources.packing import BLOCK, on_all_cores
from datamodules.sources.picture_files import PictureFiles

__all__ = ["LISTING", "DrawnFiles", "attribute_matrix", "blocks", "drawn_folder", "jpegs"]

LISTING = "checksums.txt"
_log = logging.getLogger(__name__)


def drawn_folder(folder: Path, everyone: Population) -> Path:
    """The folder of a set; draws it where it is not there yet, and lists its files where an earlier version did not."""
    if _listed(folder) is None:
        with cache.locked(folder):
            if _listed(folder) is None:  # else the process that held the lock has just drawn it
                _write(folder, everyone)
    return folder


class DrawnFiles(ImageFiles):
    """The JPEG files of a drawn set; a file that is not as it was drawn is drawn again when it is read."""

    def __init__(self, folder: Path, everyone: Population) -> None:
        PictureFiles.__init__(self, folder / IMAGES)  # listed by the set itself
        self._everyone = everyone
        self._listed = _listed(folder) or {}
        self.stamps = {name: crc for name, crc in self._listed.items() if name not in (TABLE, PARTITION)}
        for name in (TABLE, PARTITION):
            if _checksum_of(folder / name) != self._listed.get(name):
                _log.warning("%s is damaged: writing it again", folder / name)
                _replace(folder / name, _texts(everyone)[name])

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        try:
            data = super().read(name, most)
        except UserError:  # not there
            data = b""
        if _checksum(data) != self._listed[name]:
            _log.warning("%s is damaged or missing: drawing it again", self.place / name)
            row = int(Path(name).stem) - 1
            one = slice(row, row + 1)
            (data,) = jpegs(self._everyone.state[one], attribute_matrix(self._everyone.attributes())[one])
            _replace(self.place / name, data)
        return data


def _write(folder: Path, everyone: Population) -> None:
    """The set as files: finished, the folder takes its name; interrupted, the drawing goes on with what is missing."""
    partial = folder if folder.is_dir() else folder.with_name(f".{folder.name}.partial")
    matrix = attribute_matrix(everyone.attributes())

    def save(block: slice) -> dict[str, str]:
        paths = [partial / IMAGES / _name(row) for row in range(block.start, block.stop)]
        if not all(path.exists() for path in paths):
            for path, data in zip(paths, jpegs(everyone.state[block], matrix[block]), strict=True):
                _replace(path, data)
        return {path.name: _checksum_of(path) for path in paths}

    try:
        (partial / IMAGES).mkdir(parents=True, exist_ok=True)
        found: dict[str, str] = {}
        with progress("drawing faces", len(everyone)) as advance:
            for block, checksums in on_all_cores(save, blocks(len(everyone))):
                found |= checksums
                advance(block.stop - block.start)
        for name, text in _texts(everyone).items():
            _replace(partial / name, text)
            found[name] = _checksum(text)
        _replace(partial / LISTING, "".join(f"{crc} {name}\n" for name, crc in sorted(found.items())).encode())
        if partial != folder:
            os.replace(partial, folder)
    except OSError as error:
        reason = f"{error.strerror or error} (cache_dir chooses another folder)"
        raise UserError(f"cannot write {folder}: {reason}") from None


def _listed(folder: Path) -> dict[str, str] | None:
    """The checksums of a set's files by name, the images in order; None where there is no list."""
    try:
        lines = (folder / LISTING).read_text(encoding="utf-8").splitlines()
        return {name: crc for crc, name in (line.split() for line in lines)}
    except (OSError, ValueError):
        return None


def _checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def _checksum_of(path: Path) -> str:
    try:
        return _checksum(path.read_bytes())
    except OSError:
        return ""


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error} (cache_dir chooses another folder)") from None


def blocks(count: int) -> list[slice]:
    """The rows of a set in parts that are drawn together."""
    return [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]


def _name(row: int) -> str:
    return f"{row + 1:06d}.jpg"


def attribute_matrix(attributes: Mapping[str, np.ndarray]) -> np.ndarray:
    """All fifteen attributes of faces, a column each."""
    return np.stack([attributes[name] for name in ATTRIBUTES], axis=1)


def jpegs(state: np.ndarray, attributes: np.ndarray) -> Iterator[bytes]:
    """Faces as JPEG files."""
    for image in paint(state, attributes):
        buffer = io.BytesIO()
        # colours at full resolution: what an attribute changes stays within the 8 x 8 pixels it touches
        Image.fromarray(image).save(buffer, "JPEG", quality=95, subsampling=0)
        yield buffer.getvalue()


def _texts(everyone: Population) -> dict[str, bytes]:
    """The attribute table and the partition, as CelebA has them."""
    attributes = everyone.attributes()
    columns = attributes | {TARGET: everyone.label(attributes)}
    return {TABLE: _table(columns).encode(), PARTITION: _partition(len(everyone)).encode()}


def _table(columns: Mapping[str, np.ndarray]) -> str:
    """The count, the names, then for each image its name and 1 or -1 for each attribute."""
    names = sorted(columns)
    signs = np.stack([np.where(columns[name] == 1, " 1", "-1") for name in names], axis=1)
    rows = (f"{_name(row)} {' '.join(values)}" for row, values in enumerate(signs.tolist()))
    return "\n".join([str(len(signs)), " ".join(names) + " ", *rows]) + "\n"


def _partition(count: int) -> str:
    tenth = count // 10
    return "".join(
        f"{_name(row)} {0 if row < count - 2 * tenth else 1 if row < count - tenth else 2}\n" for row in range(count)
    )
