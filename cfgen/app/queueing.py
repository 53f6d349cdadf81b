"""One thread that does the work of many users in turn: nobody waits for more than one request of each other user."""

from __future__ import annotations

import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from cfgen.errors import UserError

__all__ = ["Busy", "FairWorker", "Superseded"]

MOST_WAITING = 200  # requests of all users together


class Superseded(Exception):
    """A newer request of the same user and kind took the place of this one before it was begun."""


class Busy(UserError):
    """More requests wait than the machine will answer soon."""


@dataclass(frozen=True)
class Job:
    kind: str
    work: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class FairWorker:
    """Runs jobs one at a time, one of each client in turn.

    Of a client's jobs of one kind only the newest waits: while a slider is dragged, the picture of the last position counts.

    >>> worker = FairWorker("doctest")
    >>> worker.submit("me", "sum", lambda: 1 + 1).result()
    2
    >>> worker.close()
    """

    def __init__(self, name: str) -> None:
        self._waiting: OrderedDict[str, list[Job]] = OrderedDict()  # by client; the first client is next
        self._changed = threading.Condition()
        self._running: str | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"cfgen-{name}", daemon=True)
        self._thread.start()

    def submit(self, client: str, kind: str, work: Callable[[], Any]) -> Future[Any]:
        """Puts a job into the client's line; one of the same kind that still waits there is superseded."""
        job = Job(kind, work)
        with self._changed:
            if self._closed:
                raise Busy("the app is closing; start it again")
            line = self._waiting.setdefault(client, [])
            for place, older in enumerate(line):
                if older.kind == kind:
                    line[place] = job
                    older.future.set_exception(Superseded())
                    break
            else:
                if sum(map(len, self._waiting.values())) >= MOST_WAITING:
                    if not line:
                        del self._waiting[client]
                    raise Busy(f"{MOST_WAITING} requests are waiting already; try again in a moment")
                line.append(job)
            self._changed.notify_all()
        return job.future

    def position(self, client: str) -> int | None:
        """How many jobs come before the client's next one; None where none of its jobs waits."""
        with self._changed:
            if client not in self._waiting:
                return None
            return list(self._waiting).index(client) + (self._running is not None)

    def wait_until_idle(self, seconds: float) -> None:
        """Returns once nothing runs or waits here, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._running is None and not self._waiting, timeout=seconds)

    def close(self) -> None:
        """Answers what still waits with an error, and ends the thread after the job that it is at."""
        with self._changed:
            self._closed = True
            left = [job for line in self._waiting.values() for job in line]
            self._waiting.clear()
            self._changed.notify_all()
        for job in left:
            job.future.set_exception(Busy("the app is closing; start it again"))

    def _next(self) -> tuple[str, Job] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            client, line = self._waiting.popitem(last=False)
            job = line.pop(0)
            if line:
                self._waiting[client] = line  # behind all others
            self._running = client
            return client, job

    def _run(self) -> None:
        while (found := self._next()) is not None:
            _, job = found
            try:
                job.future.set_result(job.work())
            except UserError as error:
                job.future.set_exception(error)
            except BaseException as error:  # the thread has to go on, whatever a model or a decoder does
                traceback.print_exc()
                job.future.set_exception(error)
            finally:
                with self._changed:
                    self._running = None
                    self._changed.notify_all()
