"""Several processes that share work: started by Lightning, the same numbers on each, shut down in order."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from cfgen.errors import LostProcess, UserError

__all__ = ["Processes", "Watch", "end_process_group", "join_restarted_group", "lost_process", "watched_launcher"]

STARTED_BY = "CFGEN_STARTED_BY"  # an environment variable: the process that started the others
# most of gloo's messages begin with the name of its file; that of a pair which an earlier timeout has closed does not
BROKEN = re.compile(
    r"gloo|NCCL|TCPStore|onnection (closed|reset|refused)|process group|pair closure|socket timeout", re.IGNORECASE
)
TOO_LONG = re.compile(r"time[d -]*out", re.IGNORECASE)
GRACE = 10.0  # seconds in which a process that has lost another one ends by itself


class Ended(NamedTuple):
    """A process of this run that has ended, and not well: its rank on this machine, and its exit code where it is known."""

    rank: int
    pid: int
    code: int | None = None

    def __str__(self) -> str:
        how = "ended" if self.code is None else f"ended with exit code {self.code}"
        if self.code is not None and self.code < 0:
            how = f"was killed ({signal.Signals(-self.code).name})"
        return f"process {self.rank} of this run (pid {self.pid}) {how}"


class Watch(threading.Thread):
    """Notices when another process of this run has died: the first watches those that it started, they watch the first.

    Lightning kills the first process, at once and without a word.  Here the others are ended, so that this one's next exchange
    with them fails, and whoever runs the command says what happened.  If it has not come to that after `GRACE` seconds,
    because it waits where nothing fails, that is printed and the process exits with code 1.
    """

    current: ClassVar[Watch | None] = None  # of this process
    remedy: ClassVar[Callable[[], str]] = staticmethod(lambda: "Run the command again")  # what to do about it

    def __init__(self, children: list[subprocess.Popen[Any]]) -> None:
        super().__init__(daemon=True, name="watch")
        self.children = children
        started_by = int(os.environ.get(STARTED_BY, "0"))  # may have ended already
        self.parent = started_by if started_by not in (0, os.getpid()) else None
        self.lost: Ended | None = None
        self.over = False
        Watch.current = self

    def run(self) -> None:
        while self.lost is None:
            if self.over:
                return
            time.sleep(0.2)
            self.lost = self._ended()
        for child in self.children:  # they may wait where they hear no signal
            _kill(child)
        time.sleep(GRACE)
        if not self.over:
            print(f"error: {self.lost}. {Watch.remedy()}", file=sys.stderr, flush=True)
            os._exit(1)

    def _ended(self) -> Ended | None:
        for rank, child in enumerate(self.children, 1):
            if child.poll():
                return Ended(rank, child.pid, child.returncode)
        if self.parent is not None and os.getppid() != self.parent:
            return Ended(0, self.parent)
        return None

    def found(self, wait: float = 3.0) -> Ended | None:
        """The process that was lost, once that is known: its end shows in an exchange before the system tells of it."""
        end = time.monotonic() + wait
        while self.lost is None and time.monotonic() < end:
            time.sleep(0.05)
        return self.lost

    def end_others(self, wait: float) -> None:
        """Ends the processes that this one started, if they do not end by themselves."""
        end = time.monotonic() + wait
        for child in self.children:
            try:
                child.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill(child)


def _kill(child: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(OSError):
        child.kill()
        child.wait()


def watched_launcher(launcher: Any) -> Any:
    """A launcher of processes like this one of Lightning's, with a `Watch` in place of Lightning's own."""

    class Watched(type(launcher)):  # type: ignore[misc]  # there is one for Fabric and one for the Trainer
        def launch(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not self.cluster_environment.creates_processes_externally:
                os.environ[STARTED_BY] = str(os.getpid())
                self._call_children_scripts()  # from now on they count as started by somebody else
            before = Watch.current
            if before is None or before.over:
                Watch(self.procs or ([] if before is None else before.children)).start()
            return super().launch(function, *args, **kwargs)

    return Watched(launcher.cluster_environment, launcher.num_processes, launcher.num_nodes)


def _is_broken_exchange(error: BaseException) -> bool:
    """Whether an exchange between processes has failed, by the end of another one or by a wait that was too long."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and bool(BROKEN.search(str(error))))


def lost_process(error: BaseException) -> BaseException | None:
    """What to raise for an exchange that failed; None where no other process is to blame."""
    if not _is_broken_exchange(error):
        return None
    watch = Watch.current
    ended = None if watch is None else watch.found()
    if ended is not None:
        return LostProcess(f"{ended}. {Watch.remedy()}")
    if watch is not None and watch.parent is not None:
        return SystemExit(1)  # the first process is there, and says it for all
    if TOO_LONG.search(str(error)):
        return LostProcess(f"another process of this run is there and does not answer. {Watch.remedy()}")
    return LostProcess(f"another process of this run has ended. {Watch.remedy()}")


class Processes:
    """How a command runs: on which device, and as which of how many processes.

    `accelerator` and `devices` are Lightning's.  By default there is one process on the CPU, which needs nothing started;
    `launch` starts the others, each of which runs the whole command and comes to the same call.

    >>> processes = Processes()
    >>> processes.launch()
    >>> processes.share, processes.first
    ((0, 1), True)
    """

    def __init__(self, accelerator: str = "cpu", devices: int | str = 1) -> None:
        self._fabric: Any = None
        self._launched = False
        self.rank, self.count, self.device = 0, 1, torch.device("cpu")
        if accelerator == "cpu" and str(devices) == "1":
            return
        from lightning_fabric import Fabric  # these are imported only where needed: they take seconds
        from lightning_fabric.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

        wanted = int(devices) if str(devices).lstrip("-").isdigit() else devices
        try:
            self._fabric = Fabric(accelerator=accelerator, devices=wanted)
        except Exception as error:  # Lightning has many ways of refusing
            told = " ".join(str(error).split())
            argument = "accelerator" if "accelerator" in told else "devices"
            raise UserError(
                f"accelerator {accelerator} with devices {devices} cannot be used: {told}", argument
            ) from error
        if isinstance(self._fabric.strategy.launcher, _SubprocessScriptLauncher):
            self._fabric.strategy._launcher = watched_launcher(self._fabric.strategy.launcher)
        self._place()

    def _place(self) -> None:
        fabric = self._fabric
        self.rank, self.count, self.device = fabric.global_rank, fabric.world_size, fabric.device

    def launch(self) -> None:
        """Starts the other processes, unless they run already; call it when nothing is left to refuse."""
        if self._fabric is not None and not self._launched:
            # its lines about ranks and addresses tell a user nothing
            log = logging.getLogger("lightning_fabric.utilities.rank_zero")
            level = log.level
            log.setLevel(logging.WARNING)
            self._fabric.launch()
            log.setLevel(level)
            self._launched = True
            self._place()

    @property
    def first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        """This process's part of the work, as `sweep` takes it."""
        return self.rank, self.count

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, on each of them; where others have 0, that is a value to the bit."""
        if self.count == 1:
            return values
        try:
            return self._fabric.all_reduce(values.to(self.device, copy=True), reduce_op="sum").to(values.device)
        except RuntimeError as error:
            if (lost := lost_process(error)) is not None:
                raise lost from error
            raise


def join_restarted_group(backend: str, timeout: timedelta | None) -> None:
    """Starts the process group of processes that torchrun has started again; does nothing elsewhere.

    torchrun may keep its store from one start to the next, and in it the addresses of the processes that have died: those of
    this start go under a name of their own.
    """
    values = os.environ
    restarts = int(values.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if restarts == 0 or values.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or dist.is_initialized():
        return
    address, port, rank, count = (values[key] for key in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"))
    store = dist.TCPStore(address, int(port), int(count), is_master=False)
    dist.init_process_group(
        backend,
        store=dist.PrefixStore(f"cfgen_restart_{restarts}", store),
        rank=int(rank),
        world_size=int(count),
        timeout=timeout,
    )


def end_process_group(succeeded: bool = True) -> None:
    """Ends the process group before the interpreter does; commands and tests that started one call it last.

    Gloo's threads hold the tensors of the last collective.  Left to the interpreter's exit, such a thread may ask for Python
    while that is being taken down, and the process aborts after all its work is done.  Where everything went well, processes
    wait for each other first; one that failed does not, for the others may be waiting for it.
    """
    if dist.is_available() and dist.is_initialized():
        with contextlib.suppress(RuntimeError):  # another process may have failed, and says so itself
            if succeeded:
                dist.barrier()
            dist.destroy_process_group()
    if (watch := Watch.current) is not None:
        watch.over = True
        if not succeeded:
            watch.end_others(wait=5.0)
