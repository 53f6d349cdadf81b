"""`cfgen calibrate MODEL`: measures how strongly a model draws each attribute, and keeps it beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfgen.audit.strength.options import CalibrateOptions
from cfgen.command_line import CommandParser, run_command
from cfgen.commands.common import add_devices, add_model, load_finished
from cfgen.io.classes import search_working_directory
from cfgen.options import add_options, from_command_line

if TYPE_CHECKING:
    from rich.table import Table

    from cfgen.runs.calibration import AttributeCalibration, Calibration

__all__ = ["main"]

EXAMPLES = """
  cfgen calibrate runs/faces_csali                        audits with this model start from what it finds
  cfgen calibrate faces-modulated --predictor runs/faces_predictor --count 1000 --keep_residual
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model"])


def parser() -> CommandParser:
    parser = CommandParser(
        "calibrate",
        "Measures how strongly a model draws each attribute, what else it changes by that, and how far its effects are from\n"
        "those in real images; writes calibration.json into the model's folder, where audits and model cards find it.  The\n"
        "images are those of the model's data; for Morpho-MNIST as published and CelebA the environment variable CFGEN_DATA\n"
        "names their folder.",
        EXAMPLES,
    )
    add_model(parser)
    add_options(parser, CalibrateOptions)
    add_devices(parser)
    parser.heading("output").add_argument("--out", type=str, metavar="DIR",
        help="the folder that calibration.json is written to (default: the model's folder, or runs/NAME for a model that comes "
        "with cfgen)")  # fmt: skip
    return parser


def command(arguments: Sequence[str] | None) -> None:
    chosen = parser().parse_args(arguments)
    options = from_command_line(CalibrateOptions, chosen)
    if chosen.trusted:
        search_working_directory()

    from cfgen.audit.strength import calibrate  # only now: importing torch and Lightning takes seconds
    from cfgen.processes import Processes
    from cfgen.runs.data import results_folder

    model = load_finished(chosen.model, chosen.trusted)
    processes = Processes(chosen.accelerator, chosen.devices)
    result = calibrate(model, **options, processes=processes, progress=True)
    if not processes.first:
        return
    path = result.save(chosen.out or results_folder(chosen.model))
    show(result)
    print(f"calibration: {path}")


def show(result: Calibration) -> None:
    """Prints a line for each intervention, the weakest first, and what is true of all."""
    from rich.console import Console

    from cfgen.runs.card import errors_in_short

    Console(markup=False, emoji=False).print(drawn_table(result))
    for sentence in errors_in_short(result.to_dict()):
        print(sentence)
    unsure = [f"{name} {share:.2f}" for name, share in result.accuracy.items() if share < WELL]
    if unsure:
        print(f"The predictor reads these poorly in real images: {', '.join(unsure)}.")


WELL = 0.75  # balanced accuracy, or correlation


def drawn_table(result: Calibration) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    facts = result.facts
    kept = ", residual kept" if result.keep_residual else ""
    title = f"How strongly it draws each attribute ({facts['images']:,} {facts['split']} images{kept})"
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    table.add_column("asked for", no_wrap=True)
    for head in ("drawn at", "95 %"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("what else changes most", overflow="fold")
    for row in sorted(result.drawn, key=weakest_first):
        table.add_row(*cells(row), style="" if row.strength.judged else "dim")
    return table


def weakest_first(row: AttributeCalibration) -> tuple[bool, float]:
    return not row.strength.judged, row.strength.value if row.strength.judged else 0.0


def cells(row: AttributeCalibration) -> list[str]:
    """A line of the table; where the predictor cannot tell, there is no strength."""
    found = row.strength
    drawn, interval = "not known", ""
    if found.judged:
        drawn, interval = f"{100 * found.value:.0f} %", f"{100 * found.low:.0f} to {100 * found.high:.0f} %"
    besides = f"{row.side_effect} {row.side_effect_size:+.2f}" if row.side_effect else "-"
    return [row.do, drawn, interval, besides]
