"""The report of an audit: tables, figures, a page and a console summary.  It presents an `AuditResult` and computes nothing new.

report.write(result, pictures, "audits/001")   # report.html and everything next to it
report.show(result)                            # the summary that the command prints
"""

from __future__ import annotations

from pathlib import Path

from cfgen.audit._illustrate import Pictures
from cfgen.audit.report._console import show
from cfgen.audit.report._figures import report_figures
from cfgen.audit.report._page import report_page
from cfgen.audit.result import AuditResult
from cfgen.io.writing import NewFolder, new_folder
from cfgen.reporting.files import png

__all__ = ["files", "show", "write"]


def files(result: AuditResult, pictures: Pictures) -> dict[str, bytes | str]:
    """The files of the results and the report by name; `report.html` is the last."""
    figures = report_figures(result, pictures)
    drawn = {one.name: png(one.figure) for one in figures}
    contents: dict[str, bytes | str] = {**result.files(), **{f"{name}.png": data for name, data in drawn.items()}}
    return {**contents, "report.html": report_page(result, figures, drawn)}


def write(result: AuditResult, pictures: Pictures, folder: NewFolder | str | Path) -> Path:
    """Write the results and the report into a folder that is new or empty; return its path."""
    if isinstance(folder, NewFolder):
        folder.write(files(result, pictures))
        return folder.path
    with new_folder(folder, "folder") as new:
        new.write(files(result, pictures))
    return new.path
