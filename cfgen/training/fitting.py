"""One plain fit in a run folder of its own: the config beside the checkpoints, scalars to a file, resumed where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from callbacks import Autosave
from cfgen.errors import Terminated, UnfitRun, UserError
from cfgen.io.endings import faults_logged_in
from cfgen.processes import Watch, join_restarted_group, lost_process
from cfgen.runs.folders import CHECKPOINT, FINISHED, how_to_go_on, new_run_folder, write_atomically, writing
from cfgen.runs.provenance import git_commit
from cfgen.training.batches import BatchLoop
from cfgen.training.memory import check_memory
from cfgen.training.resuming import Start, launcher
from cfgen.training.signals import Signals
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


def run_steps(steps: list[Step], tell: Tell, signals: Signals) -> Fitted:
    """Trains the steps of a plan in order; the run of the last one is what was asked for."""
    if len(steps) > 1:
        tell(f"{steps[-1].name} needs earlier runs. In order: {', '.join(step.name for step in steps)}")
    folders: dict[Step, Path] = {}
    for step in steps:
        earlier = {key: folders[run] if isinstance(run, Step) else run for key, run in step.builds_on.items()}
        fitted = fit_step(step, earlier, tell, signals)
        if step.needed_by is not None:
            folders[step] = step.finished()  # found, not passed on: only one of several processes has made it
            tell(f"{step.name} is finished")
    return fitted


def fit_step(step: Step, earlier: Mapping[str, Path], tell: Tell, signals: Signals) -> Fitted:
    """Trains one step on these earlier runs; goes on where an interrupted run of the same config stopped."""
    for run in earlier.values():
        tell(f"{step.name} builds on {run}")
    step.use(earlier)
    start = step.start()
    if start.folder is not None and start != step.given:
        tell(f"{start.folder} was interrupted: going on with it")
    folder = start.folder
    try:
        _build(step)
        _check_memory(step, tell)
        # only now, when nothing is left to refuse, is a folder made
        folder = _run_folder(step, start)
        with writing(folder, launcher()) if folder is not None else nullcontext(), faults_logged_in(folder):
            return _fit(step, start, folder, tell, signals)
    except (KeyboardInterrupt, Terminated):
        tell(f"interrupted. {how_to_continue(step, folder)}")
        raise
    finally:
        step.cli.release()


def _build(step: Step) -> None:
    step.cli.seed()
    try:
        step.cli.build()
    except UnfitRun as refusal:
        key = str(refusal.argument).removeprefix("model.")
        raise UserError(f"{refusal}. {step.remedy(key)}", refusal.argument) from refusal


def _check_memory(step: Step, tell: Tell) -> None:
    """Says what a training step takes, and refuses one that will not fit, on the first process; one batch is not worth it."""
    cli = step.cli
    if not cli.config.check_memory or cli.config.trainer.fast_dev_run or rank_zero_only.rank != 0:  # type: ignore[attr-defined]  # set by Lightning at import
        return
    try:
        check_memory(cli.model, cli.datamodule, cli.trainer, tell)
    except UserError as refusal:
        refusal.argument = cli.option_of(refusal.argument)
        raise


def _run_folder(step: Step, start: Start) -> Path | None:
    """The run's folder, on the process that writes; the others write nothing."""
    if step.cli.config.trainer.fast_dev_run or rank_zero_only.rank != 0:  # type: ignore[attr-defined]  # set by Lightning at import
        return None
    return start.folder or new_run_folder(step.root, step.name)


def how_to_continue(step: Step, folder: Path | None) -> str:
    """What to do when a run was cut off."""
    if folder is None or not (folder / CHECKPOINT).is_file():
        return f"Nothing of {step.name} was saved yet: the same command starts it anew"
    if step.needed_by is not None:
        return f"The same command goes on with {folder}"
    return f"{how_to_go_on(folder)} goes on with it"


def _track(trainer: pl.Trainer, folder: Path, config: dict[str, Any], start: Start, tell: Tell) -> None:
    """Says where the run is, saves its config there, and sends scalars and checkpoints there."""
    scalars = ScalarCSV(folder)
    if start.folder is not None:
        (folder / FINISHED).unlink(missing_ok=True)
        scalars.forget_from(_steps_of(start.checkpoint))
    text = yaml.safe_dump(config, sort_keys=False)
    write_atomically(folder / "config.yaml", lambda file: file.write(text.encode()))
    tell(f"run folder: {folder}")
    tracked = wandb_logger(folder, {**config, "git_commit": git_commit()}, tell)
    trainer.loggers = [scalars, *([tracked] if tracked else [])]
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
            callback.dirpath = str(folder)


def _steps_of(checkpoint: Path | None) -> int:
    """How many batches a checkpoint's run had been trained on, as loggers count them."""
    if checkpoint is None:
        return 0
    loops = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)["loops"]
    return int(loops["fit_loop"]["epoch_loop.state_dict"]["_batches_that_stepped"])


def _fit(step: Step, start: Start, folder: Path | None, tell: Tell, signals: Signals) -> Fitted:
    trainer, config = step.cli.trainer, step.cli.dump()
    for callback in trainer.callbacks:  # type: ignore[attr-defined]  # set in Trainer.__init__
        if isinstance(callback, Autosave):
            callback.moved_to = start.folder
    if folder is not None:
        _track(trainer, folder, config, start, tell)
    loop = trainer.fit_loop.epoch_loop
    assert isinstance(loop, BatchLoop)
    loop.signals, loop.folder = signals, folder
    Watch.remedy = staticmethod(lambda: how_to_continue(step, loop.folder or start.folder))
    try:
        if isinstance(trainer.strategy, DDPStrategy):
            join_restarted_group(trainer.strategy._get_process_group_backend(), trainer.strategy._timeout)
        trainer.fit(step.cli.model, datamodule=step.cli.datamodule, ckpt_path=start.checkpoint, weights_only=True)
        if folder is not None:
            end = json.dumps({"epochs": trainer.current_epoch, "steps": trainer.global_step})
            write_atomically(folder / FINISHED, lambda file: file.write(end.encode()))
        trainer.strategy.barrier()  # the other processes may look for it now
    except UserError as refusal:  # e.g. data that has fewer images than a batch
        refusal.argument = step.cli.option_of(refusal.argument)
        raise
    except MisconfigurationException as error:  # what Lightning finds missing in a model or a callback
        raise UserError(str(error)) from error
    except SystemExit as ending:  # what Lightning makes of a KeyboardInterrupt, e.g. a callback's
        if isinstance(ending.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from ending
        raise
    except RuntimeError as error:
        if (lost := lost_process(error)) is not None:
            raise lost from error
        raise
    finally:
        signals.asks = False
        finish(trainer.loggers)
    return Fitted(folder, config, trainer.current_epoch, trainer.global_step)
