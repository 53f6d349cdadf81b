"""What is wrong with a table, or worth a look: the file, the row and the column, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cfgen.errors import UserError

__all__ = ["Finding", "TableError", "raise_errors"]


@dataclass(frozen=True)
class Finding:
    """One thing about a table.  Rows are counted as the file counts: of a CSV the header is row 1.

    >>> str(Finding("error", "metadata.csv", "no value", row=3, column="size"))
    'metadata.csv, row 3, column size: no value'
    """

    severity: Literal["error", "warning"]
    file: str
    message: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row:,}"
        column = "" if self.column is None else f", column {self.column}"
        return f"{self.file}{row}{column}: {self.message}"


class TableError(UserError):
    """A table that cannot be used as it is; `findings` has everything that is wrong with it, the message the first."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        more = f" (and {len(findings) - 1:,} more, which cfgen data lists)" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{more}")
        self.findings = list(findings)


def raise_errors(findings: Sequence[Finding]) -> None:
    """Refuses a table with errors."""
    if errors := [finding for finding in findings if finding.severity == "error"]:
        raise TableError(errors)
