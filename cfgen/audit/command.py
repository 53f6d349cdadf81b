"""`python -m cfgen.audit --model MODEL --classifier WHAT --do Black_Hair=1,Pale_Skin=1`: is a classifier biased?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any, Literal

from cfgen.command_line import (
    CommandParser,
    OpenUnitInterval,
    PositiveInt,
    Seed,
    parse_assignments,
    run_command,
    whole_number,
)
from cfgen.errors import UserError
from cfgen.external.kinds import KINDS
from cfgen.external.options import add_input_options, input_values, parse_numbers
from cfgen.interventions import parse_intervention
from cfgen.io.classes import search_working_directory

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
    add("--trusted", action="store_true",
        help="read a .pt2 file, which can run code from it, and import classes of your own that a model, its data, a classifier "
        "or a predictor names, which runs code too; only for files whose source you trust (default: refuse such files, and "
        "import classes that come with cfgen alone)")  # fmt: skip
    add("--do", action="append", default=[], type=str, metavar="ATTRIBUTE=VALUE[,...]",
        help="an intervention, in the attribute's own units: size=20, colour=red; commas join simultaneous ones, and further "
        "ones are given by repeating the option. Only images that do not have the values already are counted. size=+2 (or +-2) "
        "and size=-0.5sd shift each image's own value, the second in standard deviations of the training images; size=10:20 "
        "compares all images at 20 with all at 10")  # fmt: skip
    add("--among", action="append", default=[], type=str, metavar="ATTRIBUTE=VALUE[,...]",
        help="measure the bias also among the images with these values alone; can be repeated (default: measure it among all "
        "images only)")  # fmt: skip
    add("--subgroups", type=str, metavar="ATTRIBUTES",
        help="measure the bias also in the subgroups of these attributes: all, or names joined by commas; intervals allow for "
        "looking at many (default: no subgroups)")  # fmt: skip
    add("--curve", action="append", default=[], type=str, metavar="ATTRIBUTE[=VALUES]",
        help="set a continuous attribute to several values and draw the bias as a curve: values joined by commas (default: 7 "
        "over its range); can be repeated, and takes the place of --do")  # fmt: skip
    add("--hold", action="append", default=[], type=str, metavar="ATTRIBUTE",
        help="keep this attribute as it is although an intervention would change it: its direct effect (default: everything "
        "that the causal graph makes follow changes too, the total effect); can be repeated")  # fmt: skip
    add("--adjust", action="append", default=[], type=str, metavar="COLUMN",
        help="adjust for this column of the data too, which the model does not know; it must not be caused by an intervention. "
        "This is how a hidden common cause is removed; can be repeated (default: the model's attributes only)")  # fmt: skip
    add("--pairs", type=str, metavar="N|FILE.csv",
        help="correct by true counterfactuals: of N images, where the data knows or can make them, or before and after pictures "
        "in a table with the columns before, after, do and the attributes (default: by real images alone)")  # fmt: skip
    add("--strengths", type=str, metavar="S[,...]",
        help="measure the bias also with the attributes set a share S of the way, e.g. 0.5,1.5 (default: at full strength "
        "only)")  # fmt: skip
    add("--explain", default="all", type=str, metavar="ATTRIBUTES",
        help="the attributes to rank by importance: all, none, or names joined by commas")  # fmt: skip
    add("--local", type=str, metavar="N[,...]",
        help="explain these images one by one, by their numbers from 0 (default: none)")  # fmt: skip
    add("--explain_count", type=PositiveInt, default=1000, metavar="N",
        help="rank them on the first N images; each attribute costs one more counterfactual for each image")  # fmt: skip
    add("--keep_residual", action="store_true",
        help="add what the reconstruction lost to every counterfactual: the base image is then the image itself, which is "
        "closer to the truth where the model blurs (default: compare with reconstructions)")  # fmt: skip
    add("--predictor", type=str, default="train", metavar="RUN",
        help="who judges how strongly attributes are drawn: the run of a Predictor, none, or train: the model's calibration "
        "where there is one (cfgen calibrate), else a predictor that is trained in a minute or two and kept beside the "
        "model")  # fmt: skip
    add_input_options(parser)
    add("--positive", action="append", default=[], type=str, metavar="CLASS",
        help="the number of the class that counts as yes, or with multilabel of the label; from 0 (default: 1 of two classes, "
        "the only label, every class of more than two). Several are audited one by one; repeat the option")  # fmt: skip
    add("--classes", type=str, metavar="NAME[,...]",
        help="the names of the classifier's classes, in its order: it is audited for each of them, and its answer is the most "
        "probable (default: of more than two, the values of the data's target if they are as many, else numbers)")  # fmt: skip
    add("--class", action="append", default=[], type=str, metavar="NAME",
        help="of several classes the one to look at; can be repeated (default: all)")  # fmt: skip
    add("--threshold", type=OpenUnitInterval, default=0.5, metavar="P",
        help="the answer is yes above this probability, between 0 and 1")  # fmt: skip
    add("--label", type=str, metavar="NAME",
        help="what yes means. Where the data has a target or an attribute of that name, the classifier's accuracy is measured "
        "(default: what a cfgen run was trained to answer)")  # fmt: skip
    add("--split", type=Literal["test", "val"], default="test", help="the split of the model's data that is audited")
    add("--count", type=PositiveInt, metavar="N", help="audit the first N images (default: all)")
    add("--batch_size", type=PositiveInt, default=100, metavar="N",
        help="images at a time; more need more memory, and the numbers stay the same")  # fmt: skip
    add("--seed", type=Seed, default=0, metavar="N",
        help="seed of the noise, of the confidence intervals and of the choice of example images")  # fmt: skip
    add("--strict", action="store_true",
        help=f"exit with code {BAD_VERDICT} where the verdict of any intervention is other than that real images and model agree "
        "(default: exit with 0; the report says the verdicts)")  # fmt: skip
    add("--accelerator", type=str, default="auto", help="where to compute, as in Lightning: auto, cpu, gpu, ...")
    add("--devices", type=str, default="1",
        help="how many devices, or which, as in Lightning; each gets its share of the images")  # fmt: skip
    add("--out", type=str, metavar="DIR",
        help="a new folder for the report (default: the next free audits/NNN in the model's folder, or in runs/NAME for a model "
        "that comes with cfgen)")  # fmt: skip
    return parser


def names(text: str | None) -> list[str]:
    """Names joined by commas.

    >>> names("Young, Bangs"), names(None)
    (['Young', 'Bangs'], [])
    """
    return [name.strip() for name in text.split(",")] if text else []


def whole_numbers(texts: Sequence[str], argument: str) -> list[int]:
    """Numbers of images or classes, from 0.

    >>> whole_numbers(["0", "7"], "local")
    [0, 7]
    """
    numbers = []
    for text in texts:
        if (number := whole_number(text)) is None:
            raise UserError(f"expected a whole number of 0 or more, not {text!r}", argument)
        numbers.append(number)
    return numbers


def command(words: Sequence[str]) -> int:
    options = parser().parse_args(list(words))
    if not (options.do or options.curve):
        raise UserError("it is missing; give an intervention, such as Young=0", argument="do")
    all_or_names: dict[str, Any] = {
        name: text if (text := getattr(options, name)) == "all" else [] if text == "none" else names(text)
        for name in ("explain", "subgroups")
    }
    inputs = input_values(options)
    strengths = parse_numbers(options.strengths, "strengths") if options.strengths else ()
    local, positive = whole_numbers(names(options.local), "local"), whole_numbers(options.positive, "positive")
    pairs = options.pairs
    if pairs and (number := whole_number(pairs)) is not None:
        pairs = number
    for text in options.do:
        parse_intervention(text)  # what is not written so is refused at once
    for text in options.among:
        parse_assignments(text, "among")
    if options.trusted or any(":" in name for name in options.classifier):
        search_working_directory()  # where MODULE:FUNCTION is looked for

    import contextlib
    from dataclasses import replace

    from cfgen.audit.library import audit  # only now: importing torch and Lightning takes seconds
    from cfgen.audit.report.console import show
    from cfgen.processes import Processes
    from cfgen.reporting.files import new_results
    from cfgen.runs.data import results_folder
    from cfgen.runs.model import load_trained

    try:
        model = load_trained(options.model[0], trusted=options.trusted)
    except UserError as error:
        raise UserError(str(error), argument="model") from error
    processes = Processes(options.accelerator, options.devices)
    with contextlib.ExitStack() as stack:
        if processes.first:
            new = stack.enter_context(new_results(results_folder(options.model[0]), "audits", options.out))
        result = audit(
            model,
            options.classifier if len(options.classifier) > 1 else options.classifier[0],
            do=options.do,
            among=options.among,
            curves=options.curve,
            hold=options.hold,
            adjust=options.adjust,
            pairs=pairs,
            strengths=strengths,
            explain_count=options.explain_count,
            local=local,
            keep_residual=options.keep_residual,
            models=options.model[1:],
            predictor=options.predictor,
            positive=positive or None,
            classes=names(options.classes),
            focus=getattr(options, "class"),
            threshold=options.threshold,
            label=options.label,
            trusted=options.trusted,
            split=options.split,
            count=options.count,
            batch_size=options.batch_size,
            seed=options.seed,
            processes=processes,
            progress=True,
            **inputs,
            **all_or_names,
        )
        if not processes.first:
            return 0
        result = replace(result, command=f"cfgen audit {shlex.join(words)}")
        new.write(result.files())
    show(result)
    print(f"report: {new.path / 'report.html'}")
    return BAD_VERDICT if options.strict and not result.trusted else 0


if __name__ == "__main__":
    sys.exit(main())
