"""Zips that somebody else may have made: read, never unpacked."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from cfgen.errors import UserError

__all__ = ["Archive"]

ENCRYPTED = 0x1  # a bit of an entry's flags
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


class Archive:
    """The files of a zip by name; any number of threads may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except DAMAGE as error:
            raise UserError(f"cannot read {path}: {error}") from None
        self.entries = {entry.filename: entry for entry in self._zip.infolist() if not entry.is_dir()}
        for name in self.entries:
            if leads_outside(name):
                raise UserError(f"cannot read {path}: it has a file {name!r}, whose name leads out of it")

    def read(self, name: str, most: int) -> bytes:
        """The bytes of one file, if there are no more than so many."""
        entry = self.entries[name]
        where = f"{name} in {self.path}"
        if entry.flag_bits & ENCRYPTED:
            raise UserError(f"cannot read {where}: it is encrypted")
        if entry.file_size > most:
            raise UserError(f"cannot read {where}: it has {entry.file_size:,} bytes, and at most {most:,} are read")
        try:
            return self._zip.read(entry)
        except DAMAGE as error:
            raise UserError(f"cannot read {where}: {error}") from None


def leads_outside(name: str) -> bool:
    """Whether a file of that name would lie outside of the folder that a zip is unpacked into.

    >>> leads_outside("faces/1.jpg"), leads_outside("../1.jpg"), leads_outside("/etc/1.jpg")
    (False, True, True)
    """
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or ":" in (path.parts[0] if path.parts else "")
