"""What is looked at before anything is trained, and what is made of a constructor's refusal."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytorch_lightning as pl

from callbacks import FID
from cfgen.errors import UserError
from cfgen.networks.features import network_name

__all__ = ["check_names", "check_trainer", "refusal_in"]

# what a run settles itself, or never comes to: each with what to do instead
NOT_OF_A_RUN = {
    "logger": "scalars go to metrics.csv in the run's folder and to Weights & Biases (WANDB_MODE=disabled leaves that out)",
    "default_root_dir": "a run has a folder of its own; runs_dir and name say where",
    "barebones": "a run writes its checkpoints and scalars; fast_dev_run is for a trial that writes nothing",
    "limit_test_batches": "training ends without testing; `cfgen evaluate` tests, and its count limits the images",
    "limit_predict_batches": "training ends without predicting; `cfgen generate` makes images",
    "model_registry": "checkpoints stay in the run's folder; `cfgen export` writes a model to share",
}


def check_trainer(settings: Mapping[str, Any]) -> None:
    """Refuses settings of the Trainer that would have no effect on a run."""
    defaults = inspect.signature(pl.Trainer).parameters
    for name, reason in NOT_OF_A_RUN.items():
        if settings.get(name) not in (None, defaults[name].default):
            raise UserError(f"it has no effect here: {reason}. Leave it out", argument=f"trainer.{name}")


def check_names(callbacks: Sequence[Any], data: Any) -> None:
    """Lets callbacks that name attributes refuse those the data does not have, and looks for an FID that is monitored."""
    for callback in callbacks:
        if hasattr(callback, "check"):
            try:
                callback.check(data)
            except (UserError, ValueError) as error:
                name = type(callback).__name__
                said = str(error) if name in str(error) else f"{name}: {error}"
                raise UserError(said, argument="trainer.callbacks") from error
    networks = [network_name(callback.features) for callback in callbacks if isinstance(callback, FID)]
    for callback in callbacks:
        monitor = getattr(callback, "monitor", None) or ""
        if networks and monitor.startswith("val/fid_") and monitor.split("/")[1].removeprefix("fid_") not in networks:
            other = monitor.replace(monitor.split("/")[1], f"fid_{networks[0]}")
            raise UserError(
                f"{type(callback).__name__} monitors {monitor}, but FID has another network: monitor {other}",
                argument="trainer.callbacks",
            )


def refusal_in(error: BaseException) -> BaseException:
    """What a constructor said, without what the parser made of it: a UserError, else the innermost ValueError."""
    chain = list(causes(error))
    for one in chain:
        if isinstance(one, UserError):
            return one
    return next((one for one in reversed(chain) if isinstance(one, ValueError)), error)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__
