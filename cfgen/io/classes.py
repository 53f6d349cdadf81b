"""The class that a config or a model's file names: found without importing anything that does not come with cfgen.

Importing a module runs it, and calling what a file names runs that.  A model that comes from elsewhere may therefore name
classes of the packages below alone, and only of the kind that is needed.  Classes of one's own are found where the user
says so (`trusting`), or where this process has imported them already.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from cfgen.errors import UserError

__all__ = [
    "KNOWN",
    "TRUSTED_HELP",
    "built",
    "found_class",
    "naming_functions",
    "require_function",
    "search_working_directory",
    "trusting",
]

Kind = TypeVar("Kind")

KNOWN = ("cfgen", "datamodules", "lightning_modules")  # the packages whose classes anybody's model may name
TRUSTED_HELP = (
    "import classes of your own that a model, its data, a classifier or a predictor names, which runs code; only for "
    "folders and checkpoints whose source you trust (default: classes that come with cfgen alone)"
)
# class paths in checkpoints and configs of earlier versions
MOVED = {"lightning_modules.attribute_reader.AttributeReader": "lightning_modules.predictor.Predictor"}

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)
_named: ContextVar[frozenset[str]] = ContextVar("named", default=frozenset())


@contextlib.contextmanager
def trusting(trusted: bool = True) -> Iterator[None]:
    """Inside, classes are imported from anywhere if `trusted`; what the caller trusts already stays trusted."""
    token = _trusted.set(trusted or _trusted.get())
    try:
        yield
    finally:
        _trusted.reset(token)


@contextlib.contextmanager
def naming_functions(values: Iterable[Any]) -> Iterator[None]:
    """Inside, the functions (MODULE:FUNCTION) among these values of the user's own config may be called."""
    token = _named.set(_named.get() | {value for value in values if isinstance(value, str)})
    try:
        yield
    finally:
        _named.reset(token)


def require_function(function: str) -> None:
    """Refuses to call what only a file names: importing a module and calling its function run code."""
    if not (_trusted.get() or function in _named.get()):
        raise UserError(
            f"the network is made by {function}, which was not called, for that runs its code. If you trust whoever wrote the "
            "file that names it, add --trusted (in Python: trusted=True)"
        )


def found_class(path: Any, kind: type[Kind], source: str) -> type[Kind]:
    """The class `package.module.Class` that `source` names, if it is one of `kind`."""
    if not isinstance(path, str) or not all(part.isidentifier() for part in path.split(".")) or "." not in path:
        raise UserError(f"{source} names {path!r}, which is not the path of a class")
    module_name, _, name = MOVED.get(path, path).rpartition(".")
    if module_name.partition(".")[0] in KNOWN:
        found = _attribute(module_name, name, path, source)
    elif module_name in sys.modules:
        # not getattr: a module may import others when it is asked for a name
        found = vars(sys.modules[module_name]).get(name)
    else:
        found = None
    if found is None and _trusted.get():
        found = _attribute(module_name, name, path, source)
    if found is None:
        raise UserError(
            f"{source} names the class {path}, which does not come with cfgen: it was not imported, for that runs its code. "
            "If you trust whoever wrote it, add --trusted (in Python: trusted=True)"
        )
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise UserError(f"{source} is a {path}, but a {kind.__name__} is needed here")
    return found


def _attribute(module_name: str, name: str, path: str, source: str) -> Any:
    try:
        return getattr(importlib.import_module(module_name), name)
    except (Exception, SystemExit) as error:  # the module may be the user's, and do anything
        reason = "" if isinstance(error, ImportError | AttributeError) else f" ({type(error).__name__}: {error})"
        raise UserError(f"{source} needs the class {path}, which cannot be imported here{reason}") from error


def built(section: Mapping[str, Any]) -> Any:
    """The object that a section of the user's own config (`class_path` and `init_args`) describes, whatever it is."""
    with trusting():
        kind: type[Any] = found_class(section["class_path"], object, "the config")
    return kind(**dict(section.get("init_args") or {}))


def search_working_directory() -> None:
    """Lets a command find modules of the user's own in the working directory, where the user named one or trusts a model's.

    It comes last, so that no file there takes a package's place; and not before it is needed: packages look for others that
    need not be installed, and a file of such a name in a stranger's folder would be taken for one.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
