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

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, OpenUnitInterval, PositiveInt, restricted_number_type

from cfgen.errors import UserError, require_different
from cfgen.io.endings import end, signals_raised

__all__ = [
    "CommandParser",
    "NonNegativeInt",
    "OpenUnitInterval",
    "PositiveInt",
    "Seed",
    "number_or_name",
    "parse_assignments",
    "parse_names",
    "parse_numbers",
    "restricted_number_type",
    "run_command",
    "unknown_option",
    "whole_number",
]

SEEDS = "a whole number from 0 to 2^63 - 1"
Seed = restricted_number_type("Seed", int, [(">=", 0), ("<", 2**63)])

OLD_NAMES = {
    "generator": "model",
    "reader": "predictor",
    "explain_images": "explain_count",
    "images": "count",
}  # options as they were once


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that keeps the line breaks of its examples and says every default that there is."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if any(action.default is nothing for nothing in (None, False, argparse.SUPPRESS)) or action.default in ([], ""):
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

    def heading(self, title: str) -> Any:
        """The group of options with this heading in `--help`; made where it does not exist yet."""
        groups = {group.title: group for group in self._action_groups}
        return groups[title] if title in groups else self.add_argument_group(title)

    def parse_args(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Namespace:  # type: ignore[override]
        words = list(sys.argv[1:] if args is None else args)
        self._check_words(words)
        found = super().parse_args(words, *others, **options)
        for action in self._actions:
            if isinstance(action, argparse._AppendAction):
                require_different(found[action.dest] or [], action.dest)
        return found

    def _check_words(self, words: Sequence[str]) -> None:
        """Refuses what would be taken and forgotten: an option without a value, and one that is given again."""
        # until an option comes, words are the first argument without dashes
        name: str | None = next((action.dest for action in self._actions if not action.option_strings), None)
        given: set[str] = set()
        for word in words[: words.index("--")] if "--" in words else words:
            option, equals, value = word.partition("=")
            action = self._option_string_actions.get(option)
            if action is not None:
                name = action.dest
                if name in given and not isinstance(action, argparse._AppendAction):
                    many = ", with all its values after it" if action.nargs == "+" else ""
                    raise UserError(f"it is given twice, and only one can be used; give it once{many}", argument=name)
                given.add(name)
            if action is not None and value == "--":  # which argparse reads as no value at all
                raise UserError("expected a value, not '--'", argument=name)
            if not (value if action is not None and equals else word).strip():
                raise UserError("expected a value, and nothing is given", argument=name)

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
    kinds |= {"Seed": SEEDS}
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
    """Runs a command and returns its exit code: a number that it returns, else 0; where it does not end well, one line on
    stderr and the code that `cfgen.io.endings` has for it.

    `positional` are the arguments that are given without dashes.
    """
    outer = _process_group_exists()
    succeeded = False
    try:
        with signals_raised():
            try:
                code = command()
                sys.stdout.flush()  # a disk that is full shows here, and not after the exit code is settled
                succeeded = True
            finally:
                if not outer and _process_group_exists():
                    from cfgen.processes import end_process_group

                    end_process_group(succeeded)
    except BaseException as error:
        return end(error, positional)
    return code if isinstance(code, int) else 0


def _process_group_exists() -> bool:
    """Whether several processes are at work; a command that has not come to importing torch has none."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def parse_assignments(text: str, argument: str | None = None, as_text: bool = False) -> dict[str, Any]:
    """Values of attributes as they are typed: numbers where they are numbers, names otherwise; with `as_text` all as text.

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
        assignments[name] = value if as_text else number_or_name(value)
    return assignments


def whole_number(text: str) -> int | None:
    """A whole number of 0 or more, in plain digits; None of anything else.

    >>> whole_number("12"), whole_number("-1"), whole_number("²"), whole_number("9" * 5000)
    (12, None, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def parse_names(text: str) -> tuple[str, ...]:
    """Names joined by commas.

    >>> parse_names("Young, Bangs")
    ('Young', 'Bangs')
    """
    return tuple(name.strip() for name in text.split(","))


def parse_numbers(text: str, argument: str) -> tuple[float, ...]:
    """Numbers joined by commas.

    >>> parse_numbers("0.5,1", "mean")
    (0.5, 1.0)
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"expected numbers joined by commas, not {text!r}", argument=argument) from None


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
