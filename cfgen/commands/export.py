"""`cfgen export MODEL [FOLDER]`: a trained model as a small folder to give away, with examples and a model card."""

from __future__ import annotations

from collections.abc import Sequence

from cfgen.command_line import CommandParser, NonNegativeInt, run_command
from cfgen.commands.common import add_model
from cfgen.errors import UserError
from cfgen.io.classes import TRUSTED_HELP, search_working_directory

EXAMPLES = """
  cfgen export runs/faces_csali my-faces          cfgen.load, generate, evaluate and audit take the new folder
  cfgen export morphomnist-hvae --page site       a page of counterfactuals that opens without a server
"""


def parser() -> CommandParser:
    parser = CommandParser(
        "export",
        "Writes a model as safetensors with what is needed to rebuild it, a few example images, a model card and checksums.\n"
        "Evaluate the model first: its scores go onto the card.  Loading the folder runs no code from it.\n"
        "With --page it writes a page instead, on which anybody can try the model in a browser.",
        EXAMPLES,
    )
    add = parser.add
    add_model(parser)
    add("folder", metavar="FOLDER", nargs="?", help="the new folder; by default the run's name, in the current folder")
    add("--name", help="the model's name on its card; by default the folder's")
    add("--limits", metavar="TEXT", help="what the card should warn of, in your words (default: nothing)")
    add("--examples", type=NonNegativeInt, metavar="N",
        help="how many test images to put in, if the data may be passed on; 0 for none (default: 16, on a page 6)")  # fmt: skip
    add("--page", metavar="DIR",
        help="write no model but a page: the examples under each value of each attribute, drawn beforehand, in a new folder "
        "for any web host that also opens from disk")  # fmt: skip
    add("--trusted", action="store_true", help=TRUSTED_HELP)
    add("--half", action="store_true", help="write weights in half precision: half the size")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model", "folder"])


def command(arguments: Sequence[str] | None) -> None:
    options = parser().parse_args(arguments)
    if options.page is not None:
        for name in ("folder", "name", "limits", "half"):
            if getattr(options, name):
                raise UserError("a page has no use for it; leave it out, or leave out --page", argument=name)
    if options.trusted:
        search_working_directory()

    from cfgen.runs.export import export  # only now: importing torch and Lightning takes seconds
    from cfgen.runs.model import load_trained

    model = load_trained(options.model, trusted=options.trusted)
    if options.page is not None:
        from cfgen.app.static_page import write_page

        page = write_page(model, options.page, examples=6 if options.examples is None else options.examples)
        print(
            f"wrote {page.folder / 'index.html'} ({page.size / 1e6:.1f} MB, {page.frames} pictures of {page.examples} examples)"
        )
        return
    made = export(
        model,
        options.folder,
        name=options.name,
        limits=options.limits or "",
        examples=16 if options.examples is None else options.examples,
        half=options.half,
    )
    print(f"wrote {made.folder} ({made.size / 1e6:.1f} MB, {made.examples or 'no'} example images)")
    if not made.has_scores:
        print(f"the card has no scores: run `cfgen evaluate {options.model}` and export again")
