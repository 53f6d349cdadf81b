"""The command line: LightningCLI with packaged configs, run folders of their own, and one-line errors."""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from callbacks import BestCheckpoint, EpochSeed
from cfgen.checkpoints import built
from cfgen.errors import UnfitRun, UserError
from cfgen.runs.folders import (
    FINISHED,
    AtomicCheckpointIO,
    find_last_run,
    how_to_go_on,
    new_run_folder,
    write_atomically,
)
from cfgen.training.checks import check_names, refusal_in
from cfgen.training.parser import HelpWithExamples, OneLineParser, PackagedConfigFile, packaged_configs, packaged_data
from cfgen.training.stages import earlier_runs, interrupted_run, ready_run, stage_arguments
from cfgen.training.tracking import ScalarCSV, finish, wandb_logger

__all__ = ["FitCLI", "one_line_errors"]


USAGE = "cfgen fit --config NAME [--config MORE.yaml ...] [--model.KEY VALUE] [--data.KEY VALUE] [--trainer.KEY VALUE]"
DESCRIPTION = """Trains a model of the paper, or your own, from a config.

cfgen fit --config quickstart                          a packaged config, or the path of your own
cfgen fit --config quickstart --trainer.max_epochs 5   any value can be set here; --model.help CLASS lists a class's
cfgen fit --config quickstart --config mine.yaml       later files win; `callbacks+:` in them appends
cfgen fit --config celeba_csali --data celeba_young    another data set or graph: a file or a part in configs/data
cfgen fit --config quickstart --print_config           the whole resolved config, ready to edit
cfgen fit --config quickstart --ckpt_path last         goes on where the newest run of that name stopped
cfgen fit --config quickstart --trainer.devices 2      two devices; the batch size is per device

Some runs need an earlier one, named in their config.  It is trained first on the same data and devices; where it is
finished it is used, and where anything was interrupted the same command goes on:

  celeba_styleali ──► celeba_csali ──┐
   E, G against D      E alone       ├► celeba_fair_classifier     likewise  faces_styleali ──► faces_csali
  celeba_classifier ─────────────────┘                                       faces_modulated ──┬► faces_fair_classifier
                                                                             faces_classifier ─┘
"""

# Lightning 2.6 calls jsonargparse in ways that version 5 will remove; pyproject keeps it below
os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
# Lightning's hints that do not apply here
for message in (
    ".*Checkpoint directory .* exists and is not empty.*",  # it holds the run's config and scalars
    ".*isinstance.treespec, LeafSpec.*",  # Lightning's own use of torch
    ".*smaller than the logging interval.*",
    ".*does not have many workers.*",  # batches come from memory
    ".*in eval mode at the start of training.*",  # a frozen earlier model is meant to be
):
    warnings.filterwarnings("ignore", message=message)
logging.getLogger("pytorch_lightning.utilities.rank_zero").addFilter(
    lambda record: "litlogger" not in record.getMessage()
)


def one_line_errors(command: Callable[[], Any]) -> int:
    """Runs a command; bad input becomes one line on stderr and exit code 2."""
    try:
        command()
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def say(text: str) -> None:
    """Prints on the first process only."""
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]  # set by Lightning at import
        print(text, flush=True)


class FitCLI(LightningCLI):
    """`cfgen fit`: model, data and trainer from configs; everything the user names is checked before data is read."""

    def __init__(self, args: Sequence[str] | None = None, stage: bool = False) -> None:
        self.stage = stage  # an earlier run that another one needs
        super().__init__(
            model_class=pl.LightningModule,
            datamodule_class=pl.LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            run=False,
            args=None if args is None else list(args),
            parser_class=OneLineParser,
            parser_kwargs={
                "prog": "cfgen fit",
                "description": DESCRIPTION,
                "usage": USAGE,
                "allow_abbrev": False,
                "formatter_class": HelpWithExamples,
            },
            save_config_callback=None,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,  # modules save plain hyperparameters themselves
            seed_everything_default=0,
        )

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        parser = self.parser_class(**kwargs)
        parser.add_argument(
            "-c", "--config", action=PackagedConfigFile,
            help=f"A YAML file or a packaged config: {', '.join(packaged_configs())}. Repeat it to merge several.",
        )  # fmt: skip
        return parser

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--name", type=str, default=None, help="Name of the run; by default the first config's.")
        parser.add_argument("--runs_dir", type=str, default="runs", help="Folder under which runs/NAME/001 is made.")
        parser.add_argument(
            "--ckpt_path", type=str, default=None,
            help="Resume: 'last' goes on with the newest run of this name in its own folder; a path starts a new run from it.",
        )  # fmt: skip
        # what the data is decides what the model is conditioned on; known before any data is read
        parser.link_arguments("data.scm_spec", "model.init_args.scm", apply_on="instantiate")
        parser.link_arguments("data.image_shape", "model.init_args.image_shape", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        arguments = sys.argv[1:] if args is None else args
        if not arguments:
            raise UserError(f"which run? Give --config with a file or one of: {', '.join(packaged_configs())}")
        assert isinstance(parser, OneLineParser)
        parser.given = arguments
        self.config = parser.parse_args(packaged_data(arguments))
        if self.config.name is None:
            self.config.name = Path(str(self.config.config[0])).stem if self.config.config else "run"
        if "/" in self.config.name or not self.config.name.strip("."):
            raise UserError(f"--name {self.config.name!r} is not a folder's name")

    def before_instantiate_classes(self) -> None:
        """Makes the earlier runs that the model needs ready, and puts their folders where their names stood."""
        model = self.config.model
        self.earlier = {key: model.init_args[key] for key in earlier_runs(model.class_path)}
        if not self.earlier:
            return
        try:  # a wrong name must not come out hours later, when the earlier runs are done
            check_names([built(one) for one in self.config.trainer.callbacks or ()], built(self.config.data))
        except ValueError as error:
            raise UserError(str(error)) from error
        root = Path(self.config.runs_dir)
        for key, value in self.earlier.items():
            run = ready_run(str(value), root, tuple(packaged_configs()), self._planned, self._train_earlier)
            say(f"{self.config.name} builds on {run}")
            model.init_args[key] = str(run)
        self._set_seed()  # the same start, whether or not an earlier run was trained just now

    def _planned(self, stage: str) -> dict[str, Any]:
        return StagePlan(stage_arguments(stage, self._dump(), self.config.runs_dir))._dump()

    def _train_earlier(self, stage: str) -> None:
        if self.config.trainer.fast_dev_run:
            raise UserError(
                f"fast_dev_run leaves no run to build on. Train the earlier one: cfgen fit --config {stage}"
            )
        say(f"{self.config.name} needs {stage}, which comes first")
        FitCLI(stage_arguments(stage, self._dump(), self.config.runs_dir), stage=True).fit()
        say(f"{stage} is finished; now {self.config.name}")

    def instantiate_classes(self) -> None:
        self.resume = self._checkpoint_to_resume()
        try:
            super().instantiate_classes()
        except (ValueError, MisconfigurationException) as error:
            # constructors refuse bad values; what they say is meant for the user, what the parser makes of it is not
            refusal = refusal_in(error)
            remedy = f". {self._remedy(refusal.argument)}" if isinstance(refusal, UnfitRun) else ""
            raise UserError(f"{refusal}{remedy}") from error

    def _remedy(self, key: str) -> str:
        """What to do about an earlier run that does not fit."""
        if Path(self.earlier[key]).is_dir():
            return f"Name another run with --model.{key}"
        arguments = stage_arguments(str(self.earlier[key]), self._dump(), self.config.runs_dir)
        return f"Make one that does: {shlex.join(['cfgen', 'fit', *arguments])}"

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        given = self.config_init["trainer"]
        callbacks = given["callbacks"] or []
        given["callbacks"] = callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
        kept = given["enable_checkpointing"] is False or any(isinstance(one, ModelCheckpoint) for one in callbacks)
        if not kept:
            callbacks.append(BestCheckpoint())  # Lightning's own would have names that no command looks for
        try:
            trainer = super().instantiate_trainer(logger=False, plugins=[AtomicCheckpointIO()], **kwargs)
        except TypeError as error:  # how the Trainer refuses, e.g., devices
            raise UserError(f"trainer: {error}") from error
        if isinstance(trainer.strategy, DDPStrategy):
            # each optimiser's step leaves the other networks' parameters without a gradient
            trainer.strategy._ddp_kwargs.setdefault("find_unused_parameters", True)
        callbacks = trainer.callbacks  # type: ignore[attr-defined]  # set in Trainer.__init__
        if not isinstance(self.config.seed_everything, bool):
            callbacks.insert(0, EpochSeed(self.config.seed_everything))
        check_names(callbacks, self.datamodule)
        # only now, when nothing is left to refuse, is a folder made
        self.folder = self._make_folder()
        if self.folder is not None:
            self._track(trainer, self.folder)
        return trainer

    def _track(self, trainer: pl.Trainer, folder: Path) -> None:
        """Says where the run is, saves its config there, and sends scalars and checkpoints there."""
        config = self._dump()
        if self.resume is None or self.resume.parent != folder:
            text = yaml.safe_dump(config, sort_keys=False)
            write_atomically(folder / "config.yaml", lambda file: file.write(text.encode()))
        tracked = wandb_logger(folder, {**config, "git_commit": git_commit()})
        trainer.loggers = [ScalarCSV(folder), *([tracked] if tracked else [])]
        for callback in trainer.checkpoint_callbacks:
            if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
                callback.dirpath = str(folder)
        print(f"run folder: {folder}", flush=True)

    def fit(self) -> None:
        try:
            self.trainer.fit(self.model, datamodule=self.datamodule, ckpt_path=self.resume, weights_only=True)
        except MisconfigurationException as error:  # what Lightning finds missing in a model or a callback
            raise UserError(str(error)) from error
        except (KeyboardInterrupt, SystemExit):  # Lightning has stopped gracefully, and exits
            if self.folder is not None and (self.folder / "last.ckpt").is_file():
                say(f"interrupted: {how_to_go_on(self.folder)} goes on with it")
            raise
        if self.folder is not None:
            end = json.dumps({"epochs": self.trainer.current_epoch, "steps": self.trainer.global_step})
            write_atomically(self.folder / FINISHED, lambda file: file.write(end.encode()))
        self.trainer.strategy.barrier()  # the other processes may look for it now
        if self.stage:
            finish(self.trainer.loggers)

    def _checkpoint_to_resume(self) -> Path | None:
        wanted = self.config.ckpt_path
        if wanted is None:
            staged = (self.stage or self.earlier) and not self.config.trainer.fast_dev_run
            found = interrupted_run(Path(self.config.runs_dir), self.config.name, self._dump()) if staged else None
            if found is not None:
                say(f"{found} was interrupted: going on with it")
            return found and found / "last.ckpt"
        if wanted == "last":
            return find_last_run(Path(self.config.runs_dir), self.config.name, "last.ckpt") / "last.ckpt"
        if not Path(wanted).is_file():
            raise UserError(f"no checkpoint {wanted}: give a file or 'last'")
        try:
            torch.load(wanted, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:  # whatever a torn or foreign file makes of itself
            raise UserError(f"{wanted} is not a whole checkpoint ({type(error).__name__})") from error
        return Path(wanted)

    def _make_folder(self) -> Path | None:
        """The run's folder, on the process that writes; the others write nothing."""
        if self.config.trainer.fast_dev_run or rank_zero_only.rank != 0:  # type: ignore[attr-defined]  # set by Lightning at import
            return None
        if self.resume is not None and self.config.ckpt_path in ("last", None):  # None: an interrupted stage
            return self.resume.parent
        return new_run_folder(Path(self.config.runs_dir), self.config.name)

    def _dump(self) -> dict[str, Any]:
        """The resolved config, complete but for what belongs to one command rather than to the run."""
        dump = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        return {key: value for key, value in dump.items() if key not in ("config", "ckpt_path", "runs_dir")}


class StagePlan(FitCLI):
    """What a command would train, with nothing made yet."""

    def before_instantiate_classes(self) -> None:
        pass

    def instantiate_classes(self) -> None:
        pass


def git_commit() -> str | None:
    """The commit of the working directory, where it is a git checkout."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
