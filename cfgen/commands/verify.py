"""`cfgen verify MODEL`: checks a model's files, and prints what it found of each."""

from __future__ import annotations

from collections.abc import Sequence

from cfgen.command_line import CommandParser, run_command
from cfgen.commands.common import add_model
from cfgen.errors import UserError
from cfgen.io.classes import TRUSTED_HELP, search_working_directory

__all__ = ["main"]

EXAMPLES = """
  cfgen verify their-model          before you use a folder that somebody sent you
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model"])


def parser() -> CommandParser:
    parser = CommandParser(
        "verify",
        "Checks a model, a classifier or a predictor: that its files are as they were exported, that its weights are finite and\n"
        "fit its class, and that it names no class from elsewhere.  Exits with code 0 where all is well, and with 2 otherwise.\n"
        "Nothing of the folder is run.  Checksums tell damage; they do not tell whom a folder comes from.",
        EXAMPLES,
    )
    add_model(parser)
    parser.add("--trusted", action="store_true", help=TRUSTED_HELP)
    return parser


def command(arguments: Sequence[str] | None) -> None:
    options = parser().parse_args(arguments)
    if options.trusted:
        search_working_directory()

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from cfgen.runs.verification import verify  # only now: importing torch and Lightning takes seconds

    try:
        found = verify(options.model, trusted=options.trusted)
    except UserError as error:
        raise UserError(str(error), argument="model") from error
    table = Table(title=str(found.folder), box=SIMPLE_HEAD, title_justify="left")
    table.add_column("checked", no_wrap=True)
    table.add_column("")
    table.add_column("", overflow="fold")
    for check in found.checks:
        table.add_row(check.what, "ok" if check.passed else "WRONG", check.found)
    Console(markup=False, emoji=False).print(table)
    if failed := [check for check in found.checks if not check.passed]:
        raise UserError(f"{len(failed)} of {len(found.checks)} checks failed: do not use it", argument="model")
