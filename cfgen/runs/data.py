"""The folder of a trained model, and the data it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cfgen import checkpoints
from cfgen.checkpoints import CARD, best_checkpoint, built, located
from cfgen.errors import UserError
from cfgen.runs.folders import FINISHED, how_to_go_on

__all__ = ["OWN_DATA", "require_finished", "results_folder", "run_config", "run_data", "run_folder"]

OWN_DATA = ("batch_size", "flip")  # how a run goes through its data; the others say what the images are


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


def run_config(what: str | Path) -> dict[str, Any]:
    """The config beside a model; empty where there is none that can be read."""
    try:
        return yaml.safe_load((run_folder(what) / "config.yaml").read_text()) or {}
    except (OSError, yaml.YAMLError):
        return {}


def run_data(what: str | Path) -> Any:
    """The DataModule a model was trained on, as the config beside it says; nothing is read yet."""
    path = run_folder(what) / "config.yaml"
    try:
        return built(yaml.safe_load(path.read_text())["data"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise UserError(f"{path} does not say which data this model was trained on ({error})") from error


def require_finished(what: str | Path, argument: str | None = None) -> None:
    """Refuses the folder of a run that was not trained to its end; a checkpoint or an exported model is what it is."""
    path = Path(what)
    if not path.is_dir() or (path / CARD).is_file():
        return
    folder = run_folder(path)
    if not (folder / FINISHED).is_file():
        raise UserError(
            f"{folder} was not trained to its end. {how_to_go_on(folder)} continues it; {folder}/last.ckpt is the model as "
            "it is now",
            argument,
        )
