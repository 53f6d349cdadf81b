"""The card of an exported model: its data, recipe, scores and limits, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from cfgen.checkpoints import class_path, earlier_runs
from cfgen.runs.model import TrainedModel

__all__ = ["model_card"]

LINKED = ("scm", "image_shape")  # come from the data, and stand under Attributes


def model_card(
    name: str,
    model: TrainedModel,
    size: int,
    data: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    limits: str = "",
) -> str:
    """`size` is that of the weights in bytes, `data` what is known of the images, in sentences."""
    kind = class_path(model.module).rpartition(".")[2]
    shape = "x".join(map(str, model.module.image_shape))
    sections = {
        "Attributes": attributes(model),
        "Data": "\n".join(data),
        "Recipe": recipe(model, config) if config is not None else "",
        "Scores": score_table(scores) if scores is not None else "",
        "Limits": "\n".join(
            [
                "Counterfactuals are those of the causal graph above, and as good as the generator: look at its scores before a "
                "decision rests on them. It knows images like those it was trained on, and no others.",
                *([limits] if limits else []),
            ]
        ),
    }
    parts = [
        f"# {name}",
        f"A {kind} for images of {shape} (channels, height, width), {size / 1e6:.1f} MB of weights.",
        f'```python\nmodel = cfgen.load("{name}")  # a name that comes with cfgen, or this folder\'s path\n'
        "model.counterfactual(images, attributes, do={...}).images\n```",
        *(f"## {title}\n\n{text}" for title, text in sections.items() if text),
    ]
    return "\n\n".join(parts) + "\n"


def attributes(model: TrainedModel) -> str:
    lines = []
    for name, spec in model.schema.spec.items():
        match spec:
            case {"low": low, "high": high}:
                lines.append(f"- {name}: continuous, {low:.4g} to {high:.4g}")
            case {"values": values}:
                lines.append(f"- {name}: one of {', '.join(map(str, values))}")
            case _:
                lines.append(f"- {name}: {spec['kind']}")
    causes = ", ".join(f"{cause} → {effect}" for cause, effect in model.scm.graph.edges)
    return "\n".join([*lines, "", f"Causes: {causes or 'none among them'}."])


def recipe(model: TrainedModel, config: Mapping[str, Any]) -> str:
    """What a run's config says, and of which models of earlier runs it was made."""
    trainer = config.get("trainer", {})
    parts = {key: config[key] for key in ("data", "model") if key in config}
    for key in earlier_runs(class_path(model.module)):
        spec = model.module.hparams[key]
        options = {option: value for option, value in spec["init_args"].items() if option not in LINKED}
        parts[key] = {"class_path": spec["class_path"], "init_args": options}
    parts["trainer"] = {key: trainer[key] for key in ("max_epochs", "max_steps") if trainer.get(key) not in (None, -1)}
    parts["seed"] = config.get("seed_everything")
    text = yaml.safe_dump(plain(parts), sort_keys=False).strip()
    return f"`cfgen fit --config config.yaml` trains it again; in short:\n\n```yaml\n{text}\n```"


def plain(value: Any) -> Any:
    """Tuples as lists and nothing that is not set: what YAML shows best."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items() if part is not None}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def score_table(scores: Mapping[str, Any]) -> str:
    """Every number that `cfgen evaluate` found, with its standard error where there is one."""
    about = [f"{scores['images']:,}" if "images" in scores else "", str(scores.get("split", "")), "images"]
    seed = f", seed {scores['seed']}" if "seed" in scores else ""
    errors = scores.get("standard_errors")
    errors = errors if isinstance(errors, Mapping) else {}
    rows = [
        f"| {key} | {value:.5g}{f' ± {errors[key]:.2g}' if isinstance(errors.get(key), float) else ''} |"
        for key, value in scores.items()
        if isinstance(value, float)
    ]
    head = f"{' '.join(filter(None, about))}{seed}, as `cfgen evaluate` scored them"
    return "\n".join(
        [f"{head}{'; ± is one standard error' if errors else ''}.", "", "| metric | value |", "|---|---|", *rows]
    )
