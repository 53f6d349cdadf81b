"""Reading the idx files of MNIST and Morpho-MNIST, gzipped or not."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from cfgen.errors import UserError

__all__ = ["find_idx", "read_idx"]

_UNSIGNED_BYTE = 0x08
_MOST_BYTES = 500_000_000  # MNIST's largest has 47 million


def find_idx(folder: Path, name: str) -> Path | None:
    """The file `name` in `folder`, or its gzipped form."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """The uint8 array of `ndim` dimensions in an idx file: 0, 0, type, ndim, the sizes (big-endian), then the bytes."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)  # a small file can unpack to more than memory holds
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is truncated or damaged: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise UserError(f"{path} holds more than {_MOST_BYTES:,} bytes: it is not what is expected here")
    start = 4 + 4 * ndim
    if len(data) < start or data[:4] != bytes([0, 0, _UNSIGNED_BYTE, ndim]):
        raise UserError(
            f"{path} is not an idx file of bytes in {ndim} dimension(s): it begins with {data[:4].hex(' ')!r}"
        )
    shape = [int(size) for size in np.frombuffer(data[4:start], dtype=">u4")]
    wanted, found = math.prod(shape), len(data) - start
    if found != wanted:
        problem = "truncated" if found < wanted else "too long"
        raise UserError(f"{path} is {problem}: its header promises {wanted} bytes of data, it holds {found}")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape).copy()  # the bytes cannot be written to
