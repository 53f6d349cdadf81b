"""The files of a report: each written whole or not at all, in a folder that is new."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cfgen.errors import UserError
from cfgen.runs.folders import cannot_write, new_run_folder, write_atomically

__all__ = ["DPI", "new_folder", "png", "require_new", "table", "write_files"]

DPI = 130  # of the figures


def require_new(folder: str | Path | None) -> None:
    """Refuses a folder that exists already."""
    if folder is not None and Path(folder).exists():
        raise UserError(f"{folder} exists already; choose a new folder", argument="out")


@contextlib.contextmanager
def new_folder(root: Path, kind: str, out: str | Path | None) -> Iterator[Path]:
    """`out`, or else the next free `root/kind/NNN`: made before the work, and gone again where nothing comes of it."""
    require_new(out)
    wanted = Path(out) if out else root / kind
    made = [path for path in (wanted, *wanted.parents) if not path.exists()]
    try:
        if out:
            wanted.mkdir(parents=True)
            folder = wanted
        else:
            folder = new_run_folder(root, kind)
    except OSError as error:
        raise cannot_write(wanted, error) from error
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # what holds something stays
            for path in dict.fromkeys([folder, *made]):
                path.rmdir()
        raise


def write_files(folder: str | Path, contents: Mapping[str, bytes | str]) -> list[Path]:
    """Writes files by name, each whole or not at all, in the order given; returns their paths."""
    folder = Path(folder)
    paths = []
    try:
        for name, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            write_atomically(folder / name, lambda file, data=data: file.write(data))  # type: ignore[misc]
            paths.append(folder / name)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return paths


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as CSV, numbers with six digits.

    >>> print(table([{"name": "a", "value": 0.1234567}]), end="")
    name,value
    a,0.123457
    """
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
    return text.getvalue()


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
