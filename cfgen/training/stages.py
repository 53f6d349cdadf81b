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
from cfgen.runs.folders import FINISHED, runs_of

__all__ = ["earlier_runs", "finished_run", "interrupted_run", "ready_run", "stage_arguments"]

# what a run's processes run on is the same in all its stages; how long each trains is its own affair
SHARED_TRAINER = ("accelerator", "devices", "num_nodes", "strategy", "precision")
OWN_DATA = ("batch_size", "flip")  # how a stage goes through the data that all share


def earlier_runs(class_path: str) -> Sequence[str]:
    """The arguments of a module's class that name earlier runs, as its `earlier_runs` says."""
    return getattr(found_class(class_path), "earlier_runs", ())


def finished_run(root: Path, name: str, config: Mapping[str, Any]) -> Path | None:
    """Of the runs of that name that were trained to their end the newest with the model, data and length of this config; else
    the newest with its data, a trial of other settings perhaps; else the newest."""
    runs = [run for run in runs_of(root, name) if (run / FINISHED).is_file()]
    wanted = settings(config)
    alike = {run: [key for key, value in settings(config_of(run)).items() if value == wanted[key]] for run in runs}
    return max(runs, key=lambda run: ("data" in alike[run], len(alike[run]) == len(wanted)), default=None)


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What decides which model comes out of a config, and not where its earlier runs were found or what it ran on."""
    model, data, trainer = (dict(config.get(part) or {}) for part in ("model", "data", "trainer"))
    earlier = earlier_runs(model["class_path"]) if model else ()
    model["init_args"] = {key: value for key, value in (model.get("init_args") or {}).items() if key not in earlier}
    return {
        "model": model,
        "data": data,
        "length": [trainer.get(key) for key in ("max_epochs", "max_steps", "max_time")],
    }


def config_of(run: Path) -> dict[str, Any]:
    """A run's config; empty where there is none that can be read."""
    try:
        return yaml.safe_load((run / "config.yaml").read_text()) or {}
    except (OSError, yaml.YAMLError):
        return {}


def interrupted_run(root: Path, name: str, config: Mapping[str, Any]) -> Path | None:
    """The newest run of that name, if it has a checkpoint, was not trained to its end, and had this very config."""
    newest = next(iter(runs_of(root, name)), None)
    if newest is None or (newest / FINISHED).is_file() or not (newest / "last.ckpt").is_file():
        return None
    return newest if config_of(newest) == config else None


def ready_run(
    value: str,
    root: Path,
    configs: Sequence[str],
    planned: Callable[[str], Mapping[str, Any]],
    train: Callable[[str], None],
) -> Path:
    """What `value` names: one of the user's runs or a packaged model as it is; of a config, its finished run, trained where
    needed.  `planned` says what a config would be trained with here, `train` trains it."""
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
    config = planned(value)
    found = finished_run(root, name, config)
    if found is None:
        train(value)
        found = finished_run(root, name, config)
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
