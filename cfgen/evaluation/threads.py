"""Batches of images: how many at a time, and several of them side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

__all__ = ["fitting_batch_size", "in_threads", "worker_count"]

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_WORKERS = 8
MOST_IMAGES = 250
# of a batch: above, the system maps a network's larger tensors anew each time, which can double the time
PIXELS = 2**18


def fitting_batch_size(image_shape: Sequence[int]) -> int:
    """How many images of that shape are gone through fastest at a time.

    >>> fitting_batch_size((1, 28, 28)), fitting_batch_size((3, 64, 64))
    (250, 64)
    """
    height, width = image_shape[-2:] if len(image_shape) > 1 else (1, image_shape[0])
    return max(1, min(MOST_IMAGES, PIXELS // (height * width)))


def worker_count(device: torch.device) -> int:
    """As many workers as torch may use threads on a CPU, up to 8; elsewhere one, for a device has its own order."""
    return min(torch.get_num_threads(), MOST_WORKERS) if device.type == "cpu" else 1


def in_threads(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results of `work` on each item, in order; never more items are held than there are workers, and one waiting.

    Workers share torch's threads: batches side by side use cores better than the parts of an operation, which wait for one
    another at its end.
    """
    if workers == 1:
        yield from map(work, items)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // workers))
    try:
        with ThreadPoolExecutor(workers) as pool:
            pending: deque[Future[Result]] = deque()
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
    finally:
        torch.set_num_threads(threads)
