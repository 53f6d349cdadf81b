"""`cfgen generate MODEL --do thickness=3 --do label=7`: counterfactual images from a trained model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from cfgen.command_line import CommandParser, Seed, parse_assignments, run_command, whole_number
from cfgen.commands.common import add_model
from cfgen.errors import UserError
from cfgen.interventions import parse_intervention
from cfgen.io.classes import TRUSTED_HELP, search_working_directory
from cfgen.io.writing import require_free, write_new

EXAMPLES = """
  cfgen generate morphomnist-hvae --do thickness=5                     a model that comes with cfgen, and its examples
  cfgen generate runs/quickstart --do thickness=3 --do label=7          two counterfactuals of test images 0 to 4
  cfgen generate runs/quickstart --do thickness=3,label=7 --index 0-9   both changes at once
  cfgen generate runs/quickstart --do thickness=+1sd                    each digit one standard deviation thicker
  cfgen generate runs/quickstart --do label=2 --images my.png --given label=3 --out cf/
"""
MOST = 10_000  # images that can be named


def parser() -> CommandParser:
    parser = CommandParser(
        "generate", "Draws counterfactuals: what images would have been, had an attribute been different.", EXAMPLES
    )
    add = parser.add
    add_model(parser)
    add("--do", action="append", required=True, metavar="ATTRIBUTE=VALUE[,...]",
        help="an intervention, in the attribute's own units: size=20, colour=red, size=+2 (2 more than each image has; +-2 for "
        "less), size=+1sd or -0.5sd (in standard deviations of the training images); commas join simultaneous ones. Repeat it "
        "for further counterfactuals. The model's card has its attributes and ranges, and an unknown name prints them. "
        "Needed")  # fmt: skip
    add("--index", metavar="NUMBERS",
        help="which of the model's examples, or where it has none which test images, e.g. 3 or 0-9 or 1,5,7 "
        "(default: 0-4)")  # fmt: skip
    add("--images", nargs="+", metavar="FILE",
        help="picture files of your own instead; the middle of each is taken, in the model's proportions. A picture of "
        "CelebA's 178 x 218 pixels is cropped as in training")  # fmt: skip
    add(
        "--given",
        metavar="ATTRIBUTE=VALUE[,...]",
        help="the attributes of your pictures that cannot be measured on them, the same for all files, e.g. label=3; "
        "needed with --images",
    )
    add("--hold", action="append", default=[], type=str, metavar="ATTRIBUTE",
        help="keep this attribute as it is although an intervention would change it (default: everything that the causal graph "
        "makes follow changes too); can be repeated")  # fmt: skip
    add("--trusted", action="store_true", help=TRUSTED_HELP)
    add("--seed", type=Seed, default=0, help="seed of the random numbers that some models need")
    add("--out", metavar="DIR", help="a new folder for the grid, the single images and attributes.csv; without it, only "
        "counterfactuals.png is written in the current folder (with a number where that exists)")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model"])


def command(arguments: Sequence[str] | None) -> None:
    options = parser().parse_args(arguments)
    interventions = {text: parse_intervention(text) for text in options.do}
    given = parse_assignments(options.given, "given") if options.given else None
    if options.index is not None and options.images:
        raise UserError("give either index or images, not both", argument="index")
    index = parse_index(options.index or "0-4")
    if options.out:
        require_free(options.out)
    if options.trusted:
        search_working_directory()

    from cfgen.runs.generation import generate  # only now: importing torch and Lightning takes seconds
    from cfgen.runs.model import load_trained

    made = generate(
        load_trained(options.model, trusted=options.trusted),
        interventions,
        index=index,
        images=options.images,
        given=given,
        hold=options.hold,
        seed=options.seed,
    )
    print(f"images: {made.description}")
    if options.out:
        folder = made.save(options.out)
        print(f"grid: {folder / 'grid.png'}\nimages and attributes.csv: {folder}")
        return
    grid = made.grid()
    print(f"grid: {next(path for path in names(Path('counterfactuals.png')) if write_new(path, grid))}")


def parse_index(text: str) -> list[int]:
    """Numbers and ranges of numbers.

    >>> parse_index("0-3,7")
    [0, 1, 2, 3, 7]
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start, stop = whole_number(first), whole_number(last if dash else first)
        if start is None or stop is None:
            raise UserError(f"expected numbers and ranges like 0-9 or 1,5,7, not {text!r}", argument="index")
        if len(numbers) + stop - start >= MOST:
            raise UserError(f"{text} is more than {MOST:,} images; choose fewer", argument="index")
        numbers += range(start, stop + 1)
    return numbers


def names(path: Path) -> Iterator[Path]:
    """The path, then with numbers from 2 on: the first that is free is taken, for nothing is overwritten."""
    yield path
    yield from (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
