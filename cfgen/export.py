"""`python -m cfgen.export RUN FOLDER`: a trained run as a small folder to give away, with a model card."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from cfgen.checkpoints import WEIGHTS, class_path
from cfgen.cli import one_line_errors
from cfgen.errors import UserError
from cfgen.loading import CounterfactualModel, load, run_folder
from cfgen.runs import write_atomically

LOCAL = ("data_dir", "cache_dir")  # of the machine it was trained on


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cfgen export",
        description="Writes a run's model as safetensors with what is needed to rebuild it and a model card. "
        "cfgen.load, generate, evaluate and audit take the folder; loading it runs no code from it.",
    )
    parser.add_argument(
        "run", help="a run folder (runs/NAME or runs/NAME/001) or a checkpoint; evaluate it first for its scores"
    )
    parser.add_argument("folder", type=Path, help="the new folder")
    parser.add_argument("--name", help="the model's name on its card; by default the folder's")
    parser.add_argument("--limits", default="", help="what the card should warn of, in your words")
    options = parser.parse_args(arguments)
    return one_line_errors(lambda: export(options))


def export(options: argparse.Namespace) -> None:
    if options.folder.exists():
        raise UserError(f"{options.folder} exists already: choose a new folder")
    model = load(options.run)
    source = run_folder(options.run)
    config = recipe(source / "config.yaml")
    scores = json.loads((source / "metrics.json").read_text()) if (source / "metrics.json").is_file() else None
    model.save(options.folder)
    if config is not None:
        text = yaml.safe_dump(config, sort_keys=False)
        write_atomically(options.folder / "config.yaml", lambda file: file.write(text.encode()))
    size = (options.folder / WEIGHTS).stat().st_size
    card = model_card(options.name or options.folder.name, model, config, scores, options.limits, size)
    write_atomically(options.folder / "README.md", lambda file: file.write(card.encode()))
    print(f"wrote {options.folder} ({size / 1e6:.1f} MB of weights)")
    if scores is None:
        print(f"its card has no scores: `cfgen evaluate {options.run}` and export again")


def recipe(path: Path) -> dict[str, Any] | None:
    """A run's config without the places of the machine it ran on."""
    try:
        config = yaml.safe_load(path.read_text())
    except OSError:
        return None
    for key in LOCAL:
        config["data"]["init_args"].pop(key, None)
    return config


def model_card(
    name: str,
    model: CounterfactualModel,
    config: dict[str, Any] | None,
    scores: dict[str, Any] | None,
    limits: str,
    size: int,
) -> str:
    """Data, recipe, scores and limits, in Markdown."""
    shape = "x".join(map(str, model.module.image_shape))
    lines = [
        f"# {name}",
        "",
        f"`{class_path(model.module)}`, images of {shape} (channels, height, width), {size / 1e6:.1f} MB. "
        f"`cfgen.load(FOLDER)` reads it.",
        "",
        "## Attributes",
        "",
        *(f"- {attribute}: {spec['kind']}" for attribute, spec in model.schema.spec.items()),
        "",
        f"Causes: {', '.join(f'{cause} → {effect}' for cause, effect in model.scm.graph.edges) or 'none among them'}.",
    ]
    if config is not None:
        training = {key: config["trainer"][key] for key in ("max_epochs", "max_steps") if config["trainer"].get(key)}
        parts = {
            "data": config["data"],
            "model": config["model"],
            "training": training,
            "seed": config["seed_everything"],
        }
        lines += ["", "## Data and recipe", "", "```yaml", yaml.safe_dump(parts, sort_keys=False).strip(), "```"]
    if scores is not None:
        about = (
            f"{scores['images']:,} {scores['split']} images, seed {scores['seed']}, as `cfgen evaluate` scored them."
        )
        rows = [f"| {key} | {value:.5g} |" for key, value in scores.items() if isinstance(value, float)]
        lines += ["", "## Scores", "", about, "", "| metric | value |", "|---|---|", *rows]
    lines += [
        "",
        "## Limits",
        "",
        "Counterfactuals are those of the causal graph above, and as good as the generator: look at its scores before a decision "
        "rests on them. It knows images like those it was trained on, and no others.",
        *([limits] if limits else []),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
