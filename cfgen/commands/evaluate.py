"""`cfgen evaluate MODEL [MODEL ...]`: scores trained models on their test split, and compares several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfgen.command_line import CommandParser, run_command
from cfgen.commands.common import add_devices, add_model
from cfgen.errors import UserError
from cfgen.evaluation.metrics import metric_names
from cfgen.evaluation.options import EvaluateOptions
from cfgen.io.classes import search_working_directory
from cfgen.io.writing import require_free
from cfgen.options import add_options, from_command_line

if TYPE_CHECKING:
    from cfgen.evaluation.results import Evaluation

EXAMPLES = """
  cfgen evaluate runs/quickstart                                              scores and figures, into the run's folder
  cfgen evaluate morphomnist-csali --classifier runs/morphomnist_classifier --predictor runs/morphomnist_judge
  cfgen evaluate runs/faces_ali runs/faces_styleali runs/faces_csali --fid inception       and a comparison of the three
"""


def parser() -> CommandParser:
    parser = CommandParser(
        "evaluate",
        "Scores trained models on their test split: effectiveness (Table 1), reconstruction and FID (Table 2), composition,\n"
        "reversibility, commutativity and minimality, and the distance from the ground truth if it is known.  Writes\n"
        "metrics.json, a CSV and figures into each model's folder (for a model that comes with cfgen: runs/NAME).  For several\n"
        "models it also writes a comparison.  The images are those of the model's data; for Morpho-MNIST as published and\n"
        "CelebA the environment variable CFGEN_DATA names their folder.\n\n"
        f"Metrics: {', '.join(metric_names())}",
        EXAMPLES,
    )
    add_model(parser, "; several are compared", nargs="+")
    add_options(parser, EvaluateOptions)
    add_devices(parser)
    parser.heading("output").add_argument("--out", type=str, metavar="DIR",
        help="a new folder for the comparison of several models (default: the next free comparisons/NNN)")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model", "models"])


def command(arguments: Sequence[str] | None) -> None:
    chosen = parser().parse_args(arguments)
    options = from_command_line(EvaluateOptions, chosen)
    EvaluateOptions(**options)  # refuses bad values before torch is imported
    several = len(chosen.model) > 1
    if chosen.out and not several:
        raise UserError("it is for the comparison of several models; one model's results go into its own folder", "out")
    if chosen.out:
        require_free(chosen.out)
    if chosen.trusted or ":" in (chosen.fid or ""):
        search_working_directory()

    from cfgen.evaluation import compare, evaluate  # only now: importing torch and Lightning takes seconds
    from cfgen.processes import Processes

    processes = Processes(chosen.accelerator, chosen.devices)
    options |= {"processes": processes, "progress": True}

    def report(evaluation: Evaluation) -> None:
        if processes.first:
            from cfgen.evaluation.terminal import show

            show(evaluation)
            tell(evaluation.save())

    if not several:
        report(evaluate(chosen.model[0], **options))
        return
    comparison = compare(chosen.model, each=report, **options)
    if processes.first:
        tell(comparison.save(chosen.out))


def tell(paths: Sequence[Path]) -> None:
    """Says which files were written."""
    print(f"wrote {', '.join(path.name for path in paths)} into {paths[0].parent}")
