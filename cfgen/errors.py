"""The exceptions that a command turns into a line of text, and what they say of unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["UnfitRun", "UserError", "unknown_name"]


class UserError(Exception):
    """Bad input: a command prints it as one line and exits with code 2.

    `argument` is the name of the function's argument that is wrong, without dashes: a command shows it as its option, a page
    beside its field.

    >>> str(UserError("no test image has Young=0", argument="among"))
    'no test image has Young=0'
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class UnfitRun(UserError):
    """An earlier run, named by a module's argument, that does not fit the data."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """One line that says which name is unknown, which is nearest and which exist.

    >>> unknown_name("split", "tset", ["train", "val", "test"])
    "unknown split 'tset'. Did you mean 'test'? Valid: test, train, val"
    """
    names = sorted(valid)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {name!r}.{hint} Valid: {', '.join(names) or '(none)'}"
