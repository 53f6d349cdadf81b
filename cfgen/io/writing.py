"""Files and folders that are written whole or not at all, and that never take the place of what is there unasked.

The functions for files raise an OSError that names the file; those for folders refuse in one line, as a `UserError`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

from cfgen.errors import UserError
from cfgen.io.endings import why
from cfgen.io.files import exists
from cfgen.io.parts import locked, made_parents, part_of, parts_of, remove_if_dead, settle

__all__ = [
    "NewFolder",
    "new_folder",
    "new_numbered_folder",
    "require_free",
    "write_atomically",
    "write_files",
    "write_new",
    "writing_into",
]

TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)  # what the system says where something is there
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def write_atomically(path: Path, write: Callable[[Any], Any]) -> None:
    """Calls `write` with an open binary file that becomes `path` only when it is complete, and then takes its place."""
    with _named(path), made_parents(path), part_of(path, _new_file) as part:
        _fill(part, write)
        os.replace(part, path)
        settle(path.parent)


def write_new(path: Path, data: bytes) -> bool:
    """Writes a file that was not there; False, and nothing written, where one is."""
    with _named(path), made_parents(path), part_of(path, _new_file) as part:
        _fill(part, data)
        try:
            os.link(part, path)  # unlike a rename, it fails where there is something
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            if path.exists():  # a file system without links: two writers at the same instant are not told apart
                return False
            os.replace(part, path)
        settle(path.parent)
    return True


def write_files(folder: str | Path, contents: Mapping[str, bytes | str]) -> list[Path]:
    """Writes files by name into a folder, in place of those that are there; returns their paths.

    All are on the disk before the first gets its name, and they get them in the order given: what fails, fails before.
    """
    folder = Path(folder)
    paths = [folder / name for name in contents]
    with contextlib.ExitStack() as stack:
        parts = []
        for path, content in zip(paths, contents.values(), strict=True):
            stack.enter_context(_named(path))
            stack.enter_context(made_parents(path))
            parts.append(stack.enter_context(part_of(path, _new_file)))
            _fill(parts[-1], content)
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
        settle(folder)
    return paths


class NewFolder:
    """A folder that is being written: `place` is where its files go meanwhile, `path` what it is called once it is whole."""

    def __init__(self, place: Path, path: Path) -> None:
        self.place, self.path = place, path

    def write(self, contents: Mapping[str, bytes | str]) -> None:
        """Writes files by name."""
        for name, content in contents.items():
            with _named(self.place / name):
                _fill(self.place / name, content, "xb")


def require_free(path: str | Path, argument: str = "out") -> None:
    """Refuses a name that is taken, or that a living process is writing; an empty folder is as good as none."""
    path = Path(path)
    with _refused(path, argument):
        if path.name in ("", "..") or path.is_symlink() or (path.exists() and not _empty_folder(path)):
            raise _taken(path, argument)
        if not all(remove_if_dead(part) for part in parts_of(path)):
            raise UserError(f"{path} is being written by another process; choose a new folder", argument=argument)


def _empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


@contextlib.contextmanager
def new_folder(path: str | Path, argument: str = "out") -> Iterator[NewFolder]:
    """A folder that gets its name when the block ends, and leaves nothing where it does not end well; see `require_free`."""
    require_free(path, argument)
    path = Path(path)

    def settled(part: Path) -> Path:
        if path.is_symlink() or not _rename(part, path):
            raise _taken(path, argument)
        return path

    with _written(path, path, argument, settled) as new:
        yield new


@contextlib.contextmanager
def new_numbered_folder(parent: Path, argument: str = "out") -> Iterator[NewFolder]:
    """The next free `parent/NNN`; the number is settled when the block ends, so that two writers at once get two."""

    def settled(part: Path) -> Path:
        number = max((int(run.name) for run in parent.iterdir() if run.name.isdigit()), default=0) + 1
        while not _rename(part, parent / f"{number:03d}"):
            number += 1
        return parent / f"{number:03d}"

    with _written(parent / "new", parent / "001", argument, settled) as new:
        yield new


@contextlib.contextmanager
def _written(wanted: Path, path: Path, argument: str, settled: Callable[[Path], Path]) -> Iterator[NewFolder]:
    """A part of what is `wanted`; `settled` gives it its name and returns that.  What cannot be written is told by the path."""
    with contextlib.ExitStack() as stack:
        with _refused(path, argument):
            stack.enter_context(made_parents(path))
            part = stack.enter_context(part_of(wanted, Path.mkdir))
        new = NewFolder(part, path)
        try:
            yield new
        except OSError as error:  # others in the block are not about this folder
            if str(error.filename or "").startswith(str(part)):
                raise _cannot_write(path, error, argument) from error
            raise
        with _refused(path, argument):
            new.path = settled(part)
            settle(new.path.parent)


@contextlib.contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Waits until nobody else writes results into a folder, and keeps others waiting meanwhile."""
    lock = os.open(folder, os.O_RDONLY) if exists(folder) else -1
    try:
        if lock >= 0:
            locked(lock, wait=True)
        yield
    finally:
        if lock >= 0:
            os.close(lock)


class _Remembering(io.RawIOBase):
    """A file being written that keeps the error it met: torch says of a full disk only where in the file it was."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def write(self, data: Any) -> int:
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        if not self.file.closed:
            self.file.flush()


def _fill(path: Path, content: bytes | str | Callable[[Any], Any], mode: Literal["r+b", "xb"] = "r+b") -> None:
    """Puts bytes, a text, or what a function writes into a file, on the disk."""
    with path.open(mode) as file:
        remembering = _Remembering(file)
        try:
            if callable(content):
                content(remembering)
            else:
                remembering.write(content.encode() if isinstance(content, str) else content)
        except Exception:
            if remembering.error is not None:
                raise remembering.error from None
            raise
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """An OSError inside names the path, whatever hidden name it happened to, or none at all."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


@contextlib.contextmanager
def _refused(path: Path, argument: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _cannot_write(path, error, argument) from error


def _cannot_write(path: Path, error: OSError, argument: str) -> UserError:
    return UserError(f"cannot write {path}: {why(error)}", argument=argument)


def _new_file(part: Path) -> None:
    part.open("xb").close()


def _taken(path: Path, argument: str) -> UserError:
    return UserError(f"{path} exists already; choose a new folder", argument=argument)


def _rename(part: Path, path: Path) -> bool:
    """Gives a folder its name; False where that is taken by anything but an empty folder."""
    try:
        os.rename(part, path)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True
