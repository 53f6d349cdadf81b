"""`python -m cfgen.calibrate MODEL`: measures how strongly a model draws each attribute, and keeps it beside the model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from cfgen.command_line import CommandParser, PositiveInt, Seed, run_command
from cfgen.errors import UserError
from cfgen.io.classes import TRUSTED_HELP, search_working_directory

if TYPE_CHECKING:
    from rich.table import Table

    from cfgen.audit.calibration import Calibration
    from cfgen.audit.drawn import Drawn

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
    add = parser.add
    add("model", metavar="MODEL",
        help="a run folder (runs/NAME or runs/NAME/001), a checkpoint, an exported folder, or the name of a model that comes "
        "with cfgen")  # fmt: skip
    add("--predictor", type=str, metavar="RUN",
        help="the run of a Predictor that reads all attributes of the model (default: the one in the model's folder; it is "
        "trained first where there is none, which takes minutes)")  # fmt: skip
    add("--split", type=Literal["val", "test"], default="val", help="the split of the model's data that is used")
    add("--count", type=PositiveInt, metavar="N", help="use the first N images (default: all)")
    add("--keep_residual", action="store_true",
        help="add what the reconstruction lost to every counterfactual; choose what your audits choose (default: do not "
        "add it)")  # fmt: skip
    add("--batch_size", type=PositiveInt, default=100, metavar="N",
        help="images at a time; more need more memory, and the numbers stay the same")  # fmt: skip
    add("--seed", type=Seed, default=0, metavar="N", help="seed of the noise and of the folds of regressions")
    add("--trusted", action="store_true", help=TRUSTED_HELP)
    add("--accelerator", type=str, default="auto", help="where to compute, as in Lightning: auto, cpu, gpu, ...")
    add("--devices", type=str, default="1",
        help="how many devices, or which, as in Lightning; each gets its share of the images")  # fmt: skip
    add("--out", type=str, metavar="DIR",
        help="the folder that calibration.json is written to (default: the model's folder, or runs/NAME for a model that comes "
        "with cfgen)")  # fmt: skip
    return parser


def command(arguments: Sequence[str] | None) -> None:
    options = parser().parse_args(arguments)
    if options.trusted:
        search_working_directory()

    from cfgen.audit.calibration import calibrate  # only now: importing torch and Lightning takes seconds
    from cfgen.processes import Processes
    from cfgen.runs.data import require_finished, results_folder
    from cfgen.runs.model import load_trained

    try:
        require_finished(options.model)
        model = load_trained(options.model, trusted=options.trusted)
    except UserError as error:
        raise UserError(str(error), argument="model") from error
    processes = Processes(options.accelerator, options.devices)
    result = calibrate(
        model,
        predictor=options.predictor,
        split=options.split,
        count=options.count,
        keep_residual=options.keep_residual,
        batch_size=options.batch_size,
        seed=options.seed,
        trusted=options.trusted,
        processes=processes,
        progress=True,
    )
    if not processes.first:
        return
    path = result.save(options.out or results_folder(options.model))
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


def weakest_first(row: Drawn) -> tuple[bool, float]:
    return not row.strength.judged, row.strength.value if row.strength.judged else 0.0


def cells(row: Drawn) -> list[str]:
    """A line of the table; where the predictor cannot tell, there is no strength."""
    found = row.strength
    drawn, interval = "not known", ""
    if found.judged:
        drawn, interval = f"{100 * found.value:.0f} %", f"{100 * found.low:.0f} to {100 * found.high:.0f} %"
    besides = f"{row.side_effect} {row.side_effect_size:+.2f}" if row.side_effect else "-"
    return [row.do, drawn, interval, besides]


if __name__ == "__main__":
    sys.exit(main())
