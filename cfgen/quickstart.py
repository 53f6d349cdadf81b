"""`make quickstart`: trains a small CondALI on the embedded digits, then shows and measures its counterfactuals."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cfgen import figures
from cfgen.counterfactual import as_unit_float
from cfgen.metrics.effectiveness import compare, measurable, median_abs_errors
from cfgen.runs.loading import load
from cfgen.training.cli import FitCLI, one_line_errors

PAPER = {  # Table 1
    "ImageCFGen (paper)": {"thickness": "0.408", "intensity": "10.740"},
    "DeepSCM (paper)": {"thickness": "0.253", "intensity": "12.519"},
}

# Fig. 3
DOWN: dict[str, list[float]] = {"label": [1, 4, 6, 9]}
ACROSS: dict[str, list[float]] = {"thickness": [1, 3, 5], "intensity": [68, 120, 224], "slant": [-0.7, 0, 1]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cfgen quickstart", description=__doc__, epilog="Any option of `cfgen fit` may be added."
    )
    _, fit_options = parser.parse_known_args(arguments)
    return one_line_errors(lambda: quickstart(fit_options))


def quickstart(fit_options: Sequence[str]) -> None:
    started = time.monotonic()
    cli = FitCLI(["--config", "quickstart", *fit_options])
    cli.fit()
    if cli.folder is None:  # another process of this run does the rest
        return
    report(cli)
    minutes = (time.monotonic() - started) / 60
    print(f"\nall of it in {cli.folder} after {minutes:.1f} minutes. Next:")
    print(f"  cfgen generate {cli.folder.parent} --do thickness=4 --do label=7")


def report(cli: FitCLI) -> None:
    """The counterfactual grid, the scatter and the table, from the best checkpoint on the test split."""
    assert cli.folder is not None
    model, data = load(cli.folder), cli.datamodule
    x, columns = data.images("test"), data.columns("test")
    a = model.schema.encode(columns)
    grid = figures.counterfactual_grid(model.module, model.scm, as_unit_float(x[:1]), a[:1], DOWN, ACROSS)
    save(grid, cli.folder / "counterfactuals.png")
    save(figures.reconstructions(model.module, as_unit_float(x[:24]), a[:24]), cli.folder / "reconstructions.png")
    comparisons = list(compare(model.module, model.scm, x, columns))
    save(figures.target_against_measured(comparisons), cli.folder / "target_against_measured.png")
    errors = {key: metric.compute().item() for key, metric in median_abs_errors(iter(comparisons)).items()}
    names = measurable(model.schema)
    table = Table(title=f"Median absolute error, requested against measured, {len(x)} test images")
    table.add_column("")
    for name in names:
        table.add_column(f"do({name})", justify="right")
    table.add_row("this run", *(f"{errors[f'do({name})', name]:.3f}" for name in names), style="bold")
    for who, values in PAPER.items():
        table.add_row(who, *(values.get(name, "-") for name in names))
    table.add_row("image left untouched", *(f"{errors['untouched', name]:.3f}" for name in names), style="dim")
    table.add_row("real images (floor)", *(f"{errors['floor', name]:.3f}" for name in names), style="dim")
    Console().print(table)
    print(
        "The paper trained on 60,000 digits and was measured on 10,000 others: docs/results.md compares like with like."
    )


def save(figure: figures.Figure, path: Path) -> None:
    figure.savefig(path, dpi=160)
    print(f"wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
