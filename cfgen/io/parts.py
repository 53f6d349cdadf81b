"""What is being written, before it gets its name: `.NAME.HEX.part` beside it, with a lock that the system frees when its
writer dies.  Whoever writes NAME next removes what dead writers left, and never what a living one is at."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and nothing left behind is removed
    fcntl = None  # type: ignore[assignment]

__all__ = ["locked", "made_parents", "part_of", "parts_of", "remove_if_dead", "settle"]


@contextlib.contextmanager
def part_of(path: Path, make: Callable[[Path], Any]) -> Iterator[Path]:
    """The locked part, a file or a folder, that is to become `path`; gone at the end, unless it was moved there."""
    for left in parts_of(path):
        remove_if_dead(left)
    part, lock = path, -1
    try:
        while lock < 0:
            # not tempfile's, which only their owner may read
            part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
            make(part)
            lock = _locked_part(part)
        yield part
    finally:
        if part != path:
            _remove(part)
        if lock >= 0:
            os.close(lock)


def _locked_part(part: Path) -> int:
    """The descriptor that holds the lock of a part; below 0 where another writer took the part for a dead one's before."""
    try:
        lock = os.open(part, os.O_RDONLY)
    except FileNotFoundError:
        return -1
    locked(lock, wait=True)
    if part.exists():
        return lock
    os.close(lock)
    return -1


@contextlib.contextmanager
def made_parents(path: Path) -> Iterator[None]:
    """The folders above a path, made where they are missing, and gone again where nothing came into them."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # somebody else has put something there
            for folder in missing:
                folder.rmdir()
        raise


def parts_of(path: Path) -> list[Path]:
    prefix, suffix = f".{path.name}.", ".part"
    length = len(prefix) + 16 + len(suffix)
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return []
    return [path.with_name(n) for n in names if n.startswith(prefix) and n.endswith(suffix) and len(n) == length]


def remove_if_dead(part: Path) -> bool:
    """Removes what a dead writer left; False where it lives, or where nothing tells."""
    try:
        lock = os.open(part, os.O_RDONLY)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    try:
        if not locked(lock, wait=False):
            return False
        _remove(part)
        return not part.exists()
    finally:
        os.close(lock)


def _remove(part: Path) -> None:
    with contextlib.suppress(OSError):
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def locked(file: int, *, wait: bool) -> bool:
    """Whether the lock is ours now.  Some network file systems lock nothing: there every writer counts as living."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def settle(folder: Path) -> None:
    """Names in a folder are on the disk too, where the system can say so of folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
