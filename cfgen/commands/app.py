"""`cfgen app [MODEL] [--classifier WHAT]`: serves the pages until it is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from cfgen.classifiers.spec import KINDS, ExternalClassifier
from cfgen.command_line import CommandParser, NonNegativeInt, run_command
from cfgen.errors import UserError, blame
from cfgen.io.classes import search_working_directory
from cfgen.options import add_options, from_command_line

__all__ = ["main"]

EXAMPLES = """
  cfgen app                                                  the models that come with cfgen, and those in runs/
  cfgen app faces-hvae --classifier runs/faces_classifier    with a classifier's answers, and audits of it
  cfgen app runs/mine --host 0.0.0.0 --port 8080             for others in your network, who need the printed link
"""
USUAL_PORT = 8642
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NEEDED = ("starlette", "uvicorn")
# fields of a classifier that the app has no option for, or an option of its own
APART = ("network", "threshold", "label", "trusted")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model"])


def parser() -> CommandParser:
    parser = CommandParser(
        "app",
        "Opens a page in the browser: change an attribute and see the counterfactual, audit a classifier, look at the data.\n"
        "It runs on this machine, needs no network, and answers no other machine unless you say so.",
        EXAMPLES,
    )
    add = parser.add
    add("model", metavar="MODEL", nargs="?",
        help="the model to begin with: a run folder, a checkpoint, an exported folder, or the name of a model that comes with "
        "cfgen; all runs and packaged models can be chosen on the page")  # fmt: skip
    add("--classifier", action="append", default=[], type=str, metavar="WHAT",
        help=f"a classifier whose answers are shown and audited: {KINDS}. Can be repeated; runs of classifiers on a model's data "
        "are offered anyway")  # fmt: skip
    add_options(parser, ExternalClassifier, skip=APART)
    add("--trusted", action="store_true",
        help="read .pt2 files and import classes of your own that a model, its data or a classifier names, which runs code; only "
        "for files whose source you trust (default: refuse such files)")  # fmt: skip
    add("--host", default=LOOPBACK[0],
        help="the address to listen on; one that other machines can reach asks them for a token, which the printed link "
        "has")  # fmt: skip
    add("--port", type=NonNegativeInt, metavar="N",
        help=f"the port to listen on; 0 for any that is free (default: {USUAL_PORT}, or any that is free where that is "
        "taken)")  # fmt: skip
    add("--no_browser", action="store_true", help="do not open the browser; print the address only")
    return parser


def command(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    settings = ExternalClassifier("", **from_command_line(ExternalClassifier, options, skip=APART)).settings
    inputs: list[str] = []
    for name in settings:
        typed = options[name]
        for value in typed if isinstance(typed, list) else [typed]:
            inputs += [f"--{name}", str(value)]
    if inputs and not options.classifier:
        raise UserError("it says what a classifier takes or returns, and none is named", argument=inputs[0].lstrip("-"))
    if options.port is not None and options.port > 65535:
        raise UserError("expected a number from 0 to 65535", argument="port")
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise UserError(f"the app needs {' and '.join(missing)}: pip install 'cfgen[app]'")
    if options.trusted or any(":" in name for name in options.classifier):
        search_working_directory()  # where MODULE:FUNCTION is looked for

    import secrets
    import socket

    from cfgen.app.serving import bound, open_browser, serve

    listening = bound(options.host, options.port, USUAL_PORT)  # before torch: a port that is taken is said at once
    token = None if options.host in LOOPBACK else secrets.token_urlsafe(24)
    print("loading ...", flush=True)

    from cfgen.app.catalogue import Catalogue  # only now: importing torch and Lightning takes seconds
    from cfgen.app.server import create_app
    from cfgen.app.studio import Studio
    from cfgen.classifiers import load_network

    catalogue = Catalogue(options.model, options.classifier, settings, options.trusted)
    if options.model is not None:
        with blame("model"):
            catalogue.load(options.model)
    for what in options.classifier:
        load_network(what, options.trusted)  # what cannot be read is said before the page opens
    shown = socket.gethostname() if options.host in ("0.0.0.0", "::") else options.host
    app = create_app(Studio(catalogue, inputs), options.host, [socket.gethostname(), socket.getfqdn()], token)
    name = f"[{shown}]" if ":" in shown else shown
    link = f"http://{name}:{listening.getsockname()[1]}/" + ("" if token is None else f"?token={token}")

    def started() -> None:
        print(f"cfgen app: {link}\nstop it with Ctrl+C", flush=True)
        if not options.no_browser:
            open_browser(link)

    serve(app, listening, started)
    return 0
