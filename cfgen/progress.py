"""A progress bar on stderr, or one line where that is no terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["progress"]


@contextlib.contextmanager
def progress(task: str, total: int, done: int = 0, unit: str = "images") -> Iterator[Callable[[int], None]]:
    """Shows `task` and how much of it is done; yields the function to call with each further amount."""
    console = Console(stderr=True)
    if not console.is_terminal:
        rest = f", {done:,} of them done before" if done else ""
        console.print(f"{task}: {total:,} {unit}{rest}", highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task(task, total=total, completed=done)
        yield lambda amount: bar.advance(row, amount)
