"""The exceptions that a command turns into a line of text, and what they say of unknown names."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

__all__ = [
    "LostProcess", "Terminated", "UnfitRun", "UserError", "WithoutEffect", "blame", "require_different", "unknown_name"
]  # fmt: skip

LONGEST = 2000  # characters of a message: one may quote a line of a file, and that line may be the whole file


class UserError(Exception):
    """Bad input: a command prints it as one line and exits with code 2.

    `argument` is the name of the function's argument that is wrong, without dashes: a command shows it as its option, a page
    beside its field.

    >>> str(UserError("no test image has Young=0", argument="among"))
    'no test image has Young=0'
    """

    code: ClassVar[int] = 2  # with which a command exits

    def __init__(self, message: str, argument: str | None = None) -> None:
        if len(message) > LONGEST:
            message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 4 :]}"
        super().__init__(message)
        self.argument = argument


class Terminated(BaseException):
    """A signal has asked the process to end, as Ctrl-C asks with KeyboardInterrupt: a command exits with 128 + `signal`.

    >>> Terminated(15).signal
    15
    """

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = int(signal)


class LostProcess(UserError):
    """One of several processes has died or does not answer: no input is wrong, and the work is not done."""

    code = 1


class WithoutEffect(UserError):
    """An option that would change nothing: whoever gives it is told to leave it out.  Earlier versions took and ignored some
    such options, so the config of a saved run may hold one, and there it is left out with a warning."""


class UnfitRun(UserError):
    """An earlier run, named by a module's argument, that does not fit the data."""


@contextlib.contextmanager
def blame(argument: str) -> Iterator[None]:
    """Names the argument that is wrong in every `UserError` of the block that does not name one.

    >>> with blame("predictor"):
    ...     raise UserError("runs/eyes does not exist")
    Traceback (most recent call last):
    cfgen.errors.UserError: runs/eyes does not exist
    """
    try:
        yield
    except UserError as error:
        raise UserError(str(error), error.argument or argument) from error


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """One line that says which name is unknown, which is nearest and which exist.

    >>> unknown_name("split", "tset", ["train", "val", "test"])
    "unknown split 'tset'. Did you mean 'test'? Valid: test, train, val"
    """
    names = sorted(valid)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {name!r}.{hint} Valid: {', '.join(names) or '(none)'}"


def require_different(values: Sequence[Any], argument: str, names: Sequence[str] | None = None) -> None:
    """Refuses a value that is given again: the second would change nothing.  `names` are how the values are written.

    >>> require_different([{"Young": 0}, {"Bangs": 1}], "do", names=["Young=0", "Bangs=1"])
    """
    for place, value in enumerate(values):
        if (first := values.index(value)) < place:
            one, other = (values if names is None else names)[first], (values if names is None else names)[place]
            what = f"{other} is given twice" if one == other else f"{one} and {other} are the same"
            raise UserError(f"{what}; give it once", argument)
