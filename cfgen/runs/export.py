"""A trained model as a small folder to give away: weights, examples, its recipe, its scores and a model card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cfgen.checkpoints import CARD, CONFIG, EXAMPLES, WEIGHTS, best_checkpoint, earlier_runs, located
from cfgen.errors import UserError
from cfgen.io.files import exists, read_json
from cfgen.io.names import require_folder_name
from cfgen.io.writing import new_folder
from cfgen.runs.card import CALIBRATION, README, model_card, require_calibration
from cfgen.runs.checksums import write_checksums
from cfgen.runs.data import LOCAL, read_config, run_data, run_folder
from cfgen.runs.examples import Examples, read_examples, write_examples
from cfgen.runs.model import TrainedModel

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
    if name is not None and not (name.isprintable() and name.strip()):
        raise UserError(f"{name!r} is not a name that can be read on a card", argument="name")
    source = run_folder(model.source)
    config, scores = recipe(source / CONFIG), found_in(source / SCORES)
    calibration = None if outdated(source / CALIBRATION, model.source) else found_in(source / CALIBRATION)
    if calibration is not None:
        require_calibration(calibration, source / CALIBRATION)
    target = Path(folder) if folder is not None else Path(run_name(source, config))
    with new_folder(target, "folder") as new:
        shared, about = examples_to_share(model, config, examples)
        if config is not None:
            config["data"]["init_args"] = (config["data"].get("init_args") or {}) | told_by_folder(model)
        model.save(new.place, half)
        texts = {}
        if config is not None:
            texts[CONFIG] = yaml.safe_dump(config, sort_keys=False)
        for file, contents in ((SCORES, scores), (CALIBRATION, calibration)):
            if contents is not None:
                texts[file] = json.dumps(contents, indent=1)
        if shared is not None:
            write_examples(new.place, *shared)
        size = (new.place / WEIGHTS).stat().st_size
        texts[README] = model_card(name or target.name, model, size, about, config, scores, limits, calibration)
        new.write(texts)
        write_checksums(new.place)
    total = sum(file.stat().st_size for file in target.iterdir())
    return Exported(target, total, len(shared.images) if shared else 0, scores is not None)


def run_name(source: Path, config: dict[str, Any] | None) -> str:
    """The name the run was given, else that of its folder.  Whoever made the run chose it: it is a name here, and no path."""
    name = (config or {}).get("name")
    name = str(name) if name else (source.parent.name if source.name.isdigit() else source.resolve().name)
    return require_folder_name(
        name, "folder", remedy=", which its config gives the model: say what the folder is called"
    )


def recipe(path: Path) -> dict[str, Any] | None:
    """A run's config without the places of the machine it ran on; earlier runs by the names they can be trained by."""
    if not exists(path):
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


def told_by_folder(model: TrainedModel) -> dict[str, Any]:
    """What the folder of the data, and not the config, said of it: an export has no such folder beside it."""
    data: Any = run_data(model.source, model.trusted) if model.source is not None else None
    try:
        told = data.arguments() if hasattr(data, "arguments") else {}
    except UserError:  # the folder is not there any more
        return {}
    plain: dict[str, Any] = json.loads(json.dumps(told))  # lists and dicts, as YAML has them
    return plain


def found_in(path: Path) -> dict[str, Any] | None:
    """What `cfgen evaluate` or `cfgen calibrate` has left beside a run."""
    if not exists(path):
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
