"""`python -m cfgen.export RUN [FOLDER]`: a trained run as a small folder to give away, with examples and a model card."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from cfgen.attributes import Schema
from cfgen.checkpoints import WEIGHTS
from cfgen.errors import UserError
from cfgen.runs.card import model_card
from cfgen.runs.examples import EXAMPLES, Examples, read_examples, write_examples
from cfgen.runs.folders import write_atomically
from cfgen.runs.loading import load, run_data, run_folder
from cfgen.training.cli import one_line_errors
from cfgen.training.stages import earlier_runs

CONFIG, SCORES = "config.yaml", "metrics.json"
LOCAL = ("data_dir", "cache_dir")  # of the machine it was trained on


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cfgen export",
        description="Writes a run's model as safetensors with what is needed to rebuild it, a few example images and a model "
        "card. cfgen.load, generate, evaluate and audit take the folder; loading it runs no code from it.",
    )
    parser.add_argument(
        "run", help="a run folder (runs/NAME or runs/NAME/001) or a checkpoint; evaluate it first for its scores"
    )
    parser.add_argument("folder", type=Path, nargs="?", help="the new folder; by default the run's name, right here")
    parser.add_argument("--name", help="the model's name on its card; by default the folder's")
    parser.add_argument("--limits", default="", help="what the card should warn of, in your words")
    parser.add_argument(
        "--examples", type=int, default=16, help="how many test images to put in; 0 for none (default: 16)"
    )
    options = parser.parse_args(arguments)
    return one_line_errors(lambda: export(options))


def export(options: argparse.Namespace) -> None:
    source = run_folder(options.run)
    config, scores = recipe(source / CONFIG), measured(source / SCORES)
    folder = options.folder or Path(run_name(source, config))
    if folder.exists():
        raise UserError(f"{folder} exists already: choose a new folder, cfgen export {options.run} FOLDER")
    model = load(options.run)
    examples, data = told_of_data(options, model.schema, config)
    model.save(folder)
    if config is not None:
        write_text(folder / CONFIG, yaml.safe_dump(config, sort_keys=False))
    if scores is not None:
        write_text(folder / SCORES, json.dumps(scores, indent=1))
    if examples is not None:
        write_examples(folder, *examples)
    size = (folder / WEIGHTS).stat().st_size
    card = model_card(options.name or folder.name, model, size, data, config, scores, options.limits)
    write_text(folder / "README.md", card)
    total = sum(file.stat().st_size for file in folder.iterdir())
    print(f"wrote {folder} ({total / 1e6:.1f} MB, {len(examples.images) if examples else 'no'} example images)")
    if scores is None:
        print(f"its card has no scores: `cfgen evaluate {options.run}` and export again")


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def run_name(source: Path, config: dict[str, Any] | None) -> str:
    """The name the run was given, else that of its folder."""
    name = (config or {}).get("name")
    return str(name) if name else (source.parent.name if source.name.isdigit() else source.resolve().name)


def recipe(path: Path) -> dict[str, Any] | None:
    """A run's config without the places of the machine it ran on; earlier runs by the names they can be trained by."""
    try:
        config = yaml.safe_load(path.read_text())
        data, model = config["data"], config["model"]
    except FileNotFoundError:
        return None
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a run's config ({error})") from error
    for key in LOCAL:
        (data.get("init_args") or {}).pop(key, None)
    config.get("trainer", {}).pop("default_root_dir", None)
    for key in earlier_runs(model["class_path"]):
        earlier = Path(str(model["init_args"][key]))
        model["init_args"][key] = earlier.parent.name if earlier.name.isdigit() else earlier.name
    return config


def measured(path: Path) -> dict[str, Any] | None:
    """The scores of a run, where `cfgen evaluate` left them."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} holds no scores ({error})") from error


def told_of_data(
    options: argparse.Namespace, schema: Schema, config: dict[str, Any] | None
) -> tuple[Examples | None, list[str]]:
    """Example images that may be given away, and what the card says of them and of the data."""
    if config is None:
        return None, []
    data = run_data(options.run)
    about = [data.about] if getattr(data, "about", "") else []
    shared = data.shareable() if hasattr(data, "shareable") else None
    if shared is None or options.examples < 1:
        return None, about
    examples = read_examples(run_folder(options.run), schema)  # an export that is exported again
    if examples is None:
        shared.prepare_data()
        shared.setup("test")
        examples = Examples(shared.images("test"), shared.columns("test"))
    rows = slice(options.examples)
    examples = Examples(examples.images[rows], {name: column[rows] for name, column in examples.columns.items()})
    about.append(f"`{EXAMPLES}` has {len(examples.images)} test images to try the model on.")
    if shared is not data:
        about[-1] += (
            f" They are of another set ({shared.about.rstrip('.')}), because the images it was trained on are not passed on; "
            "it may have seen their originals in training."
        )
    return examples, about


if __name__ == "__main__":
    sys.exit(main())
