"""`python -m cfgen.data morpho_mnist`: prepares a data set ahead of training and shows what is in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cfgen.command_line import CommandParser, NonNegativeInt, PositiveInt, run_command
from cfgen.errors import UserError, unknown_name

SETS = ("morpho_mnist",)
EXAMPLES = """
  cfgen data morpho_mnist                                        5,000 digits that come with a package
  cfgen data morpho_mnist --source published --data_dir DIR      the files that DeepSCM published
"""


def parser() -> CommandParser:
    parser = CommandParser(
        "data",
        "Prepares a data set: reads or makes it, keeps it in the cache, prints what is in it and draws a sheet of its images.\n"
        "Training with the same options then starts at once.",
        EXAMPLES,
    )
    add = parser.add
    add("set", metavar="SET", help="morpho_mnist: digits with thickness, intensity, slant and label")
    add("--source", default="embedded",
        help="embedded: 5,000 digits, no download; mnist: all 70,000, downloaded when missing; published: the files of "
        "DeepSCM")  # fmt: skip
    add(
        "--data_dir",
        metavar="DIR",
        help="the folder that contains mnist/ or morphomnist_deepscm/ (default: the environment variable CFGEN_DATA)",
    )
    add("--cache_dir", metavar="DIR", help="where prepared sets are kept (default: ~/.cache/cfgen)")
    add("--seed", type=NonNegativeInt, default=0, help="seed of the sampled attributes")
    add(
        "--independent_slant",
        action="store_true",
        help="sample the slant too, independently of the other attributes, and shear the digits to it (default: measure it)",
    )
    add(
        "--limit",
        type=PositiveInt,
        metavar="N",
        help="the largest number of images, at least 100, for trials (default: all)",
    )
    add("--out", type=Path, metavar="FILE",
        help="the sheet, a picture; by default morpho_mnist-SOURCE.png here. An existing file is replaced")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["set"])


def command(arguments: Sequence[str] | None) -> None:
    options = parser().parse_args(arguments)
    if options.set not in SETS:
        raise UserError(unknown_name("data set", options.set, SETS), argument="set")

    from rich.console import Console  # only now: importing torch and Lightning takes seconds
    from rich.table import Table

    from cfgen.reporting.data_summary import summarise
    from datamodules import MorphoMNIST

    try:
        data = MorphoMNIST(
            source=options.source,
            data_dir=options.data_dir,
            cache_dir=options.cache_dir,
            seed=options.seed,
            independent_slant=options.independent_slant,
            limit=options.limit,
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    title = f"Morpho-MNIST, {options.source}"
    summary = summarise(data, title)
    sheet = summary.save(options.out or Path(f"morpho_mnist-{options.source}.png"))
    print(f"cache   {data.cache_file}")
    print("splits  " + ", ".join(f"{size:,} {split}" for split, size in summary.splits.items()))
    print(f"sheet   {sheet}", flush=True)
    table = Table("attribute", "kind", title="training split")
    for heading in ("lowest", "highest", "mean", "std"):
        table.add_column(heading, justify="right")
    for record in summary.attributes:
        table.add_row(*(f"{v:.3f}" if isinstance(v, float) else "" if v is None else str(v) for v in record.values()))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
