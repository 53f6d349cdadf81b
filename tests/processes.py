"""A pool of processes that are one gloo group, for all tests that need several: started once, ended in order."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

START, GRACE = 120.0, 5.0  # seconds: for starting (imports), and for a process whose neighbour has failed


class Failed(Exception):
    """What a process raised, with its traceback as text."""


class Pool:
    """Processes with a gloo group of their own, in which Lightning's `devices=count` joins the group that is there.

    `run(function, *arguments)` calls a function of an importable module in every process and returns their results by rank.
    A process that does not answer in time, or waits for one that has failed, cannot be used again: all are killed then, and
    the next call starts others.
    """

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.members: list[tuple[Any, Connection]] = []

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for rank in range(self.count):
            ours, theirs = context.Pipe()
            member = context.Process(target=_serve, args=(rank, self.count, port, theirs), name=f"rank {rank}")
            member.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            self.members.append((member, ours))
        self._answers(START)

    def run(self, function: Callable[..., Any], *arguments: Any, timeout: float = 120.0) -> list[Any]:
        if not self.members:
            self.start()
        for _, pipe in self.members:
            pipe.send((function.__module__, function.__qualname__, arguments))
        return self._answers(timeout)

    def _answers(self, timeout: float) -> list[Any]:
        """Everyone's answer by rank; or `Failed`, with all that went wrong."""
        end = time.monotonic() + timeout
        waiting = {pipe: rank for rank, (_, pipe) in enumerate(self.members)}
        results: dict[int, Any] = {}
        failures: dict[int, str] = {}
        unusable = False
        while waiting:
            ready = wait(list(waiting), max(0.0, end - time.monotonic()))
            if not ready:
                failures |= dict.fromkeys(waiting.values(), "no answer in time")
                unusable = True
                break
            for pipe in ready:
                rank = waiting.pop(pipe)
                try:
                    succeeded, answer = pipe.recv()
                    (results if succeeded else failures)[rank] = answer
                except EOFError:
                    self.members[rank][0].join(GRACE)
                    failures[rank] = f"ended with exit code {self.members[rank][0].exitcode}"
                    unusable = True
            if failures:  # the others may be waiting for the one that failed
                end = min(end, time.monotonic() + GRACE)
        if unusable:
            self.kill()
        if failures:
            raise Failed("\n".join(f"rank {rank}: {text}" for rank, text in sorted(failures.items())))
        return [results[rank] for rank in range(self.count)]

    def kill(self) -> None:
        for member, pipe in self.members:
            member.kill()
            member.join()
            pipe.close()
        self.members = []

    def stop(self) -> list[int | None]:
        """Lets everyone end in order; their exit codes."""
        for _, pipe in self.members:
            pipe.send(None)
        for member, _ in self.members:
            member.join(30)
        codes = [member.exitcode for member, _ in self.members]
        self.kill()
        return codes


def _serve(rank: int, count: int, port: int, pipe: Connection) -> None:
    """A process's life: joins the group, answers calls, leaves in order."""
    # what Lightning looks for: with LOCAL_RANK it starts no processes of its own
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "NODE_RANK": "0", "WORLD_SIZE": str(count)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    import torch.distributed as dist

    from cfgen.processes import end_process_group

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    pipe.send((True, rank))
    while (call := pipe.recv()) is not None:
        module, name, arguments = call
        try:
            function: Any = importlib.import_module(module)
            for part in name.split("."):
                function = getattr(function, part)
            pipe.send((True, function(*arguments)))
        except BaseException:  # also pytest's outcomes, and what cannot be sent
            pipe.send((False, traceback.format_exc()))
    end_process_group()


@pytest.fixture(scope="session")
def two_processes() -> Iterator[Pool]:
    """Two processes that share work, for the whole session; tests that use it are in `xdist_group("two_processes")`."""
    pool = Pool(2)
    yield pool
    codes = pool.stop()
    assert codes in ([0, 0], []), f"processes ended with the exit codes {codes}"
