"""The card of an exported model: its data, recipe, scores and limits, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cfgen.checkpoints import CARD, class_path, earlier_runs
from cfgen.errors import UserError
from cfgen.runs.model import TrainedModel

__all__ = ["CALIBRATION", "README", "errors_in_short", "model_card", "renewed_card", "require_calibration"]

README = "README.md"  # the card, in a model's folder
CALIBRATION = "calibration.json"  # what `cfgen calibrate` leaves there
SHOWN = 10  # interventions on the card, the weakest
DRAWN, LIMITS = "How strongly it draws each attribute", "Limits"
LINKED = ("scm", "image_shape")  # come from the data, and stand under Attributes


def model_card(
    name: str,
    model: TrainedModel,
    size: int,
    data: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    limits: str = "",
    calibration: Mapping[str, Any] | None = None,
) -> str:
    """`size` is that of the weights in bytes, `data` what is known of the images, in sentences; `calibration` is as in its
    file."""
    kind = class_path(model.module).rpartition(".")[2]
    shape = "x".join(map(str, model.module.image_shape))
    sections = {
        "Attributes": attributes(model),
        "Data": "\n".join(data),
        "Recipe": recipe(model, config) if config is not None else "",
        "Scores": score_table(scores) if scores is not None else "",
        DRAWN: drawn_table(calibration) if calibration is not None else "",
        LIMITS: "\n".join(
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
    trainer = config.get("trainer") or {}
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
    images = scores.get("images")
    about = [f"{images:,}" if isinstance(images, int) else "", str(scores.get("split", "")), "images"]
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


def renewed_card(folder: Path, calibration: Mapping[str, Any]) -> str | None:
    """The card of an exported model with a calibration in place of an earlier one; None where there is none."""
    card = folder / README
    if not (folder / CARD).is_file() or not card.is_file():
        return None
    text = re.sub(rf"^## {DRAWN}\n.*?(?=^## |\Z)", "", card.read_text(), flags=re.MULTILINE | re.DOTALL)
    before, limits, after = text.partition(f"## {LIMITS}\n")
    section = f"## {DRAWN}\n\n{drawn_table(calibration)}\n"
    parts = [f"{before.rstrip()}\n\n{section}", *([f"\n{limits}{after}"] if limits else [])]
    return "".join(parts)


def require_calibration(calibration: Mapping[str, Any], path: Path) -> None:
    """Refuses what `cfgen calibrate` did not write, before a card is made of it."""
    try:
        drawn_table(calibration)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{path} is not what cfgen calibrate wrote; delete it or make it again") from error


def drawn_table(calibration: Mapping[str, Any]) -> str:
    """The interventions that are drawn most weakly, what else they move, and what is true of all."""
    kept = ", with `--keep_residual`" if calibration["keep_residual"] else ""
    judged = [row for row in calibration["drawn"] if row["strength"]["judged"]]
    unknown = [row["do"] for row in calibration["drawn"] if not row["strength"]["judged"]]
    judged.sort(key=lambda row: row["strength"]["value"])
    lines = [
        f"{calibration['images']:,} {calibration['split']} images, seed {calibration['seed']}, as `cfgen calibrate` measured "
        f"them{kept}. A predictor of the attributes that was trained on real images reads the counterfactuals: at 100 % it sees "
        "what was asked for as often as in real images that have it, at 0 % as often as in images without it. The last column is "
        "the other attribute whose reading changes most: +0.10 means in 10 % more of the images, or by 0.10 standard deviations "
        "of a continuous attribute.",
        "",
        "| asked for | drawn at | 95 % confidence interval | what else changes most |",
        "|---|---|---|---|",
        *map(drawn_row, judged[:SHOWN]),
        "",
    ]
    if others := judged[SHOWN:]:
        least = percent(others[0]["strength"]["value"])
        lines.append(f"The other {len(others)} are drawn at {least} or more; `{CALIBRATION}` has them all.")
    if unknown:
        lines.append(
            f"The predictor cannot tell these in real images, so how they are drawn is unknown: {', '.join(unknown)}."
        )
    return "\n".join([*lines, *errors_in_short(calibration)]).strip()


def errors_in_short(calibration: Mapping[str, Any]) -> list[str]:
    """What the reconstruction alone changes, and how far effects are from those in real images, in sentences."""
    turned, gap, lines = calibration["turned"], calibration["gap"], []
    if turned:
        worst = max(turned, key=turned.__getitem__)
        lines.append(
            f"The reconstruction alone changes {100 * sum(turned.values()) / len(turned):.1f} % of the predictor's readings, "
            f"most often that of {worst} ({100 * turned[worst]:.1f} %)."
        )
    if gap["readings"]:
        lines.append(
            f"The effect on a reading differs from that in real images for {gap['differ']:,} of {gap['readings']:,} pairs of "
            f"intervention and reading (5 % by chance); the root mean square difference is {100 * gap['rms']:.1f} points, "
            f"and would be {100 * gap['chance']:.1f} by chance."
        )
    return lines


def drawn_row(row: Mapping[str, Any]) -> str:
    value, low, high = (percent(row["strength"][key]) for key in ("value", "low", "high"))
    besides = f"{row['side_effect']} {row['side_effect_size']:+.2f}" if row["side_effect"] else "-"
    return f"| {row['do']} | {value} | {low} to {high} | {besides} |"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"
