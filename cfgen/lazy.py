"""Packages whose classes are imported when they are asked for: a command does not wait for what it does not use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, files: Mapping[str, str], old: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__` (PEP 562): `files` has the file of each of its names.

    `old` has the present names of those that were called otherwise once.

    >>> __getattr__, __dir__ = lazy_names("json", {"JSONDecoder": "decoder"})
    >>> __getattr__("JSONDecoder"), __dir__()
    (<class 'json.decoder.JSONDecoder'>, ['JSONDecoder'])
    """

    def find(name: str) -> Any:
        current = (old or {}).get(name, name)
        if current not in files:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{files[current]}"), current)

    return find, lambda: sorted(files)
