"""A look at a data set: `look` reads it and returns all there is to see of it as one object."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Schema
from cfgen.contracts import ImageData
from cfgen.errors import UserError
from cfgen.graph_check import association, check_graph
from cfgen.io.writing import new_folder, write_atomically
from cfgen.reporting.dataset.figures import association_map
from cfgen.reporting.dataset.overlap import overlap_of
from cfgen.reporting.dataset.page import counts_text, data_page
from cfgen.reporting.dataset.sheet import contact_sheet
from cfgen.reporting.dataset.summary import DataSummary
from cfgen.reporting.files import png, table
from cfgen.scm.graph import CausalGraph

__all__ = ["DataReport", "look"]

SPLITS = ("train", "val", "test")


@runtime_checkable
class HasUnits(Protocol):
    """A data set that knows the units of its attributes, such as {thickness: pixels}."""

    @property
    def units(self) -> Mapping[str, str]: ...


@runtime_checkable
class HasFindings(Protocol):
    """A data set that was read from a table: what it guessed, as YAML to keep, and what looked questionable."""

    @property
    def description(self) -> str: ...

    @property
    def findings(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class DataReport(DataSummary):
    """What is in a data set, with a sheet of its images; it can be saved as a page."""

    sheet: Figure

    def save(self, folder: str | Path) -> Path:
        """Writes `data.html`, which opens offline, and beside it JSON, CSV files and figures, into a new folder."""
        figures = {"sheet.png": self.sheet, "graph.png": self.graph.draw()}
        if self.associations:
            figures["associations.png"] = association_map(self.schema.names, self.associations)
        pictures = {name: png(figure) for name, figure in figures.items()}
        tests = [
            {"kind": kind, **one.to_dict(), "given": " ".join(one.statement.given)}
            for kind, tested in (("independence", self.check.independences), ("edge", self.check.edges))
            for one in tested
        ]
        tables = {
            "attributes.csv": [one | {"counts": counts_text(one, most=None)} for one in self.attributes],
            "associations.csv": self.association_records(),
            "graph_check.csv": tests,
            "overlap.csv": [one.to_dict() for one in self.overlap],
            "strata.csv": self.strata_records(),
        }
        contents: dict[str, bytes | str] = {name: table(records) for name, records in tables.items() if records}
        contents |= pictures
        contents["data.json"] = json.dumps(self.to_dict(), indent=1)
        if self.description:
            contents["attributes.yaml"] = self.description
        contents["data.html"] = data_page(self, pictures, list(contents))
        with new_folder(folder) as new:
            new.write(contents)
        return new.path

    def save_sheet(self, path: str | Path) -> Path:
        """Writes the sheet of images as a picture; an existing file is replaced."""
        path, buffer = Path(path), io.BytesIO()
        kind = path.suffix.removeprefix(".").lower()
        try:
            self.sheet.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", pad_inches=0.15)
        except ValueError as error:  # a kind of file that it does not know
            raise UserError(f"cannot write {path}: {error}", argument="out") from error
        write_atomically(path, lambda file: file.write(buffer.getvalue()))
        return path


def look(data: ImageData, title: str = "", seed: int = 0) -> DataReport:
    """Looks at a data set; prepares and reads it first."""
    data.prepare_data()
    data.setup()
    spec, schema = data.scm_spec, data.schema
    graph = CausalGraph(spec["attributes"], spec["edges"])
    train = data.columns("train")
    units = data.units if isinstance(data, HasUnits) else {}
    read = data if isinstance(data, HasFindings) else None
    return DataReport(
        title=title or type(data).__name__,
        about=str(getattr(data, "about", "")),
        image_shape=tuple(data.image_shape),
        splits={split: len(data.images(split)) for split in SPLITS},
        attributes=[attribute_record(schema, name, column, units.get(name, "")) for name, column in train.items()],
        schema=schema,
        associations=association(schema, train, seed),
        graph=graph,
        check=check_graph(graph, schema, train, seed),
        overlap=overlap_of(graph, schema, data.columns("test")),
        findings=[finding_line(one) for one in read.findings] if read is not None else [],
        description=read.description if read is not None else "",
        sheet=contact_sheet(data, title),
    )


def attribute_record(schema: Schema, name: str, column: Tensor, unit: str) -> dict[str, Any]:
    """Kind, unit and range of an attribute; of a categorical one its first and last value, and of discrete ones how many images
    have which value."""
    attribute = schema[name]
    record: dict[str, Any] = {"attribute": name, "kind": type(attribute).__name__.lower(), "unit": unit}
    if isinstance(attribute, Categorical):
        record |= {"lowest": attribute.values[0], "highest": attribute.values[-1], "mean": None, "std": None}
    else:
        # in double precision: a sum of many thousand values is not exact in single
        values = column.double()
        figures = {"lowest": values.min(), "highest": values.max(), "mean": values.mean(), "std": values.std()}
        record |= {key: value.item() for key, value in figures.items()}
    if isinstance(attribute, Binary | Categorical):
        names = attribute.values if isinstance(attribute, Categorical) else (0, 1)
        counts = torch.bincount(column.long(), minlength=len(names)).tolist()
        record["counts"] = dict(zip(map(str, names), counts, strict=True))
    return record


def finding_line(finding: Any) -> str:
    """A finding of a table in one line: how grave it is, where and what."""
    where = [
        f"{part} {value}" for part in ("file", "row", "column") if (value := getattr(finding, part, None)) is not None
    ]
    return f"{finding.severity}: {finding.message}" + (f" ({', '.join(where)})" if where else "")
