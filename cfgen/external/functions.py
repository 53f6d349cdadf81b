"""A network that a function of the user's own returns: MODULE:FUNCTION, which runs the user's code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from textwrap import shorten

from torch import nn

from cfgen.errors import UserError, unknown_name
from cfgen.io.files import exists

__all__ = ["from_function", "names_function", "refused"]


def names_function(what: str | Path) -> bool:
    """Whether this is MODULE:FUNCTION, and not a file.

    >>> names_function("my_models:build"), names_function("runs/classifier")
    (True, False)
    """
    return not exists(Path(what)) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", str(what)) is not None


def from_function(what: str) -> nn.Module:
    """The network that `package.module:function` returns, called without arguments."""
    module_name, _, name = what.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the module is the user's: it may do anything
        raise refused(f"{what}: {module_name} cannot be imported", error) from error
    if not callable(function := getattr(module, name, None)):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"{what}: {unknown_name('function', name, public)}", argument="classifier")
    try:
        network = function()
    except (Exception, SystemExit) as error:
        raise refused(f"{what}: calling it without arguments fails", error) from error
    if not isinstance(network, nn.Module):
        returned = type(network).__name__
        raise UserError(f"{what}: the function returns {returned}, and an nn.Module is expected", argument="classifier")
    return network


def refused(what: str, error: BaseException) -> UserError:
    reason = shorten(" ".join(str(error).split()), 300)
    return UserError(f"{what} ({type(error).__name__}: {reason})", argument="classifier")
