"""`make quickstart`: trains a small HVAE on digits that come with a package, then shows and measures its counterfactuals."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfgen.command_line import run_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {  # Table 1
    "ImageCFGen (paper)": {"thickness": "0.408", "intensity": "10.740"},
    "DeepSCM (paper)": {"thickness": "0.253", "intensity": "12.519"},
}
HELP = """usage: cfgen quickstart [options of cfgen fit]

Trains a small HVAE on 5,000 digits that are installed with cfgen, then draws and measures its counterfactuals.  Writes
runs/quickstart/NNN with pictures and a table.  It takes about five minutes on two cores; with `--trainer.max_epochs 2`, about
one.  Every option of `cfgen fit` can be added."""

# Fig. 3
DOWN: dict[str, list[float]] = {"label": [1, 4, 6, 9]}
ACROSS: dict[str, list[float]] = {"thickness": [1, 3, 5], "intensity": [68, 120, 224], "slant": [-0.7, 0, 1]}


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "-h" in words or "--help" in words:
        print(HELP)
        return 0
    return run_command(lambda: quickstart(words))


def quickstart(words: Sequence[str]) -> None:
    from cfgen.commands.fit import fit  # only now: importing torch and Lightning takes seconds

    started = time.monotonic()
    run = fit(["--config", "quickstart", *words])
    if run is None or run.folder is None:  # another process of this run does the rest
        return
    report(run.folder)
    minutes = (time.monotonic() - started) / 60
    print(f"\neverything is in {run.folder}, after {minutes:.1f} minutes. Next:")
    print(f"  cfgen generate {run.folder.parent} --do thickness=4 --do label=7")
    print(f"and to see the counterfactuals of this run:\n  {how_to_open(run.folder / 'counterfactuals.png')}")


def report(folder: Path) -> None:
    """The counterfactual grid, the scatter and the table, from the best checkpoint on the test split."""
    from rich.console import Console
    from rich.table import Table

    from cfgen import figures
    from cfgen.contracts import measured_names
    from cfgen.counterfactual import sweep
    from cfgen.metrics.effectiveness import compare, median_abs_errors
    from cfgen.runs.data import run_data
    from cfgen.runs.model import load_trained

    model, data = load_trained(folder), run_data(folder)
    data.prepare_data()
    data.setup("test")
    x, columns = data.images("test"), data.columns("test")
    batch = next(sweep(model.module, x, columns, batch_size=24))
    save(figures.counterfactual_grid(batch, DOWN, ACROSS), folder / "counterfactuals.png")
    save(figures.reconstructions(batch), folder / "reconstructions.png")
    names = measured_names(data, model.schema)
    comparisons = list(compare(model.module, data, x, columns, names))
    save(figures.target_against_measured(comparisons), folder / "target_against_measured.png")
    errors = {key: metric.compute().item() for key, metric in median_abs_errors(comparisons, names).items()}
    table = Table(title=f"Median absolute error, requested against measured, {len(x)} test images")
    table.add_column("")
    for name in names:
        table.add_column(f"do({name})", justify="right")
    table.add_row("this run", *(f"{errors[f'do({name})', name]:.3f}" for name in names), style="bold")
    for who, values in PAPER.items():
        table.add_row(who, *(values.get(name, "-") for name in names))
    table.add_row("image left untouched", *(f"{errors['untouched', name]:.3f}" for name in names), style="dim")
    table.add_row("real images (floor)", *(f"{errors['floor', name]:.3f}" for name in names), style="dim")
    Console(markup=False, emoji=False).print(table)
    print("The paper trained on 60,000 digits and measured on 10,000 others; docs/results.md compares like with like.")


def how_to_open(path: Path) -> str:
    """The command that shows a picture on this system."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return f"{opener} {shlex.quote(str(path))}"


def save(figure: Figure, path: Path) -> None:
    from cfgen.io.writing import write_atomically
    from cfgen.reporting.files import png

    picture = png(figure, dpi=160)
    write_atomically(path, lambda file: file.write(picture))
    print(f"wrote {path}")
