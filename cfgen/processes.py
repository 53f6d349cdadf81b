"""Several processes that share work: started by Lightning, the same numbers on each, shut down in order."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cfgen.errors import UserError

__all__ = ["Processes", "end_process_group"]


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
        from lightning_fabric import Fabric  # imported only where needed: it takes seconds

        wanted = int(devices) if str(devices).lstrip("-").isdigit() else devices
        try:
            self._fabric = Fabric(accelerator=accelerator, devices=wanted)
        except Exception as error:  # Lightning has many ways of refusing
            told = " ".join(str(error).split())
            argument = "accelerator" if "accelerator" in told else "devices"
            raise UserError(
                f"accelerator {accelerator} with devices {devices} cannot be used: {told}", argument
            ) from error
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
        return self._fabric.all_reduce(values.to(self.device, copy=True), reduce_op="sum").to(values.device)


def end_process_group(succeeded: bool = True) -> None:
    """Ends the process group before the interpreter does; commands and tests that started one call it last.

    Gloo's threads hold the tensors of the last collective.  Left to the interpreter's exit, such a thread may ask for Python
    while that is being taken down, and the process aborts after all its work is done.  Where everything went well, processes
    wait for each other first; one that failed does not, for the others may be waiting for it.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    with contextlib.suppress(RuntimeError):  # another process may have failed, and says so itself
        if succeeded:
            dist.barrier()
        dist.destroy_process_group()
