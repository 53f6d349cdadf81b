"""A config as LightningCLI reads it: model, data and trainer, resolved once, and built when told."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from lightning_fabric.plugins.collectives.torch_collective import default_pg_timeout
from pytorch_lightning.callbacks import ModelCheckpoint, ModelSummary
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.plugins.io import CheckpointIO
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.strategies.launchers import _SubprocessScriptLauncher
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from callbacks import Autosave, BestCheckpoint, EpochSeed, ParameterSummary
from cfgen.errors import UserError, WithoutEffect
from cfgen.io.classes import naming_functions
from cfgen.io.names import require_folder_name
from cfgen.processes import watched_launcher
from cfgen.runs.data import LOCAL
from cfgen.runs.folders import AtomicCheckpointIO
from cfgen.training.batches import use_batch_loop
from cfgen.training.checks import check_names, check_trainer, refusal_in
from cfgen.training.configs import packaged_configs, with_packaged_data
from cfgen.training.options import LINKED, TOP_LEVEL
from cfgen.training.parser import OneLineParser, PackagedConfigFile
from cfgen.training.signals import LightningSignals

__all__ = ["FitCLI"]

_log = logging.getLogger(__name__)


def target_of(data: Any) -> dict[str, Any] | None:
    """What the data says its target is, as plain values; None of data that does not say."""
    kind = getattr(data, "target_kind", None)
    return None if kind is None else {"name": kind.name, "kind": kind.kind, "values": list(kind.values)}


class FitCLI(LightningCLI):
    """Parses what a run is to be, and no more; `seed` and then `build` make its data, model and trainer.

    `words` are those of `cfgen fit`.  They are parsed here, once: a plan of several runs has one of these for each.
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(
            model_class=pl.LightningModule,
            datamodule_class=pl.LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            run=False,
            args=list(words),
            parser_class=OneLineParser,
            parser_kwargs={"prog": "cfgen fit", "allow_abbrev": False},
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
        parser.add_argument("--ckpt_path", type=str, default=None, help="A run folder, a checkpoint, or 'last'.")
        parser.add_argument(
            "--check_memory", type=bool, default=True,
            help="Refuse to train what will not fit into memory; false trains all the same.",
        )  # fmt: skip
        parser.add_argument(
            "--timeout_minutes", type=float, default=30.0,
            help="On several devices: how long processes wait for one that does not answer.",
        )  # fmt: skip
        # what the data is decides what the model is conditioned on; known before any data is read
        parser.link_arguments("data.scm_spec", "model.init_args.scm", apply_on="instantiate")
        parser.link_arguments("data.image_shape", "model.init_args.image_shape", apply_on="instantiate")
        parser.link_arguments("data", "model.init_args.target", compute_fn=target_of, apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        assert isinstance(parser, OneLineParser)
        parser.given = args
        self.config = parser.parse_args(with_packaged_data(args))
        if self.config.name is None:
            self.config.name = Path(str(self.config.config[0])).stem if self.config.config else "run"
        require_folder_name(self.config.name, argument="name")
        check_trainer(self.config.trainer)
        for name in sorted({*LINKED, "target"}):  # the links above
            if self.config.model.init_args.get(name) is not None:
                raise UserError("it comes from the data, whatever is given; leave it out", argument=f"model.{name}")
        data = self.config.data.get("init_args") or {}
        for key in LOCAL:  # a run finds its data again, whatever folder a later command is in
            if data.get(key) and (place := Path(data[key]).expanduser()).exists():
                data[key] = os.path.abspath(place)
        if not isinstance(seed := self.config.seed_everything, bool) and not 0 <= seed < 2**32:
            raise UserError(f"a seed is a whole number from 0 to {2**32 - 1}, not {seed}", argument="seed_everything")

        if not 0 < (minutes := self.config.timeout_minutes) < 1e6:
            raise UserError(f"expected minutes above 0 and below a million, not {minutes:g}", "timeout_minutes")

    def _set_seed(self) -> None:
        """Nothing is seeded while a config is read, except that a seed to be chosen is chosen: all stages share it."""
        if self.config.seed_everything is True:
            super()._set_seed()

    def seed(self) -> None:
        """Seeds every generator: a run starts the same, whatever was done before it."""
        super()._set_seed()

    def instantiate_classes(self) -> None:
        """Not yet, when the config has just been read: `build` does it."""

    def build(self) -> None:
        """Makes the data, the model and the trainer; refuses what their constructors and the callbacks' checks refuse."""
        try:
            with naming_functions(self.config.model.init_args.values()):
                super().instantiate_classes()
        except (UserError, ValueError, MisconfigurationException) as error:
            # constructors refuse bad values; what they say is meant for the user, what the parser makes of it is not
            refusal = refusal_in(error)
            data = self.config.data.get("init_args") or {}
            if isinstance(refusal, WithoutEffect) and self.goes_on and data.get(refusal.argument) is not None:
                _log.warning("%s: data.%s has no effect and is ignored", self.config.ckpt_path, refusal.argument)
                data[refusal.argument] = None
                self.build()
                return
            if not isinstance(refusal, UserError):
                raise UserError(str(refusal)) from error
            refusal.argument = self.option_of(refusal.argument)
            raise refusal from None

    @property
    def goes_on(self) -> bool:
        """Whether the config is that of a saved run, which nobody writes anew."""
        return self.config.ckpt_path is not None and Path(self.config.ckpt_path).is_dir()

    def option_of(self, argument: str | None) -> str | None:
        """What a class calls one of its arguments, as this run's options call it.

        Of the model, the data and the trainer it is the first that has one of that name.
        """
        if argument is None or argument.partition(".")[0] in TOP_LEVEL:
            return argument
        sections = {
            "model": self.config.model.init_args,
            "data": self.config.data.get("init_args") or {},
            "trainer": self.config.trainer,
        }
        return next((f"{name}.{argument}" for name, section in sections.items() if argument in section), argument)

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        given = self.config_init["trainer"]
        callbacks = given["callbacks"] or []
        given["callbacks"] = callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
        kept = given["enable_checkpointing"] is False or any(isinstance(one, ModelCheckpoint) for one in callbacks)
        if not kept:
            callbacks.append(BestCheckpoint())  # Lightning's own would have names that no command looks for
        if given["enable_checkpointing"] is not False and not any(isinstance(one, Autosave) for one in callbacks):
            callbacks.append(Autosave())
        if given["enable_model_summary"] is not False and not any(isinstance(one, ModelSummary) for one in callbacks):
            callbacks.append(ParameterSummary())
        plugins = given["plugins"] or []
        plugins = list(plugins) if isinstance(plugins, list) else [plugins]
        if not any(isinstance(one, CheckpointIO) for one in plugins):
            plugins.append(AtomicCheckpointIO())
        try:
            trainer = super().instantiate_trainer(logger=False, plugins=plugins, **kwargs)
        except TypeError as error:  # how the Trainer refuses, e.g., devices
            raise UserError(f"trainer: {error}") from error
        if isinstance(trainer.strategy, DDPStrategy):
            # each optimiser's step leaves the other networks' parameters without a gradient
            trainer.strategy._ddp_kwargs.setdefault("find_unused_parameters", True)
            if trainer.strategy._timeout == default_pg_timeout:  # else the config's own strategy has said it
                trainer.strategy._timeout = timedelta(minutes=self.config.timeout_minutes)
            if isinstance(trainer.strategy.launcher, _SubprocessScriptLauncher):
                trainer.strategy._launcher = watched_launcher(trainer.strategy.launcher)
        use_batch_loop(trainer)
        trainer._signal_connector = LightningSignals(trainer)
        callbacks = trainer.callbacks  # type: ignore[attr-defined]  # set in Trainer.__init__
        if not isinstance(self.config.seed_everything, bool):
            callbacks.insert(0, EpochSeed(self.config.seed_everything))
        check_names(callbacks, self.datamodule)
        return trainer

    def release(self) -> None:
        """Lets go of what was built: the next run of a plan needs the memory."""
        for name in ("config_init", "datamodule", "model", "trainer"):
            self.__dict__.pop(name, None)

    def dump(self) -> dict[str, Any]:
        """The resolved config, complete but for what belongs to one command rather than to the run."""
        dump = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        if dump["check_memory"]:  # the default is left out: configs of earlier versions, without the key, are the same
            del dump["check_memory"]
        return {key: value for key, value in dump.items() if key not in ("config", "ckpt_path", "runs_dir")}
