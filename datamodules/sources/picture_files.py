"""Picture files by name, in a folder or in a zip, and the table that says what they show."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfgen.errors import UserError
from cfgen.io.archives import Archive
from cfgen.io.pictures import MOST_BYTES

__all__ = ["SPLITS", "PictureFiles", "PictureTable"]

SPLITS = ("train", "val", "test")  # 0, 1 and 2 in a table


@dataclass(frozen=True)
class PictureTable:
    """The rows of a set, those of a split together: the name of each picture, its split (0, 1, 2), and columns of numbers."""

    names: list[str]
    split: np.ndarray
    columns: dict[str, np.ndarray]


class PictureFiles:
    """Files by name, from a folder, from a zip, or from both.

    `stamps` tell two versions of a file apart: its size, and the time it was changed or, in a zip, its checksum.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.stamps: dict[str, str] = {}
        self._zipped: dict[str, tuple[Archive, str]] = {}

    def add_folder(self, wanted: Callable[[str], bool], deep: bool = False) -> None:
        """Lists the wanted files of the folder; with `deep` those in folders inside it too, as `folder/name`."""
        waiting, seen = [""], set()
        try:
            while waiting:
                inside = waiting.pop()
                about = os.stat(self.place / inside)
                if (about.st_dev, about.st_ino) in seen:  # a link that leads back
                    continue
                seen.add((about.st_dev, about.st_ino))
                with os.scandir(self.place / inside) as entries:
                    for entry in entries:
                        name = f"{inside}/{entry.name}" if inside else entry.name
                        if entry.is_file():  # a pipe would keep us waiting for ever
                            if wanted(name):
                                about = entry.stat()
                                self.stamps[name] = f"{about.st_size} {about.st_mtime_ns}"
                        elif deep and entry.is_dir() and not entry.name.startswith("."):
                            waiting.append(name)
        except OSError as error:
            raise UserError(f"cannot read {self.place}: {error}") from None

    def add_zip(self, path: Path, name_of: Callable[[str], str | None]) -> None:
        """Lists the files of a zip under the names they are given; None leaves one out."""
        archive = Archive(path)
        for inside, entry in archive.entries.items():
            name = name_of(inside)
            if name is None:
                continue
            if name in self.stamps and name not in self._zipped:
                raise UserError(f"{name} is in {self.place} and in {path}: delete one of them")
            self._zipped[name] = (archive, inside)
            self.stamps[name] = f"{entry.file_size} {entry.CRC:08x}"

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """The bytes of one file, if there are no more than so many; any number of threads may read."""
        if name in self._zipped:
            archive, inside = self._zipped[name]
            return archive.read(inside, most)
        try:
            with open(f"{self.place}/{name}", "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > most:
                    raise UserError(f"{self.place / name} has more than the {most:,} bytes that are read")
                return file.read()
        except OSError as error:
            raise UserError(f"cannot read {self.place / name}: {error}") from None
