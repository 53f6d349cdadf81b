"""`cfgen audit --model MODEL --classifier WHAT --do Black_Hair=1,Pale_Skin=1`: is a classifier biased?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from cfgen.audit.options import AuditOptions
from cfgen.classifiers.spec import KINDS, ExternalClassifier
from cfgen.command_line import CommandParser, run_command
from cfgen.commands.common import add_devices
from cfgen.errors import blame
from cfgen.io.classes import search_working_directory
from cfgen.options import add_options, from_command_line

__all__ = ["main"]

BAD_VERDICT = 3  # exit code of --strict
EXAMPLES = """
  cfgen audit --model faces-modulated --classifier runs/faces_classifier --do Black_Hair=1,Pale_Skin=1 --do Young=0
  cfgen audit --model faces-modulated --classifier before --classifier after --do Pale_Skin=1 --subgroups all --strict
  cfgen audit --model runs/celeba_csali --classifier my_models:resnet --resize 224 \\
      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --do Bangs=1 --among Young=0
  cfgen audit --model runs/birds --classifier my_models:species --classes gull,tern,crow --class tern --do size=+1sd
  cfgen audit --model runs/celeba_csali --classifier theirs.onnx --layout nhwc --output probability --do Pale_Skin=1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(lambda: command(words))


def parser() -> CommandParser:
    parser = CommandParser(
        "audit",
        "Measures the bias of an image classifier from counterfactual images (Section 4) and from real images, says for each\n"
        "intervention whether the counterfactuals can be believed, and writes a report.  The images are those of the model's\n"
        "data; for CelebA the environment variable CFGEN_DATA names its folder.",
        EXAMPLES,
    )
    add = parser.add
    add("--model", action="append", required=True, type=str, metavar="MODEL",
        help="the model that makes the counterfactuals: a run folder, a checkpoint, an exported folder, or the name of a model "
        "that comes with cfgen. The images are those of its data. Further models of the same data can be given by repeating the "
        "option: their estimates are pooled, and their disagreement widens the interval")  # fmt: skip
    add("--classifier", action="append", required=True, type=str, metavar="WHAT",
        help=f"the classifier to audit: {KINDS}. Further ones are given by repeating the option and compared with the first; "
        "the options about input and output are for all of them that are not cfgen's")  # fmt: skip
    add_options(parser, AuditOptions)
    add_options(parser, ExternalClassifier)
    add_devices(parser)
    add = parser.heading("output").add_argument
    add("--strict", action="store_true",
        help=f"exit with code {BAD_VERDICT} if the verdict of any intervention is other than that real images and model agree "
        "(default: exit with 0; the report has the verdicts)")  # fmt: skip
    add("--out", type=str, metavar="DIR",
        help="a new folder for the report (default: the next free audits/NNN in the model's folder, or in runs/NAME for a model "
        "that comes with cfgen)")  # fmt: skip
    return parser


def command(words: Sequence[str]) -> int:
    chosen = parser().parse_args(list(words))
    options = from_command_line(AuditOptions, chosen)
    AuditOptions(**options)  # refuses bad values before torch is imported
    settings = from_command_line(ExternalClassifier, chosen)
    classifiers = [ExternalClassifier(name, **settings) for name in chosen.classifier]
    if chosen.trusted or any(":" in name for name in chosen.classifier):
        search_working_directory()  # MODULE:FUNCTION may be there

    import contextlib
    from dataclasses import replace

    from cfgen.audit import audit, write_report  # only now: importing torch and Lightning takes seconds
    from cfgen.audit.report import show
    from cfgen.processes import Processes
    from cfgen.reporting.files import new_results
    from cfgen.runs.data import results_folder
    from cfgen.runs.model import load_trained

    with blame("model"):
        model = load_trained(chosen.model[0], trusted=chosen.trusted)
    processes = Processes(chosen.accelerator, chosen.devices)
    with contextlib.ExitStack() as stack:
        if processes.first:
            new = stack.enter_context(new_results(results_folder(chosen.model[0]), "audits", chosen.out))
        result = audit(model, classifiers, models=chosen.model[1:], processes=processes, progress=True, **options)
        if not processes.first:
            return 0
        result = replace(result, provenance={"command": f"cfgen audit {shlex.join(words)}", **result.provenance})
        write_report(result, new)
    show(result)
    print(f"report: {new.path / 'report.html'}")
    return BAD_VERDICT if chosen.strict and not result.trusted else 0
