"""A run's scores: as tables in the terminal, as JSON and as CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cfgen.attributes import Schema
from cfgen.audit.folder import table
from cfgen.evaluation.statistics import Score

__all__ = ["as_csv", "as_json", "blank", "show", "tells_less", "with_error"]

ACROSS = 6  # columns of a table that a terminal has room for
TRUTHS = {"do": "error", "effect": "of the change", "untouched": "untouched", "changed": "share changed"}
SINGLE = {  # metrics of one intervention: the table's title, and by the head of their column their names
    "Single interventions": {"reversibility": "reversibility_l1/do({})", "minimality": "minimality_cld/do({})"},
    "Bias of the classifier": {"do(it = 1)": "bias/do({}=1)", "do(it = 0)": "bias/do({}=0)"},
}


def as_json(scores: Mapping[str, Score], facts: Mapping[str, Any]) -> str:
    """Values by name, then `facts`, then the standard errors; null stands for what is not a number."""
    content: dict[str, Any] = {name: plain(score.value) for name, score in scores.items()} | dict(facts)
    content["standard_errors"] = {
        name: plain(score.standard_error) for name, score in scores.items() if not math.isnan(score.standard_error)
    }
    if over := {name: score.over_seeds for name, score in scores.items() if not math.isnan(score.over_seeds)}:
        content["standard_errors_over_seeds"] = over
    return json.dumps(content, indent=1, allow_nan=False)


def tells_less(text: str, path: Path) -> bool:
    """Whether JSON scores are of fewer images, or of fewer metrics, than those in a file: they must not take its place."""
    try:
        old, new = json.loads(path.read_text()), json.loads(text)
        return new["images"] < old["images"] or not new.keys() >= old.keys()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_csv(scores: Mapping[str, Score]) -> str:
    """One line a metric; with several seeds, also the standard error over these."""
    several = any(not math.isnan(score.over_seeds) for score in scores.values())
    lines = []
    for name, score in scores.items():
        line = {"name": name, "value": score.value, "standard_error": blank(score.standard_error), "n": score.n}
        lines.append(line | ({"standard_error_over_seeds": blank(score.over_seeds)} if several else {}))
    return table(lines)


def blank(value: float) -> float | str:
    return "" if math.isnan(value) else value


def with_error(score: Score) -> str:
    """`value ± standard error` over images; of what has none, such as FID, over seeds."""
    error = score.over_seeds if math.isnan(score.standard_error) else score.standard_error
    return short(score.value) + ("" if math.isnan(error) else f" ± {error:.2g}")


def short(value: float) -> str:
    """Four digits, without an exponent."""
    if not math.isfinite(value) or value == 0:
        return f"{value:.0f}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"


def show(title: str, schema: Schema, scores: Mapping[str, Score]) -> None:
    """Prints the scores: effectiveness as a table of interventions by attributes, what is left as a list."""
    left = dict(scores)

    def take(name: str) -> str:
        return short(left.pop(name).value)

    def matrix(head: str, kind: str) -> None:
        names = [j for j in schema.names if f"{kind}/floor/{j}" in left]
        rows = [f"do({k})" for k in schema.names if names and f"{kind}/do({k})/{names[0]}" in left]
        if names and len(names) <= ACROSS:
            cells = {do: [take(f"{kind}/{do}/{j}") for j in names] for do in (*rows, "untouched", "floor")}
            draw(f"{head}, {title}", names, cells)
        elif names:
            own = {j: [take(f"{kind}/{do}/{j}") for do in (f"do({j})", "untouched", "floor")] for j in names}
            draw(f"{head}, {title}", ["do(itself)", "untouched", "floor"], own)
            for name in [name for name in left if name.startswith(f"{kind}/")]:
                del left[name]  # one attribute under another's intervention: in the files

    matrix("Median absolute error", "median_abs_error")
    matrix("Read by the predictor (continuous: mean absolute error; others: share right)", "predicted")
    if known := [k for k in schema.names if f"true_error/do({k})" in left]:
        cells = {k: [take(f"true_error/{kind}({k})") for kind in TRUTHS] for k in known}
        draw(f"Distance from the true counterfactual (0 to 255), {title}", list(TRUTHS.values()), cells)
    for head, columns in SINGLE.items():
        cells = {}
        for k in schema.names:
            found = [left.pop(name.format(k), None) for name in columns.values()]
            if any(found):
                cells[k] = [with_error(score) if score else "" for score in found]
        if cells:
            draw(f"{head}, {title}", list(columns), cells)
    pairs = {name: left[name] for name in left if name.startswith("commutativity")}
    if len(pairs) > ACROSS:
        left = {name: score for name, score in left.items() if name not in pairs}
        mean = sum(score.value for score in pairs.values()) / len(pairs)
        left[f"commutativity_l1, mean of {len(pairs)} pairs"] = Score(mean, math.nan, 0)
    draw(f"Other metrics, {title}", ["value"], {name: [with_error(score)] for name, score in left.items()})
    Console().print("After ±: one standard error over images (of FID: over seeds).", style="dim")


def draw(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    found = Table(title=title)
    found.add_column("", no_wrap=True)
    for column in columns:
        found.add_column(column, justify="right", no_wrap=True)
    for name, cells in rows.items():
        found.add_row(name, *cells, style="dim" if name in ("untouched", "floor") else "")
    Console().print(found)
