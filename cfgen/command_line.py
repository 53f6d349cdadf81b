"""What every command shares: options with types, errors in one line, exit codes, processes that end in order.

Light to import, so that `--help` and a wrong option are answered at once: what a command does is imported once its options
are understood.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from jsonargparse import ArgumentParser
from jsonargparse.typing import NonNegativeInt, OpenUnitInterval, PositiveInt, restricted_number_type

from cfgen.errors import UserError

__all__ = [
    "CommandParser",
    "NonNegativeInt",
    "OpenUnitInterval",
    "PositiveInt",
    "number_or_name",
    "parse_assignments",
    "restricted_number_type",
    "run_command",
    "unknown_option",
]

OLD_NAMES = {
    "generator": "model",
    "reader": "predictor",
    "explain_images": "explain_count",
    "images": "count",
}  # options as they were once


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that keeps the line breaks of its examples and says every default that there is."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if any(action.default is nothing for nothing in (None, False, argparse.SUPPRESS)) or action.default == []:
            return action.help
        return super()._get_help_string(action)


class CommandParser(ArgumentParser):
    """Options of a command; what is wrong with them is a `UserError` that names the option and the valid choices."""

    def __init__(self, command: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=f"cfgen {command}",
            description=description,
            epilog=f"examples:\n{examples.strip(chr(10))}" if examples else None,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def add(self, *names: str, **options: Any) -> None:
        """An option or a positional argument."""
        self.add_argument(*names, **options)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise self._explained(message)

    def _explained(self, message: str) -> UserError:
        shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
        options = [option for action in shown for option in action.option_strings if option.startswith("--")]
        if match := re.search(r"unrecognized arguments: (\S+)", message):
            if not match[1].startswith("-"):
                return UserError(
                    f"{match[1]!r} belongs to no option; `{self.prog} --help` shows how options are written"
                )
            return UserError(unknown_option(match[1].split("=")[0], options))
        if match := re.search(r"arguments are required: (.+)", message):
            missing = match[1].split(", ")
            metavars = {action.dest: action.metavar for action in self._actions if not action.option_strings}
            text = ", ".join(str(metavars.get(name) or f"--{name}") for name in missing)
            return UserError(
                f"{text} {'is' if len(missing) == 1 else 'are'} missing; `{self.prog} --help` explains the options"
            )
        if match := re.search(r'Parser key "(\w+)":(.*)', message, re.DOTALL):
            return UserError(_wrong_value(match[2]), argument=match[1])
        if match := re.search(r"argument (\S+?)(?:/\S+)?: (.*)", message, re.DOTALL):
            text = " ".join(match[2].split())
            if choice := re.fullmatch(r"invalid choice: (.+) \(choose from (.+)\)", text):
                text = f"expected one of {choice[2].replace(chr(39), '')}, not {choice[1]}"
            return UserError(text, argument=match[1].lstrip("-"))
        return UserError(" ".join(message.split()))


def unknown_option(name: str, valid: Collection[str]) -> str:
    """One line for an option that does not exist: which is nearest, and which exist.

    >>> unknown_option("--modle", ["--model", "--seed"])
    'there is no option --modle. Did you mean --model? Valid: --model, --seed'
    """
    old = OLD_NAMES.get(name.lstrip("-"))
    near = [f"--{old}"] if f"--{old}" in valid else difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"there is no option {name}.{hint} Valid: {', '.join(sorted(valid))}"


def _wrong_value(text: str) -> str:
    """What jsonargparse says of a value, in a line."""
    text = " ".join(text.split())
    kinds = {"PositiveInt": "a whole number of 1 or more", "NonNegativeInt": "a whole number of 0 or more"}
    kinds |= {"OpenUnitInterval": "a number between 0 and 1", "PositiveFloat": "a number above 0"}
    given = re.search(r"(?:Given value|Got value): (.+?)(?: Given value type.*)?$", text) or re.search(
        r"(-?[\w.]+) does not", text
    )
    value = f", not {given[1]!r}" if given else ""
    if match := re.search(r"Literal\[([^\]]+)\]", text):
        return f"expected one of {match[1].replace(chr(39), '')}{value}"
    for name, words in kinds.items():
        if name in text:
            return f"expected {words}{value}"
    if "float" in text or "int" in text:
        return f"expected a number{value}"
    return text


def run_command(command: Callable[[], Any], positional: Sequence[str] = ()) -> int:
    """Runs a command; bad input becomes one line on stderr and exit code 2.  A number that it returns is the exit code.

    `positional` are the arguments that are given without dashes.
    """
    outer = _process_group_exists()
    succeeded = False
    try:
        code = command()
        succeeded = True
    except UserError as error:
        name = error.argument
        where = "" if name is None else f"{name.upper()}: " if name in positional else f"--{name}: "
        print(f"error: {where}{' '.join(str(error).split())}", file=sys.stderr)
        return 2
    finally:
        if not outer and _process_group_exists():
            from cfgen.processes import end_process_group

            end_process_group(succeeded)
    return code if isinstance(code, int) else 0


def _process_group_exists() -> bool:
    """Whether several processes are at work; a command that has not come to importing torch has none."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def parse_assignments(text: str, argument: str | None = None) -> dict[str, Any]:
    """An intervention as it is typed: numbers where they are numbers, names otherwise.

    >>> parse_assignments("thickness=3,colour=red")
    {'thickness': 3, 'colour': 'red'}
    """
    assignments: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise UserError(f"expected ATTRIBUTE=VALUE, not {pair!r}", argument)
        if name in assignments:
            raise UserError(f"{name} is set twice in {text!r}", argument)
        assignments[name] = number_or_name(value)
    return assignments


def number_or_name(text: str) -> int | float | str:
    """A number where it is one, the text otherwise.

    >>> number_or_name("3"), number_or_name("0.5"), number_or_name("red")
    (3, 0.5, 'red')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
