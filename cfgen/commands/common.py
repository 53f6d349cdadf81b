"""Arguments that several commands have, and how they load a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cfgen.command_line import CommandParser
from cfgen.errors import UserError

if TYPE_CHECKING:
    from cfgen.runs.model import TrainedModel

__all__ = ["add_devices", "add_model", "load_finished"]

MODEL = (
    "a run folder (runs/NAME or runs/NAME/001), a checkpoint, an exported folder, or the name of a model that comes with "
    "cfgen"
)


def add_model(parser: CommandParser, more: str = "", **words: Any) -> None:
    """The positional argument MODEL."""
    parser.add("model", metavar="MODEL", help=MODEL + more, **words)


def add_devices(parser: CommandParser) -> None:
    """`--accelerator` and `--devices`, for `cfgen.processes.Processes`."""
    add = parser.heading("computing").add_argument
    add("--accelerator", type=str, default="auto", help="hardware to use, as in Lightning: auto, cpu, gpu, mps, ...")
    add("--devices", type=str, default="1", metavar="N",
        help="how many devices, or which, as in Lightning (on a CPU: processes); they share the images, and the numbers stay "
        "the same")  # fmt: skip


def load_finished(what: str, trusted: bool) -> TrainedModel:
    """The model that the command line names; refuses a run that is not finished."""
    from cfgen.runs.data import require_finished
    from cfgen.runs.model import load_trained

    try:
        require_finished(what)
        return load_trained(what, trusted=trusted)
    except UserError as error:
        raise UserError(str(error), argument="model") from error
