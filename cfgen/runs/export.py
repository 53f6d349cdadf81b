"""A trained model as a small folder to give away: weights, examples, its recipe, its scores and a model card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cfgen.checkpoints import CARD, CONFIG, EXAMPLES, WEIGHTS, best_checkpoint, earlier_runs, located
from cfgen.errors import UserError
from cfgen.runs.card import CALIBRATION, README, model_card, require_calibration
from cfgen.runs.checksums import write_checksums
from cfgen.runs.data import LOCAL, read_config, run_data, run_folder
from cfgen.runs.examples import Examples, read_examples, write_examples
from cfgen.runs.folders import write_atomically
from cfgen.runs.model import TrainedModel
from cfgen.safety.files import read_json
from cfgen.safety.names import require_folder_name

__all__ = ["Exported", "export"]

SCORES = "metrics.json"


@dataclass(frozen=True)
class Exported:
    """A written export: where it is, how large, with how many examples, and whether its card has scores."""

    folder: Path
    size: int
    examples: int
    has_scores: bool


def export(
    model: TrainedModel,
    folder: str | Path | None = None,
    *,
    name: str | None = None,
    limits: str = "",
    examples: int = 16,
    half: bool = False,
) -> Exported:
    """Writes a loaded model into a new folder that `cfgen.load` takes; by default one of its run's name, right here.

    `name` is the model's on its card, `limits` what the card should warn of, `examples` how many test images to put in, where
    its data may be passed on, `half` whether weights are written in half precision, at half the size.
    """
    if model.source is None:
        raise UserError(
            "only a model that was loaded from a run, a checkpoint or a folder can be exported", argument="model"
        )
    source = run_folder(model.source)
    config, scores = recipe(source / CONFIG), found_in(source / SCORES)
    calibration = None if outdated(source / CALIBRATION, model.source) else found_in(source / CALIBRATION)
    if calibration is not None:
        require_calibration(calibration, source / CALIBRATION)
    target = Path(folder) if folder is not None else Path(run_name(source, config))
    if target.exists():
        raise UserError(f"{target} exists already; choose a new folder", argument="folder")
    shared, about = examples_to_share(model, config, examples)
    model.save(target, half)
    if config is not None:
        write_text(target / CONFIG, yaml.safe_dump(config, sort_keys=False))
    for file, contents in ((SCORES, scores), (CALIBRATION, calibration)):
        if contents is not None:
            write_text(target / file, json.dumps(contents, indent=1))
    if shared is not None:
        write_examples(target, *shared)
    size = (target / WEIGHTS).stat().st_size
    card = model_card(name or target.name, model, size, about, config, scores, limits, calibration)
    write_text(target / README, card)
    write_checksums(target)
    total = sum(file.stat().st_size for file in target.iterdir())
    return Exported(target, total, len(shared.images) if shared else 0, scores is not None)


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def run_name(source: Path, config: dict[str, Any] | None) -> str:
    """The name the run was given, else that of its folder.  Whoever made the run chose it: it is a name here, and no path."""
    name = (config or {}).get("name")
    name = str(name) if name else (source.parent.name if source.name.isdigit() else source.resolve().name)
    return require_folder_name(
        name, "folder", remedy=", which its config gives the model: say what the folder is called"
    )


def recipe(path: Path) -> dict[str, Any] | None:
    """A run's config without the places of the machine it ran on; earlier runs by the names they can be trained by."""
    if not path.exists():
        return None
    config = read_config(path, "data", "model")
    for key in LOCAL:
        (config["data"].get("init_args") or {}).pop(key, None)
    (config.get("trainer") or {}).pop("default_root_dir", None)
    arguments = config["model"].get("init_args") or {}
    for key in earlier_runs(config["model"]["class_path"]):
        if key in arguments:
            earlier = Path(str(arguments[key]))
            arguments[key] = earlier.parent.name if earlier.name.isdigit() else earlier.name
    return config


def found_in(path: Path) -> dict[str, Any] | None:
    """What `cfgen evaluate` or `cfgen calibrate` has left beside a run."""
    if not path.exists():
        return None
    try:
        return read_json(path)
    except UserError as error:
        raise UserError(f"{error}: it is not what cfgen wrote; delete it or make it again") from error


def outdated(calibration: Path, what: str | Path) -> bool:
    """Whether a run was trained on after it was calibrated."""
    path = located(what)
    if not path.is_file():
        if (path / CARD).is_file():  # an exported model stays what it is
            return False
        path = best_checkpoint(path)
    return calibration.is_file() and calibration.stat().st_mtime < path.stat().st_mtime


def examples_to_share(
    model: TrainedModel, config: dict[str, Any] | None, count: int
) -> tuple[Examples | None, list[str]]:
    """Example images that may be given away, and what the card says of them and of the data."""
    if config is None or model.source is None:
        return None, []
    data = run_data(model.source, model.trusted)
    about = [data.about] if getattr(data, "about", "") else []
    shared = data.shareable() if hasattr(data, "shareable") else None
    if shared is None or count < 1:
        return None, about
    examples = read_examples(run_folder(model.source), model.schema)  # an export that is exported again
    if examples is None:
        shared.prepare_data()
        shared.setup("test")
        examples = Examples(shared.images("test"), shared.columns("test"))
    rows = slice(count)
    examples = Examples(examples.images[rows], {name: column[rows] for name, column in examples.columns.items()})
    about.append(f"`{EXAMPLES}` has {len(examples.images)} test images to try the model on.")
    if shared is not data:
        about[-1] += (
            f" They are of another set ({shared.about.rstrip('.')}), because the images it was trained on are not passed on; "
            "it may have seen their originals in training."
        )
    return examples, about
