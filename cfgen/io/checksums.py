"""Whether the files of a folder are as they were written: SHA256SUMS, which `sha256sum -c SHA256SUMS` checks too.

They tell damage, and not whom a folder comes from: whoever changes a file can change its checksum as well.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Collection
from pathlib import Path

from cfgen.errors import UserError
from cfgen.io.archives import DAMAGE
from cfgen.io.files import read_text

__all__ = [
    "CHECKSUMS",
    "checksums_of",
    "listed_checksums",
    "require_unchanged",
    "require_whole_checkpoint",
    "sha256_of",
]

CHECKSUMS = "SHA256SUMS"
MOST_BYTES = 1_000_000


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None


def checksums_of(folder: Path, names: Collection[str]) -> str:
    """The contents of a list of checksums."""
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in sorted(names))


def listed_checksums(folder: Path) -> dict[str, str] | None:
    """The checksums that a folder lists, by file; None of one without, such as a run or an export of an earlier version."""
    path = folder / CHECKSUMS
    if not path.exists():
        return None
    found = {}
    for number, line in enumerate(read_text(path, MOST_BYTES).splitlines(), start=1):
        match = re.fullmatch(r"([0-9a-f]{64}) [ *]([^/\\]+)", line)
        if match is None or match[2] in ("", ".", "..") or match[2] in found:
            raise UserError(f"{path}, line {number}: a SHA-256 and the name of a file in the folder are expected")
        found[match[2]] = match[1]
    return found


def require_unchanged(folder: Path, names: Collection[str]) -> None:
    """Refuses a folder in which one of these files is not as its checksum says; files that are not listed are not looked at."""
    for name, wanted in (listed_checksums(folder) or {}).items():
        if name not in names:
            continue
        if not (folder / name).is_file():
            raise UserError(f"{folder} is not complete: {name} is listed in {CHECKSUMS} and is not there")
        if sha256_of(folder / name) != wanted:
            raise UserError(
                f"{folder / name} is not as it was written: its checksum differs from that in {CHECKSUMS}. Get the folder "
                f"again; if you changed the file yourself, delete {CHECKSUMS}"
            )


def require_whole_checkpoint(path: Path) -> None:
    """Refuses a checkpoint in which a bit has changed since it was written.

    Torch's checkpoints are zips with a checksum for each tensor, which torch itself does not look at when it reads them.
    """
    try:
        if not zipfile.is_zipfile(path):  # something else altogether, of which whoever reads it has more to say
            return
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):  # may unpack to anything
                raise UserError(f"{path} is not a checkpoint: it has compressed parts, which torch does not write")
            damaged = archive.testzip()
    except DAMAGE as error:
        raise UserError(f"{path} is damaged ({error}): use another checkpoint, or train again") from error
    if damaged is not None:
        raise UserError(
            f"{path} is damaged: the checksum of {damaged} in it is another. Use another checkpoint, or train again"
        )
