"""The folder of a trained model, and the data it was trained on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from cfgen import checkpoints
from cfgen.checkpoints import CARD, CONFIG, best_checkpoint, located
from cfgen.errors import UserError, WithoutEffect
from cfgen.io.classes import found_class, trusting
from cfgen.io.files import exists, read_yaml
from cfgen.runs.folders import FINISHED, how_to_go_on

__all__ = [
    "LOCAL",
    "OWN_DATA",
    "read_config",
    "require_finished",
    "results_folder",
    "run_config",
    "run_data",
    "run_folder",
]

OWN_DATA = ("batch_size", "flip")  # how a run goes through its data; the others say what the images are
LOCAL = ("data_dir", "cache_dir")  # of the machine it was trained on
_log = logging.getLogger(__name__)


def run_folder(what: str | Path) -> Path:
    """The folder of a run, a checkpoint, an exported or a packaged model: where its config is."""
    path = located(what)
    if path.is_file():
        return path.parent
    return path if (path / CARD).is_file() else best_checkpoint(path).parent


def results_folder(what: str | Path) -> Path:
    """Where what is found out about a model goes: beside it, or to `runs` for a packaged one, for that stays as installed."""
    folder = run_folder(what)
    return Path("runs") / folder.name if folder.parent == checkpoints.PACKAGED else folder


def read_config(path: Path, *needed: str) -> dict[str, Any]:
    """A run's config, in which the needed sections name a class and its options."""
    config = read_yaml(path)
    for name in needed:
        part = config.get(name)
        if not isinstance(part, dict) or not isinstance(part.get("class_path"), str):
            raise UserError(f"{path} is not a run's config: it does not say the {name}'s class_path")
        if not isinstance(part.get("init_args") or {}, dict):
            raise UserError(f"{path} is not a run's config: the {name}'s init_args are not names with values")
    if not isinstance(config.get("trainer") or {}, dict):
        raise UserError(f"{path} is not a run's config: the trainer's options are not names with values")
    return config


def run_config(what: str | Path) -> dict[str, Any]:
    """The config beside a model; empty where there is none that can be read."""
    try:
        return read_config(run_folder(what) / CONFIG, "data")
    except UserError:
        return {}


def run_data(what: str | Path, trusted: bool = False) -> Any:
    """The DataModule a model was trained on, as the config beside it says; nothing is read yet.

    With `trusted`, one that does not come with cfgen is imported too, which runs code.
    """
    folder = run_folder(what)
    path = folder / CONFIG
    if not path.is_file():
        raise UserError(f"{folder} does not say which data this model was trained on: it has no {CONFIG}")
    section = read_config(path, "data")["data"]
    arguments: Mapping[str, Any] = section.get("init_args") or {}
    if (folder / CARD).is_file():  # an export comes from elsewhere, and does not say where files lie here
        arguments = {key: value for key, value in arguments.items() if key not in LOCAL}
    with trusting(trusted):
        kind = found_class(section["class_path"], pl.LightningDataModule, str(path))
        try:
            return _built(kind, dict(arguments), path)
        except Exception as error:  # constructors refuse bad values in many ways
            raise UserError(f"{path}: {section['class_path']} cannot be built ({error})") from error


def _built(kind: type, arguments: dict[str, Any], path: Path) -> Any:
    """The data of a saved run, without those of its options that have no effect."""
    try:
        return kind(**arguments)
    except WithoutEffect as refusal:
        if arguments.pop(str(refusal.argument), None) is None:  # not one of these: nothing would change
            raise
        _log.warning("%s: data.%s has no effect and is ignored", path, refusal.argument)
        return _built(kind, arguments, path)


def require_finished(what: str | Path, argument: str | None = None) -> None:
    """Refuses the folder of a run that was not trained to its end; a checkpoint or an exported model is what it is."""
    path = Path(what)
    if not exists(path) or not path.is_dir() or (path / CARD).is_file():
        return
    folder = run_folder(path)
    if not (folder / FINISHED).is_file():
        raise UserError(
            f"{folder} was not trained to its end. {how_to_go_on(folder)} continues it; {folder}/last.ckpt is the model as "
            "it is now",
            argument,
        )
