"""`python -m cfgen.audit --model MODEL --classifier WHAT --do Black_Hair=1,Pale_Skin=1`: is a classifier biased?"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from cfgen.audit.classifiers.kinds import KINDS, Layout, Output
from cfgen.command_line import (
    CommandParser,
    NonNegativeInt,
    OpenUnitInterval,
    PositiveInt,
    parse_assignments,
    run_command,
)
from cfgen.errors import UserError

if TYPE_CHECKING:
    from cfgen.audit.outcome import AuditResult
    from cfgen.audit.results import BiasRow

__all__ = ["main"]

EXAMPLES = """
  cfgen audit --model faces-modulated --classifier runs/faces_classifier --do Black_Hair=1,Pale_Skin=1 --do Young=0
  cfgen audit --model runs/celeba_csali --classifier my_models:resnet --resize 224 \\
      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --do Bangs=1 --among Young=0
  cfgen audit --model runs/celeba_csali --classifier theirs.onnx --layout nhwc --output probability --do Pale_Skin=1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(lambda: command(words))


def parser() -> CommandParser:
    parser = CommandParser(
        "audit",
        "Measures the bias of an image classifier from counterfactual images (Section 4), and writes a report.  The images are\n"
        "those of the model's data; for CelebA the environment variable CFGEN_DATA names its folder.",
        EXAMPLES,
    )
    add = parser.add
    add("--model", required=True, type=str, metavar="MODEL",
        help="the model that makes the counterfactuals: a run folder, a checkpoint, an exported folder, or the name of a model "
        "that comes with cfgen. The images are those of its data")  # fmt: skip
    add("--classifier", required=True, type=str, metavar="WHAT", help=f"the classifier to audit: {KINDS}")
    add("--trusted", action="store_true",
        help="read a .pt2 file although that can run code from it; only for files whose source you trust (default: refuse "
        "such files)")  # fmt: skip
    add("--do", action="append", required=True, type=str, metavar="ATTRIBUTE=VALUE[,...]",
        help="an intervention, in the attribute's own units; commas join simultaneous ones, and further ones are given by "
        "repeating the option. Only images that do not have the values already are counted")  # fmt: skip
    add("--among", action="append", default=[], type=str, metavar="ATTRIBUTE=VALUE[,...]",
        help="measure the bias also among the images with these values alone; can be repeated (default: measure it among all "
        "images only)")  # fmt: skip
    add("--explain", default="all", type=str, metavar="ATTRIBUTES",
        help="the binary attributes to rank by importance: all, none, or names joined by commas")  # fmt: skip
    add("--explain_count", type=PositiveInt, default=1000, metavar="N",
        help="rank them on the first N images; each attribute costs one more counterfactual for each image")  # fmt: skip
    add("--keep_residual", action="store_true",
        help="add what the reconstruction lost to every counterfactual: the base image is then the image itself, which is "
        "closer to the truth where the model blurs (default: compare with reconstructions)")  # fmt: skip
    add("--predictor", type=str, metavar="RUN",
        help="the run of a Predictor: report in which share of the counterfactuals it recognises what was asked for "
        "(default: do not measure it)")  # fmt: skip
    add("--resize", type=str, metavar="H[xW]",
        help="height and width in pixels that the classifier takes (default: those of the model's images)")  # fmt: skip
    add("--mean", type=str, default="0", metavar="M[,...]",
        help="subtracted from pixels in 0..1; one number for each channel, or one for all")  # fmt: skip
    add("--std", type=str, default="1", metavar="S[,...]",
        help="pixels are divided by it after that; 0.003921569 alone gives pixels in 0..255")  # fmt: skip
    add("--layout", type=Layout, default="nchw",
        help="order of the dimensions of a batch that the classifier takes; nhwc has channels last")  # fmt: skip
    add("--output", type=Output, default="logit",
        help="what the classifier returns. logit: of yes, or one for each of several classes of which one is true; multilabel: "
        "a logit for each of several labels of which any may be true; probability: of yes, or one for each class or label; "
        "class: the number of the class")  # fmt: skip
    add("--positive", type=int, metavar="CLASS",
        help="the number of the class that counts as yes, or with multilabel of the label; from 0 (default: 1 of two classes, "
        "the only label; otherwise it has to be given)")  # fmt: skip
    add("--threshold", type=OpenUnitInterval, default=0.5, metavar="P",
        help="the answer is yes above this probability, between 0 and 1")  # fmt: skip
    add("--label", type=str, metavar="NAME",
        help="what yes means. Where the data has a target or an attribute of that name, the classifier's accuracy is measured "
        "(default: what a cfgen run was trained to answer)")  # fmt: skip
    add("--split", type=Literal["test", "val"], default="test", help="the split of the model's data that is audited")
    add("--count", type=PositiveInt, metavar="N", help="audit the first N images (default: all)")
    add("--batch_size", type=PositiveInt, default=100, metavar="N",
        help="images at a time; more need more memory, and the numbers stay the same")  # fmt: skip
    add("--seed", type=NonNegativeInt, default=0, metavar="N",
        help="seed of the noise, of the confidence intervals and of the choice of example images")  # fmt: skip
    add("--accelerator", type=str, default="auto", help="where to compute, as in Lightning: auto, cpu, gpu, ...")
    add("--devices", type=str, default="1",
        help="how many devices, or which, as in Lightning; each gets its share of the images")  # fmt: skip
    add("--out", type=str, metavar="DIR",
        help="a new folder for the report (default: the next free audits/NNN in the model's folder, or in runs/NAME for a model "
        "that comes with cfgen)")  # fmt: skip
    return parser


def parse_size(text: str) -> tuple[int, int]:
    """Height and width.

    >>> parse_size("224"), parse_size("218x178")
    ((224, 224), (218, 178))
    """
    height, cross, width = text.partition("x")
    sides = (height, width if cross else height)
    if not all(side.isdigit() and int(side) > 0 for side in sides):
        raise UserError(f"expected a number of pixels such as 224 or 218x178, not {text!r}", argument="resize")
    return int(sides[0]), int(sides[1])


def parse_numbers(text: str, argument: str) -> tuple[float, ...]:
    """Numbers joined by commas.

    >>> parse_numbers("0.5,1", "mean")
    (0.5, 1.0)
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"expected numbers joined by commas, not {text!r}", argument=argument) from None


def command(words: Sequence[str]) -> None:
    options = parser().parse_args(list(words))
    explain: str | list[str] = options.explain
    if isinstance(explain, str) and explain != "all":
        explain = [] if explain == "none" else [name.strip() for name in explain.split(",")]
    resize = parse_size(options.resize) if options.resize else None
    mean, std = parse_numbers(options.mean, "mean"), parse_numbers(options.std, "std")
    for argument in ("do", "among"):
        for text in getattr(options, argument):
            parse_assignments(text, argument)  # what is not written so is refused at once
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where MODULE:FUNCTION is looked for

    import contextlib
    from dataclasses import replace

    from cfgen.audit.library import audit  # only now: importing torch and Lightning takes seconds
    from cfgen.processes import Processes
    from cfgen.reporting.files import new_folder
    from cfgen.runs.data import results_folder
    from cfgen.runs.model import load_trained

    try:
        model = load_trained(options.model)
    except UserError as error:
        raise UserError(str(error), argument="model") from error
    processes = Processes(options.accelerator, options.devices)
    with contextlib.ExitStack() as stack:
        if processes.first:
            folder = stack.enter_context(new_folder(results_folder(options.model), "audits", options.out))
        result = audit(
            model,
            options.classifier,
            do=options.do,
            among=options.among,
            explain=explain,
            explain_count=options.explain_count,
            keep_residual=options.keep_residual,
            predictor=options.predictor,
            resize=resize,
            mean=mean,
            std=std,
            layout=options.layout,
            output=options.output,
            positive=options.positive,
            threshold=options.threshold,
            label=options.label,
            trusted=options.trusted,
            split=options.split,
            count=options.count,
            batch_size=options.batch_size,
            seed=options.seed,
            processes=processes,
            progress=True,
        )
        if not processes.first:
            return
        result = replace(result, command=f"cfgen audit {shlex.join(words)}")
        result.save(folder)
    show(result)
    print(f"report: {folder / 'report.html'}")


def show(result: AuditResult) -> None:
    """Prints the bias of each cohort, the classifier's accuracy, and what to be careful about."""
    for among in dict.fromkeys(row.among for row in result.bias):
        show_bias([row for row in result.bias if row.among == among and row.n], result.label)
    if result.accuracy is not None:
        number = result.findings.images
        print(f"accuracy for {result.label}, against the data's own labels: {result.accuracy:.1%} of {number:,} images")
    if result.findings.truths:
        print("ground truth inside the confidence interval: {} of {}".format(*result.findings.truths))
    for warning in result.warnings:
        print(f"warning: {warning}")


def show_bias(rows: Sequence[BiasRow], label: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from cfgen.audit.results import EVERYONE

    if not rows:
        return
    among = "" if rows[0].among == EVERYONE else f", among {rows[0].among}"
    table = Table(title=f"Bias towards {label}{among}", box=SIMPLE_HEAD, title_justify="left")
    table.add_column("change", overflow="fold")
    for head in ("images", "to yes", "to no", "bias", "95 %"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        v = row.values
        interval = f"{v['bias/low']:+.3f} {v['bias/high']:+.3f}"
        style = "bold" if v["significant"] else "" if row.do else "dim"
        shares = (f"{v[key]:.3f}" for key in ("up", "down"))
        table.add_row(row.change, f"{row.n:,}", *shares, f"{v['bias']:+.3f}", interval, style=style)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
