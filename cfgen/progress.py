"""A progress bar on stderr, or one line where that is no terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

__all__ = ["Progress", "progress", "reported"]

Report = Callable[[str, int, int], None]
Progress = bool | Report
"""Whether a bar is shown; or a function that is told the task, how much of it is done, and of how much.  It may raise to stop."""


@contextlib.contextmanager
def progress(task: str, total: int, done: int = 0, unit: str = "images") -> Iterator[Callable[[int], None]]:
    """Shows `task` and how much of it is done; yields the function to call with each further amount."""
    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        rest = f", {done:,} of them done before" if done else ""
        console.print(f"{task}: {total:,} {unit}{rest}", highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task(task, total=total, completed=done)
        yield lambda amount: bar.advance(row, amount)


@contextlib.contextmanager
def reported(how: Progress, task: str, total: int, unit: str = "images") -> Iterator[Callable[[int], None]]:
    """As `progress`, where a bar is wanted; nothing where not; or the function that wants to know is told.

    >>> with reported(print, "auditing", 20) as advance:
    ...     advance(15)
    ...     advance(15)  # an estimate of what other processes did may run over
    auditing 0 20
    auditing 15 20
    auditing 20 20
    """
    if how is True:
        with progress(task, total, unit=unit) as advance:
            yield advance
    elif how is False:
        yield lambda amount: None
    else:
        done = 0

        def tell(amount: int) -> None:
            nonlocal done
            done = min(total, done + amount)
            how(task, done, total)

        tell(0)
        yield tell
