"""Training as a function: a config in, a trained run out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from pytorch_lightning.utilities import rank_zero_only

from cfgen.errors import Terminated, UserError
from cfgen.io.classes import trusting
from cfgen.processes import end_process_group
from cfgen.training.fitting import Tell, run_steps
from cfgen.training.options import check_options
from cfgen.training.quiet import quiet
from cfgen.training.signals import hearing
from cfgen.training.stages import plan
from cfgen.training.tracking import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TrainedRun", "train", "train_from_words"]

METRICS = "metrics.csv"


@dataclass(frozen=True)
class TrainedRun:
    """A run that was trained to its end.

    Attributes:
        folder: where its checkpoints are; `cfgen.load` takes it.  None where nothing was written: with fast_dev_run, and on
            the other processes of a run on several devices.
        config: the whole resolved config; `train` trains it again.
        epochs: how many were trained, those before an interruption included.
        steps: batches seen, likewise.
        metrics: the last value of each scalar that was logged.
    """

    folder: Path | None
    config: dict[str, Any]
    epochs: int
    steps: int
    metrics: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        folder = None if self.folder is None else str(self.folder)
        return {
            "folder": folder,
            "epochs": self.epochs,
            "steps": self.steps,
            "metrics": self.metrics,
            "config": self.config,
        }

    def to_frame(self) -> pd.DataFrame:
        """Every scalar that was logged: a row with epoch, step, name and value each."""
        import pandas as pd

        if self.folder is None or not (self.folder / METRICS).is_file():
            return pd.DataFrame(columns=COLUMNS)
        return pd.read_csv(self.folder / METRICS)


def train(
    config: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    name: str | None = None,
    runs_dir: str | PathLike[str] | None = None,
    ckpt_path: str | PathLike[str] | None = None,
    tell: Tell | None = None,
    trusted: bool = False,
    **overrides: Any,
) -> TrainedRun:
    """Trains what a config says, in a run folder of its own; earlier runs that it needs are used, or trained first.

    On several devices every process calls it, and all come back; the process group that it starts is ended.

        run = train("quickstart", trainer={"max_epochs": 2}, data={"limit": 500})
        run.metrics["val/mse_x"]

    Args:
        config: the name of a config that comes with cfgen, the path of one, or several, of which later ones win; none where
            `ckpt_path` is a run's folder.
        name: of the run; by default the first config's.
        runs_dir: the folder in which `NAME/001` is made; by default `runs`.
        ckpt_path: the folder of a run that goes on there, with its own config; a checkpoint to start a new run from; or `last`
            to go on with the newest run of this name in its folder.
        tell: called with each line that says what is going on, e.g. `print`; on the first process only.
        trusted: classes of your own that earlier runs name are imported, which runs code; the config's are in any case.
        overrides: values of the config, as `model={"width": 0.5}`, `data=...`, `trainer=...`, `seed_everything=1`, or by their
            full name as `**{"trainer.max_epochs": 2}`.
    """
    words = [word for one in _configs(config) for word in ("--config", fspath(one))]
    for option, value in (("name", name), ("runs_dir", runs_dir), ("ckpt_path", ckpt_path)):
        if value is not None:
            words.append(f"--{option}={fspath(value)}")
    words += [word for key, value in overrides.items() for word in _override(key, value)]
    check_options(words)
    return train_from_words(words, tell, trusted)


def train_from_words(words: Sequence[str], tell: Tell | None = None, trusted: bool = False) -> TrainedRun:
    """`train`, with a config and values as `cfgen fit` takes them."""

    def on_first(text: str) -> None:
        if tell is not None and rank_zero_only.rank == 0:  # type: ignore[attr-defined]  # set by Lightning at import
            tell(text)

    with hearing() as signals, quiet(), _own_process_group(), trusting(trusted):
        try:
            steps = plan(words)
        except Terminated:
            on_first("interrupted. Nothing was trained yet: the same command starts it anew")
            raise
        folder, config, epochs, batches = run_steps(steps, on_first, signals)
    return TrainedRun(folder, config, epochs, batches, {} if folder is None else last_values(folder / METRICS))


def last_values(path: Path) -> dict[str, float]:
    """The last value of each scalar in a run's metrics.csv; a run that logged nothing has none."""
    if not path.is_file():
        return {}
    with path.open(newline="") as file:
        return {row["name"]: float(row["value"]) for row in csv.DictReader(file)}


def _configs(config: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str | PathLike[str]]:
    return [config] if isinstance(config, str | PathLike) else list(config)


def _override(key: str, value: Any) -> Iterator[str]:
    """A value of the config as a word of `cfgen fit`; a mapping without a class is one for each of its values."""
    if key in ("model", "data", "trainer") and isinstance(value, Mapping) and "class_path" not in value:
        for inner, part in {**value.get("init_args", {}), **value}.items():
            if inner != "init_args":
                yield from _override(f"{key}.{inner}", part)
        return
    try:
        text = fspath(value) if isinstance(value, str | PathLike) else json.dumps(value)
    except TypeError as error:
        raise UserError(f"expected plain values, as a config has them ({error})", argument=key) from error
    yield f"--{key}={text}"


@contextmanager
def _own_process_group() -> Iterator[None]:
    """Ends the process group that is started inside, and leaves one that was there before as it is."""
    outer = dist.is_available() and dist.is_initialized()
    succeeded = False
    try:
        yield
        succeeded = True
    finally:
        if not outer:
            end_process_group(succeeded)
