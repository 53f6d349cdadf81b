"""The checksums of an exported folder: written with it, and renewed for what cfgen itself writes into it later."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cfgen.io.checksums import CHECKSUMS, checksums_of, listed_checksums, sha256_of
from cfgen.io.writing import write_files, writing_into

__all__ = ["renewed_checksums", "write_checksums"]


def write_checksums(folder: Path) -> Path:
    """Lists the SHA-256 of every file in a folder, in the format of `sha256sum`."""
    names = [path.name for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS and not hidden(path)]
    return _write(folder, checksums_of(folder, names))


@contextlib.contextmanager
def renewed_checksums(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Inside, these files are written; their checksums follow, where the folder lists any, and the others stay.

    They are not listed meanwhile: if the process is killed, nothing looks damaged that is not.  Others who do the same wait.
    """
    with writing_into(folder):
        listed = listed_checksums(folder)
        if listed is None:
            yield
            return
        others = {name: digest for name, digest in listed.items() if name not in names}
        _write(folder, _lines(others))
        try:
            yield
        finally:
            there = {name: sha256_of(folder / name) for name in names if (folder / name).is_file()}
            _write(folder, _lines(others | there))


def _lines(listed: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(listed.items()))


def _write(folder: Path, text: str) -> Path:
    return write_files(folder, {CHECKSUMS: text})[0]


def hidden(path: Path) -> bool:
    return path.name.startswith(".")
