"""The page "Data": what `cfgen data` shows, for the data that a model was trained on."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cfgen.app.drawing import data_uri
from cfgen.attributes import Columns
from cfgen.errors import UserError
from cfgen.reporting.files import png
from cfgen.runs.data import run_data
from cfgen.runs.model import TrainedModel, read_data

__all__ = ["columns_of", "report_of"]


def report_of(model: TrainedModel) -> dict[str, Any]:
    """The report of `look` as plain values, its sheet of images, and the whole of it as a page of its own."""
    from cfgen.reporting.dataset import look  # here: it brings statistics that no other page needs
    from cfgen.reporting.dataset.words import check_summary

    if model.source is None:
        raise UserError("this model does not say which data it was trained on", argument="model")
    with _named_problem():
        report = look(run_data(model.source, model.trusted))
    with tempfile.TemporaryDirectory(prefix="cfgen-app-") as folder:
        html = (report.save(Path(folder) / "data") / "data.html").read_text()
    found = {**report.to_dict(), "check": check_summary(report.check), "sheet": data_uri(png(report.sheet))}
    return {"found": found, "html": html}


def columns_of(model: TrainedModel) -> dict[str, Columns]:
    """The attributes of the training and of the test images in real units."""
    with _named_problem():
        data = read_data(model, "test")
    return {split: data.columns(split) for split in ("train", "test")}


@contextlib.contextmanager
def _named_problem() -> Iterator[None]:
    """A page has no command line: it says which data is missing, and what works without it."""
    try:
        yield
    except UserError as error:
        text = (
            f"the data that this model was trained on cannot be read here: {error}. The page What if does not need it"
        )
        raise UserError(text, argument="model") from error
