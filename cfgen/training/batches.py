"""The loop over the batches of an epoch, which can be stopped, saved and gone on with between any two of them."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.loops.training_epoch_loop import _TrainingEpochLoop
from torch import Tensor

from callbacks import Autosave, EpochSeed
from cfgen.errors import Terminated, UserError
from cfgen.runs.folders import CHECKPOINT
from cfgen.training.signals import Signals

__all__ = ["BatchLoop", "use_batch_loop"]


class BatchLoop(_TrainingEpochLoop):
    """Lightning's loop, which between two batches saves what is due, and stops where a signal asked for it, on all processes.

    Lightning's own hooks lie within a batch: a checkpoint that they write lacks what the hooks after them do.  Between two
    batches a run is its weights, optimisers, schedules, counters, and the states of the random generators of each process,
    which are saved with them.  Going on, the loader is wound forward to where it was.
    """

    signals: Signals | None = None
    folder: Path | None = None  # of the run; known to the first process, which tells the others
    _random_saved: list[dict[str, Any]] | None = None
    _random_loaded: list[dict[str, Any]] | None = None
    _started = False

    def run(self, data_fetcher: Any) -> None:
        if not self._started:
            self._started = True
            self.folder = self.trainer.strategy.broadcast(self.folder)
        super().run(data_fetcher)

    def advance(self, data_fetcher: Any) -> None:
        done = self.batch_progress.current.completed
        goes_on = self.restarting and not self._num_ready_batches_reached()
        if done == 0 or goes_on:
            for callback in self._callbacks(EpochSeed):
                callback.seed_loader(self.trainer)
        if goes_on:
            self._wind_forward(data_fetcher, done)
        if self.signals is not None:
            self.signals.asks = True
        self._between_batches()
        super().advance(data_fetcher)

    def _broadcast_sigterm_tensor(self) -> None:
        """Signals are asked for in `_between_batches`, on whichever process they arrived."""

    def _between_batches(self) -> None:
        heard = 0 if self.signals is None else self.signals.received
        autosave = next(self._callbacks(Autosave), None)
        due = autosave is not None and autosave.due and self.trainer.is_global_zero  # one clock for all
        if self.trainer.world_size > 1:
            asked = torch.tensor([heard, int(due)], device=self.trainer.strategy.root_device)
            dist.all_reduce(asked, dist.ReduceOp.MAX)
            heard, due = int(asked[0]), bool(asked[1])
        trained = self.global_step > 0 and self.folder is not None
        if trained and autosave is not None and (heard or due):
            self._save()
            autosave.saved = time.monotonic()
        if heard:
            raise Terminated(heard)

    def _save(self) -> None:
        assert self.folder is not None
        state = random_state(self.trainer.strategy.root_device)
        states: list[Any] = [state]
        if self.trainer.world_size > 1:
            states = [None] * self.trainer.world_size
            dist.all_gather_object(states, state)
        self._random_saved = states
        try:
            self.trainer.save_checkpoint(self.folder / CHECKPOINT, weights_only=False)
        finally:
            self._random_saved = None

    def on_save_checkpoint(self) -> dict[str, Any]:
        state = super().on_save_checkpoint()
        if self._random_saved is not None:
            state["random"] = self._random_saved
        return state

    def on_load_checkpoint(self, state_dict: dict[str, Any]) -> None:
        super().on_load_checkpoint(state_dict)
        self._random_loaded = state_dict.get("random")

    def _wind_forward(self, data_fetcher: Any, done: int) -> None:
        """Passes by the batches of this epoch that were trained on already, and restores the random generators."""
        states, self._random_loaded = self._random_loaded, None
        if states is not None and len(states) != self.trainer.world_size:
            raise UserError(
                f"the run was stopped in the middle of an epoch on {len(states)} process(es), and now there are "
                f"{self.trainer.world_size}: use as many until the epoch has ended",
                argument="trainer.devices",
            )
        data_fetcher.fetched = 0  # Lightning has counted them already
        for _ in range(done):
            next(data_fetcher)
        if states is not None:
            restore_random(states[self.trainer.global_rank], self.trainer.strategy.root_device)
            # saved between batches: a validation that was due there is done, and none is half done
            self._restarting = False

    def _callbacks(self, kind: type[Any]) -> Any:
        return (one for one in self.trainer.callbacks if isinstance(one, kind))  # type: ignore[attr-defined]


def use_batch_loop(trainer: pl.Trainer) -> None:
    """Puts the loop into a Trainer that has just been made."""
    loop = trainer.fit_loop.epoch_loop
    trainer.fit_loop.epoch_loop = BatchLoop(trainer, loop.min_steps, loop.max_steps)


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of this process's random generators, as values that a checkpoint can hold."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002  # what user code may draw from
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": [version, list(numbers), gauss],
        "numpy": [str(name), torch.from_numpy(np.asarray(keys, dtype=np.int64)), int(position), int(has_gauss), float(cached)],
    }  # fmt: skip
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random(state: dict[str, Any], device: torch.device) -> None:
    """Puts the random generators of this process back to where `random_state` found them."""
    torch.set_rng_state(state["torch"])
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, _unsigned(keys), *rest))  # noqa: NPY002
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


def _unsigned(keys: Tensor) -> Any:
    return keys.numpy().astype(np.uint32)
