"""The files of a report, and the new folder that they go to."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cfgen.io.writing import NewFolder, new_folder, new_numbered_folder

__all__ = ["DPI", "new_results", "png", "table"]

DPI = 130  # of the figures


def new_results(root: Path, kind: str, out: str | Path | None) -> AbstractContextManager[NewFolder]:
    """`out`, or else the next free `root/kind/NNN`: refused before the work where it cannot be written, and whole or absent."""
    return new_folder(out) if out else new_numbered_folder(root / kind)


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


def png(figure: Figure, dpi: int = DPI) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
