"""What may be the name of a folder, whoever chose it."""

from __future__ import annotations

from cfgen.errors import UserError

__all__ = ["LONGEST", "require_folder_name"]

LONGEST = 200  # bytes; file systems take 255, and a run's files have names too


def require_folder_name(name: str, argument: str | None = None, remedy: str = "") -> str:
    """The name, if it is that of a folder right here: no path, nothing that cannot be seen.

    >>> require_folder_name("faces csali")
    'faces csali'
    """
    seen = name.isprintable() and name == name.strip() and bool(name.strip("."))
    if not seen or "/" in name or "\\" in name or len(name.encode()) > LONGEST:
        raise UserError(f"{name!r} is not the name of a folder{remedy}", argument=argument)
    return name
