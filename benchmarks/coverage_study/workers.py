"""Work on blocks of a pool, spread over processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from cfgen.progress import progress

_worker: Callable[[slice], Any]


def over_blocks(
    size: int, block: int, kind: Callable[..., Any], arguments: Sequence[Any], processes: int, what: str
) -> dict[str, np.ndarray]:
    """What `kind(*arguments)` returns of each block, joined along the last axis."""
    blocks = [slice(start, min(start + block, size)) for start in range(0, size, block)]
    parts = []
    with (
        progress(what, size) as advance,
        pool_of_processes(processes, kind, arguments) as executor,
    ):
        for part, done in zip(executor.map(work, blocks), blocks, strict=True):
            parts.append(part)
            advance(done.stop - done.start)
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def pool_of_processes(number: int, kind: Callable[..., Any], arguments: Sequence[Any]) -> ProcessPoolExecutor:
    """Processes that hold a worker each.  They are spawned: a forked one would inherit the locks of torch's threads."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(number, mp_context=context, initializer=_start, initargs=(kind, arguments))


def _start(kind: Callable[..., Any], arguments: Sequence[Any]) -> None:
    global _worker
    _worker = kind(*arguments)


def work(item: Any) -> Any:
    """What this process's worker makes of an item."""
    return _worker(item)
