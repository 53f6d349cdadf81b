"""Where a run starts: from the beginning, from a checkpoint, or in its own folder where it stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cfgen.checkpoints import CONFIG, earlier_runs
from cfgen.errors import UserError
from cfgen.runs.data import LOCAL, read_config
from cfgen.runs.folders import CHECKPOINT, find_last_run, how_to_go_on, last_writer, runs_of
from cfgen.training.cli import FitCLI

__all__ = ["Start", "config_of", "going_on_in", "launcher", "restarted_run", "start_of"]


class Start(NamedTuple):
    """The checkpoint that a run starts from, and the folder of the run that goes on; a new run has a folder of its own."""

    checkpoint: Path | None = None
    folder: Path | None = None


def going_on_in(folder: Path) -> Start:
    """A run that goes on in its folder; one that was stopped before its first checkpoint starts there anew."""
    return Start(folder / CHECKPOINT if (folder / CHECKPOINT).is_file() else None, folder)


def start_of(cli: FitCLI) -> Start:
    """Where `ckpt_path` says that a run starts: a run's folder, a checkpoint, or `last` for the newest run of this name."""
    wanted = cli.config.ckpt_path
    if wanted is None:
        return Start()
    if wanted == "last":
        folder = _last_run(cli)
    elif Path(wanted).is_dir():
        folder = Path(wanted)
    else:
        _require_checkpoint(Path(wanted))
        return Start(Path(wanted))
    start = going_on_in(folder)
    if start.checkpoint is not None:
        _require_checkpoint(start.checkpoint)
    _require_same(config_of(folder), cli.dump(), folder)
    return start


def _last_run(cli: FitCLI) -> Path:
    """The newest run of this name; not where the config is that of another run, which may be a copy, moved or renamed."""
    root, name = Path(cli.config.runs_dir), cli.config.name
    for config in cli.config.config or ():
        own = Path(str(config)).parent
        if Path(str(config)).name == CONFIG and (own / CHECKPOINT).is_file():
            newest = next((run for run in runs_of(root, name) if (run / CHECKPOINT).is_file()), None)
            if newest is None or newest.resolve() != own.resolve():
                raise UserError(
                    f"`last` is the newest run in {root / name}, and the config is that of {own}: {how_to_go_on(own)} "
                    "goes on with it",
                    argument="ckpt_path",
                )
    return find_last_run(root, name, CHECKPOINT)


def _require_checkpoint(path: Path) -> None:
    if not path.is_file():
        raise UserError(
            f"there is no run folder or checkpoint {path}: give one, or 'last' for the newest run's", "ckpt_path"
        )
    try:
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # whatever a torn or foreign file makes of itself
        raise UserError(f"{path} is not a whole checkpoint ({type(error).__name__})", "ckpt_path") from error


def _require_same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Refuses to go on with another model, other data or another seed than a run had; how it is trained may change."""
    wanted = dict(_kept(now))
    changed = [key for key, value in _kept(before) if before and value != wanted.get(key)]
    if changed:
        raise UserError(
            f"{folder} was trained with another value, and a run keeps its model, data and seed: leave it out, or start a new "
            f"run from {folder / CHECKPOINT} (--ckpt_path) with a --config",
            argument=changed[0],
        )


def _kept(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What of a config a run keeps, by option; not where its data and earlier runs lie."""
    for section in ("model", "data"):
        part = config.get(section) or {}
        yield section, part.get("class_path")
        apart = (*LOCAL, *(earlier_runs(part["class_path"]) if section == "model" and part else ()))
        yield from (
            (f"{section}.{key}", value) for key, value in (part.get("init_args") or {}).items() if key not in apart
        )
    yield "seed_everything", config.get("seed_everything")


def config_of(run: Path) -> dict[str, Any]:
    """A run's config; empty where there is none that can be read."""
    try:
        return read_config(run / CONFIG, "data", "model")
    except UserError:
        return {}


def launcher() -> dict[str, Any]:
    """Which torchrun started this process, as `last_writer` keeps it: it starts all processes anew when one has died."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return {}
    return {"torchrun": os.environ["TORCHELASTIC_RUN_ID"], "agent": os.getppid()}


def restarted_run(root: Path, name: str) -> Path | None:
    """The run that this torchrun was training when one of its processes died; None where it starts for the first time."""
    ours = launcher()
    if not ours or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0:
        return None
    other_node = int(os.environ.get("GROUP_RANK", "0")) > 0  # its torchrun is another process than the writer's
    for run in runs_of(root, name):
        writer = last_writer(run)
        if writer.get("torchrun") == ours["torchrun"] and (other_node or writer.get("agent") == ours["agent"]):
            return run
    return None
