"""A folder of prepared sets: each is one file, written whole or not at all, checked when read, made by one process."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout

from cfgen.errors import UserError
from cfgen.io.endings import default_cache_dir

__all__ = ["Arrays", "default_cache_dir", "location", "locked", "prepared"]

Arrays = dict[str, np.ndarray]

_log = logging.getLogger(__name__)
_DIGEST = 64  # hexadecimal digits of a SHA-256


class _DamagedError(Exception):
    """A cached file that is not what was once written."""


def location(folder: Path, name: str, recipe: Mapping[str, Any]) -> Path:
    """Where the set made by this recipe is kept: another recipe, another file."""
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return folder / f"{name}-{key[:12]}.npz"


def prepared(
    folder: Path, name: str, recipe: Mapping[str, Any], make: Callable[[], Arrays], arrays_needed: Collection[str] = ()
) -> Arrays:
    """The arrays of a set: from its file, or made now and kept.  Any number of processes may ask at once.

    A file that lacks one of the `arrays_needed` is damaged, whatever its checksum says.
    """
    path = location(folder, name, recipe)
    with contextlib.suppress(_DamagedError, FileNotFoundError):
        return _read(path, arrays_needed)
    with locked(path):
        try:  # again: the process that held the lock may just have made it
            return _read(path, arrays_needed)
        except FileNotFoundError:
            pass
        except _DamagedError as damage:
            _log.warning("%s is damaged (%s): making it again", path, damage)
        arrays = make()
        _write(path, arrays)
    return arrays


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a path; the system frees it if the process dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        try:
            lock.acquire(blocking=False)
        except Timeout:
            _log.warning("waiting for another process that is preparing %s", path)
            lock.acquire()
    except OSError as error:
        raise UserError(f"cannot write in {path.parent}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


class _Hashing(io.RawIOBase):
    """A file being written that keeps the SHA-256 of what went in; it cannot seek, so what is in it stays."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.sha = file, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha.update(data)
        return self.file.write(data)


def _write(path: Path, arrays: Arrays) -> None:
    """An npz archive followed by its own SHA-256, which zip readers ignore; moved into place once it is on the disk."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):  # of a process that was killed: we hold the lock now
        left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            hashing = _Hashing(file)
            np.savez(hashing, **arrays)  # type: ignore[arg-type]
            file.write(hashing.sha.hexdigest().encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error} (cache_dir chooses another folder)") from None
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path, needed: Collection[str] = ()) -> Arrays:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size - _DIGEST
            sha = hashlib.sha256()
            while chunk := file.read(max(0, min(size - file.tell(), 1 << 20))):
                sha.update(chunk)
            if size <= 0 or file.read() != sha.hexdigest().encode():
                raise _DamagedError("its checksum does not match")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive)
        if missing := sorted(set(needed) - arrays.keys()):
            raise _DamagedError(f"it has no {', '.join(missing)}")
        return arrays
    except FileNotFoundError:
        raise
    except (ValueError, zipfile.BadZipFile) as error:
        raise _DamagedError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
