"""A config for data of one's own: an HVAE sized for the machine and the data, by a rule that docs/data.md states."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from cfgen.attributes import Binary, Categorical, Continuous, Schema
from cfgen.contracts import ImageData, measured_names
from cfgen.errors import UserError
from cfgen.io.writing import write_new
from cfgen.networks.hierarchy import levels_for

__all__ = ["Machine", "Recipe", "recipe_for"]

HOURS = 2.0  # that training may take on CPU cores
VIEWS, PASSES = 250_000, 12  # images to see in training: so many, or so many times the training split if that is more
FEWEST_EPOCHS, MOST_EPOCHS = 3, 100
SECONDS = 0.03  # for an image of 64 pixels at width 1 on one core; grows with size^1.5 and width^0.5
MEGABYTES = 15  # of memory for an image of 64 pixels in training; grows with size^1.5
WIDTHS = (1.0, 0.75, 0.5)


@dataclass(frozen=True)
class Machine:
    """What training has to work with."""

    cores: int
    memory: float  # gigabytes
    gpu: bool

    @classmethod
    def this(cls) -> Machine:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if torch.cuda.is_available():
            return cls(cores, torch.cuda.get_device_properties(0).total_memory / 1e9, gpu=True)
        known = hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9 if known else 8.0
        return cls(cores, memory, gpu=False)

    def __str__(self) -> str:
        where = "a GPU with" if self.gpu else f"{self.cores} core{'' if self.cores == 1 else 's'} and"
        return f"{where} {self.memory:.0f} GB of memory"


@dataclass(frozen=True)
class Recipe:
    """A complete config, and why it is so."""

    config: dict[str, Any]
    reasons: list[str]

    def text(self) -> str:
        """The config as YAML, under its reasons."""
        body = yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
        return "".join(f"# {reason}\n" for reason in self.reasons) + body

    def save(self, path: str | Path) -> Path:
        """Writes the config; an existing file is never replaced."""
        path = Path(path)
        if not write_new(path, self.text().encode()):
            raise UserError(f"{path} exists already; choose another name", argument="write")
        return path


def recipe_for(data: ImageData, section: Mapping[str, Any], title: str, machine: Machine | None = None) -> Recipe:
    """The recipe for a data set that was read; `section` is the config's `data`, class path and options."""
    machine = machine or Machine.this()
    try:
        levels_for(data.image_shape)
    except UserError as error:
        raise UserError(str(error), argument="write") from None
    size, rows = data.image_shape[-1], len(data.images("train"))
    views = max(VIEWS, PASSES * rows) * (3 if machine.gpu else 1)
    # a second core is worth less than the first
    budget = math.inf if machine.gpu else HOURS * 3600 * machine.cores**0.7
    width = next((width for width in WIDTHS if views * seconds(size, width) <= budget), WIDTHS[-1])
    affordable = budget / (rows * seconds(size, width))
    epochs = round(min(max(min(views / rows, affordable), FEWEST_EPOCHS), MOST_EPOCHS))
    batch_size = batch_for(size, rows, machine)
    every = max(1, epochs // 10)
    epochs -= epochs % every  # the last epoch is validated, too
    steps = epochs * (rows // batch_size)
    plain = all(isinstance(attribute, Binary) for attribute in data.schema.attributes.values())
    model: dict[str, Any] = {"width": 2 * width if machine.gpu else width, "latent_dim": 64 if size <= 32 else 128}
    if plain:
        model |= {"kl": 2, "independence": 3, "counterfactual": 0.6, "threshold": 0.4, "lr": 1.5e-3}
    else:
        model |= {"deviation": 0.035, "reconstruction_l1": 10, "independence": 1, "counterfactual": 5, "adversary": 0.15,
            "joint": 0.4, "fade": 1, "lr": 2e-3}  # fmt: skip
    model |= {"ema_decay": 0.999 if steps >= 5000 else 0.99, "warmup": min(400, max(1, steps // 10))}
    rows_shown, columns_shown = shown_interventions(data.schema, data.columns("train"))
    grids = {"rows": rows_shown, "columns": columns_shown, "every_n_epochs": every}
    measured = bool(measured_names(data, data.schema))
    measuring = [{"class_path": "callbacks.MedianAbsError", "init_args": {"images": 1000}}] if measured else []
    monitor = "val/median_abs_error/relative" if measured else "val/mse_x"
    options = dict(section.get("init_args") or {}) | {"batch_size": batch_size}
    config = {
        "model": {"class_path": "lightning_modules.HVAE", "init_args": model},
        "data": {"class_path": section["class_path"], "init_args": options},
        "trainer": {
            "max_epochs": epochs,
            "check_val_every_n_epoch": every,
            "num_sanity_val_steps": 0,
            "callbacks": [
                {"class_path": "callbacks.ImageGrids", "init_args": grids},
                *measuring,
                {"class_path": "callbacks.BestCheckpoint", "init_args": {"monitor": monitor}},
            ],
        },
    }
    cost = "" if machine.gpu else f", about {duration(epochs * rows * seconds(size, width) / machine.cores**0.7)}"
    kinds = "all attributes are binary" if plain else "not all attributes are binary"
    reasons = [
        f"HVAE on {title}, written by `cfgen data`; docs/data.md has the rule.",
        f"{rows:,} training images of {size} pixels, {machine}: {epochs} epochs{cost}.",
        f"The losses are those of {'faces' if plain else 'morphomnist'}_hvae_cpu, for {kinds}.",
    ]
    return Recipe(config, reasons)


def seconds(size: int, width: float) -> float:
    """What an image costs in training, on one core."""
    return float(SECONDS * (size / 64) ** 1.5 * width**0.5)


def batch_for(size: int, rows: int, machine: Machine) -> int:
    """64 images of 28 pixels and fewer of larger ones, as the packaged recipes have it; four times as many on a GPU.

    It is halved until half the memory holds it and an epoch has at least eight steps.
    """
    batch = 2 ** min(6, max(3, math.ceil(math.log2(64 * (28 / size) ** 2)))) * (4 if machine.gpu else 1)
    while batch > 2 and (batch * MEGABYTES * (size / 64) ** 1.5 > 500 * machine.memory or 8 * batch > rows):
        batch //= 2
    return batch


def shown_interventions(
    schema: Schema, columns: Mapping[str, Any]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """What the grids of a run show: the first discrete attribute down, the others across, a dozen at most."""
    values: dict[str, list[Any]] = {}
    for name, attribute in schema.attributes.items():
        match attribute:
            case Continuous():
                quantiles = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
                found = columns[name].double().quantile(quantiles).tolist()
                values[name] = [float(f"{value:.3g}") for value in found]
            case Categorical():
                values[name] = list(attribute.values[:4])
            case Binary():
                values[name] = [0, 1]
    first = next((name for name in values if name not in schema.continuous), next(iter(values)))
    across, number = {}, 0
    for name, asked in values.items():
        if name != first and number + len(asked) <= 12:
            across[name] = asked
            number += len(asked)
    return {first: values[first]}, across


def duration(seconds: float) -> str:
    """
    >>> duration(250), duration(7000)
    ('5 minutes', '1.9 hours')
    """
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minute{'' if minutes == 1 else 's'}" if minutes < 100 else f"{seconds / 3600:.1f} hours"
