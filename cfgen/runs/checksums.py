"""The checksums of an exported folder: written with it, and renewed for what cfgen itself writes into it later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cfgen.runs.folders import write_atomically
from cfgen.safety.checksums import CHECKSUMS, checksums_of, listed_checksums, sha256_of

__all__ = ["renew_checksums", "write_checksums"]


def write_checksums(folder: Path) -> Path:
    """Lists the SHA-256 of every file in a folder, in the format of `sha256sum`."""
    names = [path.name for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS and not hidden(path)]
    return _write(folder, checksums_of(folder, names))


def renew_checksums(folder: Path, names: Iterable[str]) -> None:
    """Puts the present checksums of these files into the list, where the folder has one; the others stay."""
    listed = listed_checksums(folder)
    if listed is not None:
        listed |= {name: sha256_of(folder / name) for name in names}
        _write(folder, "".join(f"{digest}  {name}\n" for name, digest in sorted(listed.items())))


def _write(folder: Path, text: str) -> Path:
    write_atomically(folder / CHECKSUMS, lambda file: file.write(text.encode()))
    return folder / CHECKSUMS


def hidden(path: Path) -> bool:
    return path.name.startswith(".")
