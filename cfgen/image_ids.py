"""Ids of images: random choices about an image depend on its id and a seed, never on its place in a data set."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cfgen.contracts import ImageData
from cfgen.errors import UserError

__all__ = ["id_keys", "image_ids", "random_order", "random_rows"]


def image_ids(data: ImageData, split: str) -> list[str]:
    """The ids of a split's images: file names, or row numbers where the data has no names."""
    named = getattr(data, "ids", None)
    ids = list(named(split)) if callable(named) else [str(row) for row in range(len(data.images(split)))]
    if len(set(ids)) < len(ids):
        repeated = Counter(ids).most_common(1)[0][0]
        raise UserError(f"the {split} split has several images with the id {repeated!r}; ids must be unique")
    return ids


def id_keys(ids: Sequence[str]) -> NDArray[np.uint64]:
    """A hash of each id.

    >>> id_keys(["000001.jpg"])
    array([17403963253282627502], dtype=uint64)
    """
    digests = b"".join(hashlib.blake2b(one.encode(), digest_size=8).digest() for one in ids)
    return np.frombuffer(digests, dtype=np.uint64)


def random_order(ids: Sequence[str], seed: int, purpose: str = "") -> NDArray[np.int64]:
    """A random order of images, the same for the same ids in any order; another purpose has another one.

    >>> ids = ["a", "b", "c", "d"]
    >>> [ids[row] for row in random_order(ids, 0)] == [ids[::-1][row] for row in random_order(ids[::-1], 0)]
    True
    """
    return np.argsort(id_keys([f"{seed}/{purpose}/{one}" for one in ids]), kind="stable")


def random_rows(
    ids: Sequence[str], seed: int, purpose: str, count: int, among: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """The rows of up to `count` images, chosen at random by their ids; of those in a mask where one is given."""
    order = random_order(ids, seed, purpose)
    return np.sort((order if among is None else order[among[order]])[:count])
