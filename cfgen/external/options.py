"""The options of a command that say what somebody else's classifier takes and returns; light to import."""

from __future__ import annotations

from typing import Any

from jsonargparse import Namespace

from cfgen.command_line import CommandParser, whole_number
from cfgen.errors import UserError
from cfgen.external.kinds import Layout, Output

__all__ = ["add_input_options", "input_values", "parse_numbers", "parse_size"]


def add_input_options(parser: CommandParser) -> None:
    """Adds what `input_values` reads."""
    add = parser.add
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
        "class: the number of the class; value: a predicted number, whose mean change is measured")  # fmt: skip


def input_values(options: Namespace) -> dict[str, Any]:
    """The values of these options, as `audit` takes them."""
    return {
        "resize": parse_size(options.resize) if options.resize else None,
        "mean": parse_numbers(options.mean, "mean"),
        "std": parse_numbers(options.std, "std"),
        "layout": options.layout,
        "output": options.output,
    }


def parse_size(text: str) -> tuple[int, int]:
    """Height and width.

    >>> parse_size("224"), parse_size("218x178")
    ((224, 224), (218, 178))
    """
    height, cross, width = text.partition("x")
    sides = (height, width if cross else height)
    pixels = whole_number(sides[0]), whole_number(sides[1])
    if not (pixels[0] and pixels[1]):
        raise UserError(f"expected a number of pixels such as 224 or 218x178, not {text!r}", argument="resize")
    return pixels[0], pixels[1]


def parse_numbers(text: str, argument: str) -> tuple[float, ...]:
    """Numbers joined by commas.

    >>> parse_numbers("0.5,1", "mean")
    (0.5, 1.0)
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"expected numbers joined by commas, not {text!r}", argument=argument) from None
