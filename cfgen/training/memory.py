"""The memory that a training step takes: counted on a few images before training starts, and held against what is free."""

from __future__ import annotations

import copy
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from cfgen.attributes import Binary, Categorical, Schema
from cfgen.batch import Batch
from cfgen.errors import UserError
from cfgen.networks.sizes import SIZES

__all__ = ["StepMemory", "available_memory", "check_memory", "free_memory", "step_memory"]

# images of the two rehearsals; of fewer, a part of a batch may be a single image, which is copied less often
FEW, MORE = 4, 6
STEPS = 2  # some penalties are due in the first step only, and an optimiser has its state from the second on
COMFORT = 0.8  # share of the free memory that is used without a word of warning: data and Python need some too
MARGIN = 1.25  # a step is refused where it takes more than this times the free memory: what others hold may become free


@dataclass(frozen=True)
class StepMemory:
    """Bytes that are held at every moment of a training step: `fixed`, and `per_image` for each image of the batch."""

    fixed: np.ndarray
    per_image: np.ndarray

    def peak(self, batch_size: int) -> int:
        """What a step holds at most."""
        return round(float((self.fixed + self.per_image * batch_size).max()))

    def largest_batch(self, size: float) -> int:
        """The largest batch whose step fits into so many bytes; 0 where none does."""
        low, high = 0, 1
        while self.peak(high) <= size and high < 2**20:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.peak(middle) <= size else (low, middle)
        return low


class LiveBytes(TorchDispatchMode):
    """Follows every tensor that torch makes and frees; `curve` has the bytes that are held after each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self.curve = 0, list[int]()
        self._known: set[int] = set()

    def count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.live += size
            weakref.finalize(storage, self._freed, key, size)  # with the last of the tensors that share it

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, list | tuple) else [made]:
            if isinstance(one, Tensor):
                self.count(one)
        self.curve.append(self.live)
        return made


def step_memory(
    module: pl.LightningModule, scm: dict[str, Any], image_shape: Sequence[int], trainer: pl.Trainer | None = None
) -> StepMemory:
    """What a training step of the module takes, for images of this shape and attributes of that Attribute-SCM.

    A copy of the module is trained for two steps on four random images and on six, on the CPU.  Torch does the same with
    any number of images, so what is held at each moment is a line in that number.  The module, torch's random numbers and the
    trainer, which says the precision, stay as they are.
    """
    few, more = (live_bytes(module, scm, image_shape, images, trainer) for images in (FEW, MORE))
    if len(few) != len(more):  # what is done depends on the images: the two peaks are all that can be compared
        few, more = few.max(keepdims=True), more.max(keepdims=True)
    per_image = (more - few) / (MORE - FEW)
    return StepMemory(few - FEW * per_image, per_image)


def live_bytes(
    module: pl.LightningModule,
    scm: dict[str, Any],
    image_shape: Sequence[int],
    images: int,
    trainer: pl.Trainer | None = None,
) -> np.ndarray:
    """Bytes held after each operation of the first training steps on so many images."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        rehearsed = rehearsal(copy.deepcopy(module))
        batch: Any = random_batch(Schema(scm["attributes"]), image_shape, images)
        with in_precision_of(trainer, rehearsed, batch) as (rehearsed, batch), LiveBytes() as counted:
            for tensor in (*rehearsed.parameters(), *rehearsed.buffers()):
                counted.count(tensor)
            train_steps(rehearsed, batch)
        return np.array(counted.curve, dtype=np.float64)


def train_steps(rehearsed: Any, batch: Any) -> None:
    """The first training steps of a `rehearsal`, all on the same batch."""
    optimisers = listed_optimisers(rehearsed.configure_optimizers())
    rehearsed.optimizers = lambda: [as_lightning_has_it(one) for one in optimisers]
    for step in range(STEPS):
        loss = rehearsed.training_step(batch, step)
        if rehearsed.automatic_optimization:
            optimisers[0].zero_grad()
            (loss["loss"] if isinstance(loss, dict) else loss).backward()
            optimisers[0].step()
        del loss


def rehearsal(module: pl.LightningModule) -> Any:
    """The module with as much of a trainer as a training step asks for, and nothing that is kept or logged."""
    stage: Any = module
    stage.log = stage.log_dict = lambda *values, **options: None
    stage.manual_backward = lambda loss, *values, **options: loss.backward(*values, **options)
    stage.clip_gradients = lambda optimiser, gradient_clip_val, **options: torch.nn.utils.clip_grad_norm_(
        [p for group in optimiser.optimizer.param_groups for p in group["params"]], gradient_clip_val
    )
    stage.lr_schedulers = lambda: None
    strategy = SimpleNamespace(optimizer_step=lambda optimiser, closure: optimiser.step())
    stage._trainer = SimpleNamespace(
        strategy=strategy,
        datamodule=None,
        global_step=0,
        current_epoch=0,
        estimated_stepping_batches=STEPS,
        world_size=1,
    )
    return stage


@contextmanager
def in_precision_of(trainer: pl.Trainer | None, module: Any, batch: Batch) -> Iterator[tuple[Any, Any]]:
    """The module and the batch as the trainer's precision has them, and its context."""
    if trainer is None:
        yield module, batch
        return
    plugin = trainer.precision_plugin
    with plugin.train_step_context():
        yield plugin.convert_module(module), plugin.convert_input(batch)


def random_batch(schema: Schema, image_shape: Sequence[int], images: int) -> Batch:
    """Random images with random attributes; their target is 0, which every kind of target has."""
    a = torch.rand(images, schema.size)
    for name, kind in schema.attributes.items():
        part = schema.slices[name]
        if isinstance(kind, Binary):
            a[:, part] = a[:, part].round()
        elif isinstance(kind, Categorical):
            a[:, part] = torch.eye(kind.size)[torch.arange(images) % kind.size]
    return Batch(torch.rand(images, *image_shape), a, torch.zeros(images, dtype=torch.long))


def listed_optimisers(configured: Any) -> list[Optimizer]:
    """The optimisers in what `configure_optimizers` returns: one, several, in a dict, or beside their schedules."""
    if isinstance(configured, Optimizer):
        return [configured]
    if isinstance(configured, dict):
        return [configured["optimizer"]]
    first = configured[0]
    return (
        list(first)
        if isinstance(first, list | tuple)
        else [one for part in configured for one in listed_optimisers(part)]
    )


def as_lightning_has_it(optimiser: Optimizer) -> Any:
    return SimpleNamespace(optimizer=optimiser, zero_grad=optimiser.zero_grad, step=optimiser.step)


def check_memory(module: pl.LightningModule, data: Any, trainer: pl.Trainer, tell: Callable[[str], None]) -> None:
    """Says what a step of this run takes and what is free; refuses a run that will not fit, with a batch or size that would.

    A module or data of the user's own for which nothing can be counted is left alone, and this is said.
    """
    device = trainer.strategy.root_device
    # processes on CPUs share the machine's memory, and each keeps a copy of the gradients to exchange
    processes = trainer.num_devices
    shared = processes if device.type == "cpu" else 1
    try:
        memory, batch_size = step_memory(module, data.scm_spec, data.image_shape, trainer), int(data.batch_size)
    except Exception as error:  # whatever a class of the user's own asks of a trainer, or of its data
        reason = (str(error).splitlines() or [""])[0][:150]
        tell(f"memory: a training step could not be tried out in advance ({type(error).__name__}: {reason})")
        return
    if processes > 1:
        exchanged = sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad)
        memory = StepMemory(memory.fixed + exchanged, memory.per_image)
    need, free = shared * memory.peak(batch_size), free_memory(device)
    takes = f"a training step on {batch_size} images takes about {gigabytes(need)}"
    takes += f" in {shared} processes" if shared > 1 else ""
    if free is None:
        tell(f"memory: {takes}")
    elif need <= MARGIN * free:
        tight = (
            ""
            if need <= COMFORT * free
            else f", which may not suffice; {fitting(memory, COMFORT * free / shared, data.image_shape[-1])}"
        )
        tell(f"memory: {takes}, and {gigabytes(free)} are free{tight}")
    else:
        raise UserError(
            f"{takes}, and {gigabytes(free)} are free; {fitting(memory, COMFORT * free / shared, data.image_shape[-1])}, "
            "or train anyway with check_memory: false",
            argument="batch_size",
        )


def fitting(memory: StepMemory, size: float, pixels: int) -> str:
    """What would fit into so many bytes: a batch, or else smaller images."""
    batch_size = memory.largest_batch(size)
    if batch_size >= 2:
        return f"{batch_size} images fit"
    for smaller in sorted((one for one in SIZES if one < pixels), reverse=True):
        share = (smaller / pixels) ** 2  # of the memory of an image; that of the networks falls by less
        if StepMemory(memory.fixed, share * memory.per_image).peak(2) <= size:
            return f"no batch of this size fits; images of {smaller}x{smaller} pixels or a smaller width would"
    return "no batch fits; lower the width of the networks"


def gigabytes(size: float) -> str:
    """
    >>> gigabytes(3.2e9), gigabytes(42e6)
    ('3.2 GB', '42 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"


def free_memory(device: torch.device) -> int | None:
    """Bytes that a device has left; None where nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available_memory() if device.type in ("cpu", "mps") else None


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take: free memory and swap, or less where a container is limited to less.

    Where only the machine's memory is known, as on a Mac, it is that; None where not even that is.
    """
    found = [left for left in (_free_of_machine(root), _free_of_container(root)) if left is not None]
    return min(found, default=None)


def _free_of_machine(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        sizes = {name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return sizes["MemAvailable"] + sizes.get("SwapFree", 0)
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _free_of_container(root: Path) -> int | None:
    """What a control group, version 2 or 1, leaves; the cache of files that it counts is given back when needed."""
    for folder, limit, used, cache in (
        ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = (int((root / folder / name).read_text()) for name in (limit, used))
            stat = dict(line.split() for line in (root / folder / "memory.stat").read_text().splitlines())
            return max(0, most - now + int(stat.get(cache, 0)))
        except (OSError, ValueError):  # no such group, or `max`: no limit
            continue
    return None
