"""Work on many images in blocks: bounded memory, all cores, a report after each block."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from numba import config

Progress = Callable[[int], None]


def over_blocks(count: int, size: int, work: Callable[[slice], None], progress: Progress | None = None) -> None:
    """Call `work` on slices of at most `size` of `count` images, on `NUMBA_NUM_THREADS` threads.

    Compiled code releases the interpreter lock, so plain threads scale. Numba's own parallel loops would tie the
    package to a threading layer that breaks when a data loader forks or when two threads measure at once.
    """
    threads = min(config.NUMBA_NUM_THREADS, -(-count // size))  # type: ignore[attr-defined]  # set at import
    if threads <= 1:
        for block in _blocks(count, size):
            work(block)
            if progress is not None:
                progress(block.stop - block.start)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending = {pool.submit(work, block): block.stop - block.start for block in _blocks(count, size)}
        try:
            for done in as_completed(pending):
                done.result()
                if progress is not None:
                    progress(pending[done])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def block_size(pixels: int) -> int:
    """How many images of so many (enlarged) pixels make a block that stays in a core's cache."""
    return max(1, min(64, 2**20 // max(pixels, 1)))


def _blocks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
