"""Options that are written down once: a dataclass from which a command line, a web form and documentation are generated.

Light to import.  The class's docstring documents each field in its `Args:` section, and `option` adds what a command line needs.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from docstring_parser import parse as parse_docstring

from cfgen.command_line import CommandParser
from cfgen.errors import UserError, unknown_name

__all__ = ["add_options", "from_command_line", "make_options", "option", "web_fields"]

Options = TypeVar("Options")


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
    command: bool = True,
) -> Any:
    """A field of an options class.

    Args:
        default: the value where nothing is given; a field without one has to be given.
        group: the heading of the option in `--help`.
        metavar: what stands for the value in `--help`.
        type: the type on the command line, where it is not the field's annotation, such as `PositiveInt`.
        read: turns a text of the command line into the value.
        repeat: the option can be given several times; the value is a list.
        name: the option on the command line, where it is not the field's name.
        web: the web form offers it.
        command: the command line offers it.
    """
    metadata = {
        "group": group, "metavar": metavar, "type": type, "read": read, "repeat": repeat, "name": name, "web": web,
        "command": command,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


def documentation(kind: type) -> dict[str, str]:
    """What the `Args:` section of a class's docstring says of each field, on one line."""
    parsed = parse_docstring(inspect.getdoc(kind) or "")
    return {one.arg_name: " ".join((one.description or "").split()) for one in parsed.params}


def add_options(parser: CommandParser, kind: type, skip: Sequence[str] = ()) -> None:
    """Adds the fields of an options class to a parser, under the headings of their groups."""
    texts, hints = documentation(kind), get_type_hints(kind)
    for field in dataclasses.fields(kind):
        about = field.metadata
        if field.name in skip or not about.get("command", False):
            continue
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        words: dict[str, Any] = {"help": texts[field.name].rstrip(".").replace("%", "%%")}
        if hints[field.name] is bool:
            words["action"] = "store_true"
        else:
            read = about["read"] is not None
            words["type"] = about["type"] or (str if read or about["repeat"] else command_type(hints[field.name]))
            words |= {"metavar": about["metavar"]} if about["metavar"] else {}
            words |= {"action": "append"} if about["repeat"] else {}
            words["default"] = [] if about["repeat"] else None if required or read else field.default
            words |= {"required": True} if required else {}
        parser.heading(about["group"]).add_argument(f"--{about['name'] or field.name}", **words)


def command_type(hint: Any) -> Any:
    """The type that a text is read as: of `X | None` it is X."""
    if get_origin(hint) is Literal:
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] or [hint]
    return next((kind for kind in kinds if kind in (int, float, str) or get_origin(kind) is Literal), str)


def from_command_line(kind: type[Options], parsed: Any, skip: Sequence[str] = ()) -> dict[str, Any]:
    """The values of the fields that `add_options` added, as the class takes them; what was not given is left out."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # a dataclass
        about = field.metadata
        if field.name in skip or not about.get("command", False):
            continue
        given = parsed[about["name"] or field.name]
        if given is None or given == []:
            continue
        if about["read"] is not None:
            given = [about["read"](text) for text in given] if about["repeat"] else about["read"](given)
        values[field.name] = given
    return values


def make_options(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """An instance of an options class; refuses a name that it does not have."""
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise UserError(unknown_name("option", name, known), argument=name)
    return kind(**values)


def web_fields(kind: type) -> list[str]:
    """The fields that a web form offers."""
    return [field.name for field in dataclasses.fields(kind) if field.metadata.get("web")]
