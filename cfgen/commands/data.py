"""`cfgen data DATA`: looks at a data set, and prepares it for training on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cfgen.command_line import CommandParser, PositiveInt, Seed, run_command
from cfgen.data.opening import built_data, data_section
from cfgen.errors import UserError
from cfgen.io.classes import TRUSTED_HELP, search_working_directory
from cfgen.io.files import exists

__all__ = ["main"]

EXAMPLES = """
  cfgen data my_images --out look                   a folder of images with metadata.csv; look/data.html shows what is in it
  cfgen data my_images --write mine.yaml            then `cfgen fit --config mine.yaml` trains a model on it
  cfgen data faces --export my_faces                synthetic faces as such a folder
  cfgen data morpho_mnist --source published --data_dir DIR
"""
PICTURES = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".webp")
OPTIONS = ("source", "data_dir", "cache_dir", "seed", "independent_slant", "limit")  # of the data's class


def parser() -> CommandParser:
    parser = CommandParser(
        "data",
        "Looks at a data set: counts, kinds and ranges of its attributes, how they go together, what in the causal graph\n"
        "contradicts the data, and how many images have each value. The data is prepared on the way: training with the same\n"
        "options then starts at once.",
        EXAMPLES,
    )
    add = parser.add
    add("data", metavar="DATA",
        help="a folder of images with metadata.csv; a set that comes with cfgen, such as morpho_mnist, faces or celeba; or a "
        "config")  # fmt: skip
    add(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="write a page, data.html, with tables and figures beside it into this new folder; a name that ends in .png "
        "is a picture, and gets the sheet of images alone",
    )
    add("--write", type=Path, metavar="FILE",
        help="write a config for `cfgen fit`, sized for this machine and data; an existing file is never replaced")  # fmt: skip
    add("--export", type=Path, metavar="FOLDER",
        help="write the data set as a folder of images with a table, which must not exist yet")  # fmt: skip
    add(
        "--source",
        help="of morpho_mnist. embedded: 5,000 digits, no download; mnist: all 70,000, downloaded when missing; "
        "published: the files of DeepSCM",
    )
    add(
        "--data_dir",
        metavar="DIR",
        help="of a packaged set: the folder that contains its files (default: the environment variable CFGEN_DATA)",
    )
    add("--cache_dir", metavar="DIR", help="where prepared sets are kept (default: ~/.cache/cfgen)")
    add(
        "--seed",
        type=Seed,
        help="seed of what is sampled, such as the attributes of digits (default: the set's)",
    )
    add(
        "--independent_slant",
        action="store_true",
        help="of morpho_mnist: sample the slant too, independently of the other attributes, and shear the digits to it "
        "(default: measure it)",
    )
    add(
        "--limit",
        type=PositiveInt,
        metavar="N",
        help="of morpho_mnist: the largest number of images, at least 100, for trials (default: all)",
    )
    add("--trusted", action="store_true", help=TRUSTED_HELP)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["data"])


def command(arguments: Sequence[str] | None) -> None:
    options = parser().parse_args(arguments)
    given = {name: plain(options[name]) for name in OPTIONS if options[name] not in (None, False)}
    section = data_section(options.data, given)
    sheet_only = options.out is not None and options.out.suffix.lower() in PICTURES
    for name in ("write", "export", *(() if sheet_only else ("out",))):
        if options[name] is not None and exists(options[name]):
            raise UserError(f"{options[name]} exists already; choose another name", argument=name)
    if options.trusted:
        search_working_directory()

    from cfgen.data.console import show  # only now: importing torch and Lightning takes seconds
    from cfgen.reporting.dataset import look
    from datamodules.image_table import TableError

    data = built_data(section, options.trusted)
    title = Path(options.data).name
    try:
        report = look(data, title)
    except TableError as error:
        if len(error.findings) == 1:
            raise
        print(*error.findings, sep="\n")  # all at once: nobody wants to be told of one after the other
        raise UserError(
            f"the {len(error.findings)} lines above are wrong in the table; mend them, and look again"
        ) from error
    show(report)
    if (cached := getattr(data, "cache_file", None)) is not None:
        print(f"cache   {cached}")
    if sheet_only:
        print(f"sheet   {report.save_sheet(options.out)}")
    elif options.out is not None:
        print(f"page    {report.save(options.out) / 'data.html'}")
    if options.write is not None:
        from cfgen.training.recipe import recipe_for

        print(f"config  {recipe_for(data, section, title).save(options.write)}")
        print(f"        train with: cfgen fit --config {options.write}")
    if options.export is not None:
        from datamodules.image_table import write_image_folder

        print(f"folder  {write_image_folder(data, options.export)}")


def plain(value: str | int) -> str | int:
    """A number as Python's own kind, which a config can hold; options have kinds of their own."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
