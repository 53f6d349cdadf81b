"""Images packed into one memory-mapped file: made once by all cores, resumed when interrupted, checked when opened.

The file is an ordinary `.npy` array followed by one 8-byte slot for each block of images: the CRC-32 of the block and a
bit that says it is there.  While it is being made it has another name, and a block counts as done when its slot is right;
so an interrupted file goes on where it stopped, and of a damaged one the damaged blocks alone are made again.
"""

from __future__ import annotations

import io
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cfgen.errors import UserError
from cfgen.progress import progress
from datamodules.sources.cache import location, locked

__all__ = ["BLOCK", "cores", "on_all_cores", "pack_location", "packed"]

BLOCK = 64  # images that are read, checked and written together

_THERE = np.uint64(1 << 32)
_log = logging.getLogger(__name__)
_checked: set[tuple[str, int, int]] = set()  # files this process has read through: path, inode, time of change


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_all_cores(work: Callable[[slice], Any], blocks: Iterable[slice]) -> Iterator[tuple[slice, Any]]:
    """Runs `work` on blocks in threads and yields each with its result as it is done; never far ahead of the caller.

    Decoding, resizing, painting and hashing all release the interpreter lock.
    """
    waiting = iter(blocks)
    with ThreadPoolExecutor(cores()) as pool:
        running: dict[Future[Any], slice] = {}
        try:
            for block in islice(waiting, 2 * cores()):
                running[pool.submit(work, block)] = block
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    block, result = running.pop(future), future.result()
                    for following in islice(waiting, 1):
                        running[pool.submit(work, following)] = following
                    yield block, result
        finally:
            pool.shutdown(cancel_futures=True)


def pack_location(folder: Path, name: str, recipe: Mapping[str, Any]) -> Path:
    """Where the images made by this recipe are kept: another recipe, another file."""
    return location(folder, name, recipe).with_suffix(".npy")


def packed(
    path: Path, shape: tuple[int, ...], make: Callable[[slice], np.ndarray], task: str = "packing"
) -> np.memmap[Any, np.dtype[np.uint8]]:
    """The uint8 images (N, ...) of a file, mapped into memory; those that are not there yet come from `make(rows)`.

    Any number of processes may ask at once: one makes the file, the others wait.  Writing to the array changes this
    process's copy alone.
    """
    pack = _Pack(path, shape)
    if not pack.is_whole():
        with locked(path):
            if not pack.is_whole():  # else the process that held the lock has just made it
                pack.complete(make, task)
    return pack.images(path)


class _Pack:
    """The bytes of a packed file: where the blocks and their slots are."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path, self.shape = path, shape
        self.partial = path.with_name(f".{path.name}.partial")
        self.header = _npy_header(shape)
        self.blocks = [slice(start, min(start + BLOCK, shape[0])) for start in range(0, shape[0], BLOCK)]
        self.slots_at = len(self.header) + int(np.prod(shape))
        self.size = self.slots_at + 8 * len(self.blocks)

    def is_whole(self) -> bool:
        """Whether the file is there and every byte of it is right."""
        try:
            stat = self.path.stat()
        except OSError:  # not there; what hinders us from making it shows when we do
            return False
        identity = (str(self.path), stat.st_ino, stat.st_mtime_ns)
        if identity not in _checked:
            if not self.done(self.path).all():
                return False
            _checked.add(identity)
        return True

    def done(self, path: Path) -> np.ndarray:
        """For each block, whether it is there and as it was written."""
        right = np.zeros(len(self.blocks), dtype=bool)
        try:
            with path.open("rb") as file:
                if file.read(len(self.header)) != self.header or os.fstat(file.fileno()).st_size != self.size:
                    return right
                file.seek(self.slots_at)
                slots = np.frombuffer(file.read(), dtype="<u8")
        except FileNotFoundError:
            return right
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from None
        images = self.images(path)
        marked = [block for block, slot in zip(self.blocks, slots, strict=True) if slot & _THERE]
        for block, slot in on_all_cores(lambda block: _slot(images[block]), marked):
            right[block.start // BLOCK] = slot == slots[block.start // BLOCK]
        return right

    def images(self, path: Path) -> np.memmap[Any, np.dtype[np.uint8]]:
        # copy-on-write: torch takes writable memory only, and the file stays as it is
        return np.memmap(path, np.uint8, "c", offset=len(self.header), shape=self.shape)

    def complete(self, make: Callable[[slice], np.ndarray], task: str) -> None:
        """Makes the blocks that are missing; we hold the lock."""
        try:
            if self.path.exists():
                _log.warning("%s is damaged: making the damaged part again", self.path)
                os.replace(self.path, self.partial)
            done = self.done(self.partial)
            if not done.any():
                with self.partial.open("wb") as file:
                    file.write(self.header)
                    file.truncate(self.size)
            missing = [block for block, there in zip(self.blocks, done, strict=True) if not there]
            ready = self.shape[0] - sum(block.stop - block.start for block in missing)
            with self.partial.open("r+b") as file, progress(task, self.shape[0], ready) as advance:
                for block, images in on_all_cores(make, missing):
                    self._write(file, block, images)
                    advance(block.stop - block.start)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.partial, self.path)
        except OSError as error:
            where = f"{self.path}: {error.strerror or error}"
            raise UserError(f"cannot write {where} (cache_dir chooses another folder)") from None
        stat = self.path.stat()
        _checked.add((str(self.path), stat.st_ino, stat.st_mtime_ns))

    def _write(self, file: Any, block: slice, images: np.ndarray) -> None:
        """The block first, its slot after it."""
        images = np.ascontiguousarray(images, dtype=np.uint8)
        file.seek(len(self.header) + block.start * images[0].size)
        file.write(images.data)
        file.seek(self.slots_at + block.start // BLOCK * 8)
        file.write(_slot(images).astype("<u8").tobytes())
        file.flush()


def _slot(images: np.ndarray) -> np.uint64:
    return np.uint64(zlib.crc32(np.ascontiguousarray(images).data)) | _THERE


def _npy_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()
