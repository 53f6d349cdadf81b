"""Runs that need an earlier run: a finished one is used, an interrupted one resumed, a missing one trained first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cfgen.attributes import unknown_name
from cfgen.checkpoints import CARD, found_class, located, packaged_models
from cfgen.errors import UserError
from cfgen.runs import FINISHED, runs_of

__all__ = ["earlier_runs", "finished_run", "interrupted_run", "ready_run", "stage_arguments"]

# what a run's processes run on is the same in all its stages; how long each trains is its own affair
SHARED_TRAINER = ("accelerator", "devices", "num_nodes", "strategy", "precision")
OWN_DATA = ("batch_size", "flip")  # how a stage goes through the data that all share


def earlier_runs(class_path: str) -> Sequence[str]:
    """The arguments of a module's class that name earlier runs, as its `earlier_runs` says."""
    return getattr(found_class(class_path), "earlier_runs", ())


def finished_run(root: Path, name: str) -> Path | None:
    """The newest run of that name that was trained to its end."""
    return next((run for run in runs_of(root, name) if (run / FINISHED).is_file()), None)


def interrupted_run(root: Path, name: str, config: Mapping[str, Any]) -> Path | None:
    """The newest run of that name, if it has a checkpoint, was not trained to its end, and had this very config."""
    newest = next(iter(runs_of(root, name)), None)
    if newest is None or (newest / FINISHED).is_file() or not (newest / "last.ckpt").is_file():
        return None
    try:
        same = yaml.safe_load((newest / "config.yaml").read_text()) == config
    except (OSError, yaml.YAMLError):
        return None
    return newest if same else None


def ready_run(value: str, root: Path, configs: Sequence[str], train: Callable[[str], None]) -> Path:
    """What `value` names: one of the user's runs or a packaged model as it is; of a config, its newest finished run, trained
    where needed."""
    path = Path(value)
    if not path.exists() and value in packaged_models():
        return located(value)
    if path.exists() and path.suffix not in (".yaml", ".yml"):
        if path.is_dir() and not (path / CARD).is_file() and not any(path.glob("**/*.ckpt")):
            raise UserError(
                f"{value} holds no checkpoint: give a run folder, or the name of a config to train it first"
            )
        return path
    name = path.stem if path.suffix in (".yaml", ".yml") else value
    if not path.exists() and name not in configs:
        raise UserError(f"no run at {value}, and {unknown_name('config', name, configs)}")
    found = finished_run(root, name)
    if found is None:
        train(value)
        found = finished_run(root, name)
        if found is None:
            raise UserError(f"{name} was interrupted: the same command goes on with it")
    return found


def stage_arguments(stage: str, outer: Mapping[str, Any], root: str) -> list[str]:
    """The command of an earlier stage: its own config, on the data and the devices of the run that needs it."""
    shared = {key: value for key, value in outer["data"]["init_args"].items() if key not in OWN_DATA}
    data = json.dumps({"class_path": outer["data"]["class_path"], "init_args": shared})
    words = ["--config", stage, "--runs_dir", root, f"--data={data}"]
    words.append(f"--seed_everything={json.dumps(outer['seed_everything'])}")
    for key in SHARED_TRAINER:
        value = outer["trainer"].get(key)
        if value is not None:
            words.append(f"--trainer.{key}={value if isinstance(value, str) else json.dumps(value)}")
    return words
