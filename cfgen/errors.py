"""The exceptions that a command turns into a line of text."""

from __future__ import annotations

__all__ = ["UnfitRun", "UserError"]


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
