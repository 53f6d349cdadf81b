"""One plain fit in a run folder of its own: the config beside the checkpoints, scalars to a file, resumed where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import yaml
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from cfgen.errors import UnfitRun, UserError
from cfgen.reporting.provenance import git_commit
from cfgen.runs.folders import FINISHED, how_to_go_on, new_run_folder, write_atomically
from cfgen.training.stages import Step
from cfgen.training.tracking import ScalarCSV, finish, wandb_logger

__all__ = ["Fitted", "Tell", "fit_step", "run_steps"]

Tell = Callable[[str], None]


class Fitted(NamedTuple):
    """A run that was trained to its end; its folder is known to the process that writes it."""

    folder: Path | None
    config: dict[str, Any]
    epochs: int
    steps: int


def run_steps(steps: list[Step], tell: Tell) -> Fitted:
    """Trains the steps of a plan in order; the run of the last one is what was asked for."""
    if len(steps) > 1:
        tell(f"{steps[-1].name} needs earlier runs. In order: {', '.join(step.name for step in steps)}")
    folders: dict[Step, Path] = {}
    for step in steps:
        earlier = {key: folders[run] if isinstance(run, Step) else run for key, run in step.builds_on.items()}
        fitted = fit_step(step, earlier, tell)
        if step.needed_by is not None:
            folders[step] = step.finished()  # found, not passed on: only one of several processes has made it
            tell(f"{step.name} is finished")
    return fitted


def fit_step(step: Step, earlier: Mapping[str, Path], tell: Tell) -> Fitted:
    """Trains one step on these earlier runs; goes on where an interrupted run of the same config stopped."""
    for run in earlier.values():
        tell(f"{step.name} builds on {run}")
    step.use(earlier)
    interrupted = step.interrupted()
    if interrupted is not None:
        tell(f"{interrupted} was interrupted: going on with it")
    checkpoint = step.checkpoint if interrupted is None else interrupted / "last.ckpt"
    step.cli.seed()
    try:
        step.cli.build()
    except UnfitRun as refusal:
        key = str(refusal.argument).removeprefix("model.")
        raise UserError(f"{refusal}. {step.remedy(key)}", refusal.argument) from refusal
    # only now, when nothing is left to refuse, is a folder made
    folder, config = _run_folder(step, checkpoint), step.cli.dump()
    trainer = step.cli.trainer
    if folder is not None:
        resumed = checkpoint is not None and checkpoint.parent == folder
        _track(trainer, folder, config, tell, write_config=not resumed)
    _fit(step, checkpoint, folder, tell)
    finish(trainer.loggers)
    step.cli.release()
    return Fitted(folder, config, trainer.current_epoch, trainer.global_step)


def _run_folder(step: Step, checkpoint: Path | None) -> Path | None:
    """The run's folder, on the process that writes; the others write nothing."""
    config = step.cli.config
    if config.trainer.fast_dev_run or rank_zero_only.rank != 0:  # type: ignore[attr-defined]  # set by Lightning at import
        return None
    if checkpoint is not None and config.ckpt_path in ("last", None):  # None: an interrupted stage
        return checkpoint.parent
    return new_run_folder(step.root, step.name)


def _track(trainer: pl.Trainer, folder: Path, config: dict[str, Any], tell: Tell, *, write_config: bool) -> None:
    """Says where the run is, saves its config there, and sends scalars and checkpoints there."""
    if write_config:
        text = yaml.safe_dump(config, sort_keys=False)
        write_atomically(folder / "config.yaml", lambda file: file.write(text.encode()))
    tell(f"run folder: {folder}")
    tracked = wandb_logger(folder, {**config, "git_commit": git_commit()}, tell)
    trainer.loggers = [ScalarCSV(folder), *([tracked] if tracked else [])]
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
            callback.dirpath = str(folder)


def _fit(step: Step, checkpoint: Path | None, folder: Path | None, tell: Tell) -> None:
    trainer, model, data = step.cli.trainer, step.cli.model, step.cli.datamodule
    try:
        trainer.fit(model, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except UserError as refusal:  # e.g. data that has fewer images than a batch
        refusal.argument = step.cli.option_of(refusal.argument)
        raise
    except MisconfigurationException as error:  # what Lightning finds missing in a model or a callback
        raise UserError(str(error)) from error
    except (KeyboardInterrupt, SystemExit):  # Lightning has stopped gracefully, and exits
        if folder is not None and (folder / "last.ckpt").is_file():
            tell(f"interrupted: {how_to_go_on(folder)} goes on with it")
        raise
    if folder is not None:
        end = json.dumps({"epochs": trainer.current_epoch, "steps": trainer.global_step})
        write_atomically(folder / FINISHED, lambda file: file.write(end.encode()))
    trainer.strategy.barrier()  # the other processes may look for it now
