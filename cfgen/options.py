"""Options that are written down once: a dataclass from which a command line, a web form and documentation are generated.

Light to import.  The `Args:` section of the class's docstring documents each field; `option` adds what a command line needs.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from docstring_parser import DocstringStyle
from docstring_parser import parse as parse_docstring

from cfgen.command_line import CommandParser
from cfgen.errors import UserError, unknown_name

__all__ = [
    "add_options",
    "as_words",
    "documented_by",
    "from_command_line",
    "make_options",
    "option",
    "require_at_least",
    "web_fields",
]

Options = TypeVar("Options")
Function = TypeVar("Function", bound=Callable[..., Any])


def option(
    default: Any = dataclasses.MISSING,
    *,
    group: str = "options",
    metavar: str | None = None,
    type: Any = None,
    read: Callable[[str], Any] | None = None,
    repeat: bool = False,
    name: str | None = None,
    web: bool = False,
) -> Any:
    """A field of an options class that the command line offers.

    Args:
        default: the value if nothing is given; a field without a default is required.
        group: the heading of the option in `--help`.
        metavar: the placeholder of the value in `--help`.
        type: the type on the command line, if it is not the field's annotation, such as `PositiveInt`.
        read: turns the text of the command line into the value.
        repeat: the option can be given several times; the value is a list.
        name: the option on the command line, if it is not the field's name.
        web: the web form offers it too.
    """
    metadata = {
        "command": True, "group": group, "metavar": metavar, "type": type, "read": read, "repeat": repeat, "name": name,
        "web": web,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


def command_fields(kind: type, skip: Sequence[str] = ()) -> list[tuple[str, dataclasses.Field[Any]]]:
    """The options on the command line, by name."""
    fields = [field for field in dataclasses.fields(kind) if field.metadata.get("command") and field.name not in skip]
    return [(field.metadata["name"] or field.name, field) for field in fields]


def documentation(kind: type) -> dict[str, str]:
    """The text of each field in the `Args:` section of the class's docstring, on one line."""
    parsed = parse_docstring(inspect.getdoc(kind) or "", DocstringStyle.GOOGLE)
    return {param.arg_name: " ".join((param.description or "").split()) for param in parsed.params}


def documented_by(kind: type) -> Callable[[Function], Function]:
    """Appends the documentation of an options class to a function that takes its fields as keyword arguments."""

    def document(function: Function) -> Function:
        lines = [f"    {name}: {text}" for name, text in documentation(kind).items()]
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", f"Options (`{kind.__name__}`):", *lines])
        return function

    return document


def add_options(parser: CommandParser, kind: type, skip: Sequence[str] = ()) -> None:
    """Adds the fields of an options class to a parser, under the headings of their groups."""
    texts = documentation(kind)
    for name, field in command_fields(kind, skip):
        about = field.metadata
        required = field.default is dataclasses.MISSING
        words: dict[str, Any] = {"help": texts[field.name].rstrip(".").replace("%", "%%")}
        if field.default is False:
            words["action"] = "store_true"
        else:
            as_text = about["read"] is not None or about["repeat"]
            words["type"] = about["type"] or (str if as_text else command_type(kind, field))
            words["default"] = [] if about["repeat"] else None if required or as_text else field.default
            words |= {"metavar": about["metavar"]} if about["metavar"] else {}
            words |= {"action": "append"} if about["repeat"] else {}
            words |= {"required": True} if required else {}
        parser.heading(about["group"]).add_argument(f"--{name}", **words)


def command_type(kind: type, field: dataclasses.Field[Any]) -> Any:
    """The type that a text is read as; for `X | None` it is X.

    Only this field's annotation is evaluated: those of others may name classes that are imported for type checking alone.
    """
    hint = eval(field.type, vars(sys.modules[kind.__module__])) if isinstance(field.type, str) else field.type
    if get_origin(hint) is Literal:
        return hint
    kinds = [part for part in get_args(hint) if part is not type(None)] or [hint]
    return next((part for part in kinds if part in (int, float, str) or get_origin(part) is Literal), str)


def from_command_line(kind: type, parsed: Any, skip: Sequence[str] = ()) -> dict[str, Any]:
    """The values of the fields that `add_options` added, as the class takes them; options that were not given are left out."""
    values: dict[str, Any] = {}
    for name, field in command_fields(kind, skip):
        given, read = parsed[name], field.metadata["read"]
        if given is None or given == []:
            continue
        if read is not None:
            given = [read(text) for text in given] if field.metadata["repeat"] else read(given)
        values[field.name] = given
    return values


def as_words(options: Any) -> list[str]:
    """The words of a command line that gives these options: the inverse of `from_command_line`."""
    words: list[str] = []
    for name, field in command_fields(type(options)):
        value = getattr(options, field.name)
        if value == field.default or (not value and not field.default):
            continue
        several = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        if value is True:
            words.append(f"--{name}")
        elif field.metadata["repeat"]:
            words += [word for one in several for word in (f"--{name}", str(one))]
        else:
            words += [f"--{name}", ",".join(map(str, several)) or "none"]
    return words


def make_options(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """An instance of an options class; refuses a name that the class does not have."""
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise UserError(unknown_name("option", name, known), argument=name)
    return kind(**values)


def require_at_least(options: Any, **least: int) -> None:
    """Refuses numbers below their smallest valid value; None is valid.

    >>> from types import SimpleNamespace
    >>> require_at_least(SimpleNamespace(count=0), count=1)
    Traceback (most recent call last):
    cfgen.errors.UserError: expected a whole number of 1 or more, not 0
    """
    for name, smallest in least.items():
        number = getattr(options, name)
        if number is not None and number < smallest:
            raise UserError(f"expected a whole number of {smallest} or more, not {number}", argument=name)


def web_fields(kind: type) -> list[str]:
    """The fields that a web form offers."""
    return [field.name for field in dataclasses.fields(kind) if field.metadata.get("web")]
