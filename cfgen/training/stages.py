"""Runs that need an earlier run: which there are, which have to be trained first, and in what order.

A config is resolved once, and so is every config that it needs and that has no finished run; the result is a list of plain
fits.  Whatever can be refused is refused while the list is made, before the first of them starts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfgen.checkpoints import CARD, earlier_runs, located, packaged_models
from cfgen.classifiers import names_function
from cfgen.errors import UserError, unknown_name
from cfgen.io.classes import built
from cfgen.runs.data import OWN_DATA
from cfgen.runs.folders import CHECKPOINT, FINISHED, runs_of
from cfgen.training.checks import check_names, refusal_in
from cfgen.training.cli import FitCLI
from cfgen.training.configs import SUFFIXES, packaged_configs
from cfgen.training.options import with_run_config
from cfgen.training.resuming import Start, config_of, going_on_in, restarted_run, start_of

__all__ = ["Step", "existing_run", "finished_run", "interrupted_run", "plan", "stage_words"]

# what a run's processes run on is the same in all its stages; how long each trains is its own affair
SHARED_TRAINER = ("accelerator", "devices", "num_nodes", "strategy", "precision")


@dataclass(frozen=True, eq=False)
class Step:
    """One plain fit: its config, the earlier runs that its model builds on, and where it starts.

    An earlier run is a folder, or the step of the same plan that trains it.  `sources` are the earlier runs as the config
    names them, `needed_by` is the run that this one is trained for; the last step of a plan is trained for its own sake.
    The keys of both are the model's arguments; where one of them is a list, `mechanism.0`, `mechanism.1` and so on.
    """

    cli: FitCLI
    sources: Mapping[str, str]
    builds_on: Mapping[str, Path | Step]
    given: Start
    needed_by: str | None = None

    @property
    def name(self) -> str:
        return self.cli.config.name

    @property
    def root(self) -> Path:
        return Path(self.cli.config.runs_dir)

    def use(self, runs: Mapping[str, Path]) -> None:
        """Puts the folders of the earlier runs where the config named them."""
        arguments = self.cli.config.model.init_args
        for key, run in runs.items():
            argument, _, place = key.partition(".")
            if place:
                arguments[argument][int(place)] = str(run)
            else:
                arguments[argument] = str(run)

    def start(self) -> Start:
        """Where the run starts: as its config says, or as a run of several stages goes on when the same command is given again.

        Known when the folders of its earlier runs are.  What torchrun restarts goes on with what it had begun.
        """
        if self.cli.config.trainer.fast_dev_run:
            return self.given
        restarted = restarted_run(self.root, self.name)
        if restarted is not None:
            again = going_on_in(restarted)
            return again._replace(checkpoint=again.checkpoint or self.given.checkpoint)
        staged = self.needed_by is not None or bool(self.builds_on)
        interrupted = interrupted_run(self.root, self.name, self.cli.dump()) if staged else None
        return self.given if interrupted is None or self.given != Start() else going_on_in(interrupted)

    def finished(self) -> Path:
        """The folder of this step's run, on every process, once it is trained to its end."""
        run = finished_run(self.root, self.name, self.cli.dump())
        if run is None:
            raise UserError(f"{self.name} was interrupted: the same command goes on with it")
        return run

    def remedy(self, key: str) -> str:
        """What to do about an earlier run that does not fit."""
        source = self.sources.get(key)
        if source is None or existing_run(source) is not None:  # None: one of a list, and the refusal says which
            return "Name another run"
        words = stage_words(source, self.cli.dump(), str(self.root))
        return f"Make one that does: {shlex.join(['cfgen', 'fit', *words])}"

    def check(self) -> None:
        """Refuses wrong names in the callbacks, as they are refused when the run starts."""
        callbacks = self.cli.config.trainer.callbacks or []
        try:
            made = [built(one) for one in (callbacks if isinstance(callbacks, list) else [callbacks])]
            check_names(made, built(self.cli.config.data))
        except ValueError as error:
            raise UserError(str(refusal_in(error))) from error


def plan(words: Sequence[str]) -> list[Step]:
    """What `cfgen fit` with these words trains, in order; nothing is trained, and nothing made, yet."""
    planner = _Planner()
    planner.add(FitCLI(with_run_config(words)))
    if len(planner.steps) > 1:  # a wrong name must not come out hours later, when the earlier runs are done
        for step in planner.steps:
            step.check()
    return planner.steps


class _Planner:
    """Collects the steps of a plan, the earlier ones first; each config is resolved once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._stages: dict[tuple[str, ...], Path | Step | None] = {}

    def add(self, cli: FitCLI, needed_by: str | None = None) -> Step:
        start = start_of(cli)
        model = cli.config.model
        named = named_sources({key: model.init_args[key] for key in earlier_runs(model.class_path)})
        sources = {key: source for key, source in named.items() if not names_function(source)}
        builds_on = {key: self._earlier(key.partition(".")[0], source, cli) for key, source in sources.items()}
        step = Step(cli, sources, builds_on, start, needed_by)
        self.steps.append(step)
        return step

    def _earlier(self, key: str, source: str, cli: FitCLI) -> Path | Step:
        """What a config names as an earlier run: one that is there, else the step that trains it."""
        try:
            existing = existing_run(source)
        except UserError as error:
            raise UserError(str(error), argument=f"model.{key}") from error
        if existing is not None:
            return existing
        words = tuple(stage_words(source, cli.dump(), cli.config.runs_dir))
        if words not in self._stages:
            self._stages[words] = None  # while it is being resolved
            stage = FitCLI(words)
            finished = finished_run(Path(stage.config.runs_dir), stage.config.name, stage.dump())
            if finished is None and cli.config.trainer.fast_dev_run:
                raise UserError(
                    f"a run with fast_dev_run leaves nothing to build on. Train the earlier one: cfgen fit --config {source}",
                    argument="trainer.fast_dev_run",
                )
            self._stages[words] = finished or self.add(stage, needed_by=cli.config.name)
        earlier = self._stages[words]
        if earlier is None:
            raise UserError(f"{source} needs itself as an earlier run", argument=f"model.{key}")
        return earlier


def named_sources(arguments: Mapping[str, Any]) -> dict[str, str]:
    """What arguments name as earlier runs, those of a list one by one.

    >>> named_sources({"classifier": "plain", "mechanism": ["one", "other"]})
    {'classifier': 'plain', 'mechanism.0': 'one', 'mechanism.1': 'other'}
    """
    found: dict[str, str] = {}
    for key, value in arguments.items():
        if isinstance(value, list):
            found |= {f"{key}.{place}": str(source) for place, source in enumerate(value)}
        else:
            found[key] = str(value)
    return found


def existing_run(source: str) -> Path | None:
    """A run of the user's or a packaged model, as it is; None where `source` is a config, whose run is another question."""
    path = Path(source)
    if not path.exists() and source in packaged_models():
        return located(source)
    if path.exists() and path.suffix not in SUFFIXES:
        if path.is_dir() and not (path / CARD).is_file() and not any(path.glob("**/*.ckpt")):
            raise UserError(
                f"{source} holds no checkpoint: give a run folder, or the name of a config to train it first"
            )
        return path
    if not path.exists():
        name, configs = source.removesuffix(".yaml"), packaged_configs()
        if name not in configs:
            raise UserError(f"there is no run at {source}, and {unknown_name('config', name, configs)}")
    return None


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


def interrupted_run(root: Path, name: str, config: Mapping[str, Any]) -> Path | None:
    """The newest run of that name, if it has a checkpoint, was not trained to its end, and had this very config."""
    newest = next(iter(runs_of(root, name)), None)
    if newest is None or (newest / FINISHED).is_file() or not (newest / CHECKPOINT).is_file():
        return None
    return newest if config_of(newest) == config else None


def stage_words(stage: str, outer: Mapping[str, Any], root: str) -> list[str]:
    """An earlier stage as `cfgen fit` takes it: its own config, on the data and the devices of the run that needs it."""
    shared = {key: value for key, value in outer["data"].get("init_args", {}).items() if key not in OWN_DATA}
    data = json.dumps({"class_path": outer["data"]["class_path"], "init_args": shared})
    words = ["--config", stage, "--runs_dir", root, f"--data={data}"]
    words.append(f"--seed_everything={json.dumps(outer['seed_everything'])}")
    words += ["--check_memory=false"] if not outer.get("check_memory", True) else []
    for key in SHARED_TRAINER:
        value = outer["trainer"].get(key)
        if value is not None:
            words.append(f"--trainer.{key}={value if isinstance(value, str) else json.dumps(value)}")
    return words
