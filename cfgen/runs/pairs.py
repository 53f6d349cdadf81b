"""True counterfactual images: of data that knows or can make them, or pairs of pictures from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Schema
from cfgen.command_line import number_or_name, parse_assignments
from cfgen.contracts import ImageData, KnowsTruth, SetsAttributes, true_images
from cfgen.errors import UserError, blame
from cfgen.interventions import Intervention
from cfgen.io.files import read_csv
from cfgen.runs.pictures import frame_of, read_picture

__all__ = ["OutsidePairs", "Pairs", "read_pairs", "true_pairs"]

FEWEST = 10  # pairs of an intervention
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
PICTURES = ("before", "after")
UNMOVED = 1e-6  # of an attribute's range: encoding a value and decoding it again moves it less

Values = frozenset[tuple[str, float]]  # what an intervention sets, in any order


def true_pairs(
    data: ImageData,
    schema: Schema,
    split: str,
    rows: Tensor,
    do: Mapping[str, Any],
    a_c: Tensor,
    hold: Collection[str] = (),
) -> Tensor | None:
    """The true counterfactuals of these rows of a split under `do`: uint8, (rows, C, H, W).

    From data that knows it (`KnowsTruth`), or from data that can set all attributes that change (`SetsAttributes`) to the
    values in `a_c` (rows, size), the model's counterfactual attributes of these rows; None from other data.  Attributes in
    `hold` keep the rows' own values.
    """
    if both := sorted(set(do) & set(hold)):
        raise UserError(f"{', '.join(both)} cannot be held, for the intervention sets it", argument="hold")
    own = {name: data.columns(split)[name][rows].to(schema.low.dtype) for name in schema.names}
    if isinstance(data, KnowsTruth):
        return true_images(data, schema, split, rows, {**do, **{name: own[name] for name in hold}})
    if not isinstance(data, SetsAttributes):
        return None
    wanted = wanted_values(schema, own, a_c, hold)
    changed = {name for name in schema.names if not torch.equal(wanted[name], own[name])}
    if not changed <= set(data.settable):
        return None
    return data.set_attributes(data.images(split)[rows], own, wanted)


def wanted_values(
    schema: Schema, own: Mapping[str, Tensor], a_c: Tensor, hold: Collection[str] = ()
) -> dict[str, Tensor]:
    """The values in `a_c`, and to the bit the own ones where they are the same or held."""
    a_c = a_c.detach().to(schema.low.device)
    a = schema.encode({name: column.to(a_c.device) for name, column in own.items()})
    moved = (a_c - a).abs() > UNMOVED
    values = {}
    for name, column in schema.decode(a_c).items():
        changes = moved[:, schema.slices[name]].any(dim=1).cpu() & (name not in hold)
        values[name] = torch.where(changes, column.cpu(), own[name])
    return values


class Pairs(NamedTuple):
    """Pictures before and after an intervention, uint8 (N, C, H, W), and the attributes of those before in real units."""

    before: Tensor
    after: Tensor
    columns: dict[str, Tensor]


@dataclass(frozen=True)
class OutsidePairs:
    """A user's pairs of pictures by the values that an intervention sets; `interventions` are as first written in the table."""

    interventions: tuple[str, ...]
    pairs: Mapping[Values, Pairs]

    def matching(self, intervention: Intervention) -> Pairs | None:
        """The pairs of a bound intervention, whatever the order of its values."""
        assigned = intervention.assigned
        return None if assigned is None else self.pairs.get(frozenset(assigned.items()))


def assigned_values(schema: Schema, do: str | Mapping[str, Any]) -> Values:
    """The values that an intervention sets, in any order.

    >>> faces = Schema({"Young": {"kind": "binary"}, "Bangs": {"kind": "binary"}})
    >>> assigned_values(faces, "Young=0,Bangs=1") == assigned_values(faces, {"Bangs": 1, "Young": 0.0})
    True
    """
    assignments = parse_assignments(do) if isinstance(do, str) else do
    return frozenset((name, value.item()) for name, value in schema.check_do(assignments).items())


class Row(NamedTuple):
    """A row of the table: its number as in a spreadsheet, where the column names are row 1, and its cells by column."""

    number: int
    cells: dict[str, str]


def read_pairs(path: str | Path, data: ImageData, schema: Schema) -> OutsidePairs:
    """A table of pictures before and after interventions: `before` and `after` (files, relative to the table), `do`, such as
    "Eyeglasses=1", and a column for each attribute of the model, with its value in the picture before.

    The pictures are framed as those of `data`.
    """
    path = Path(path)
    table = read_table(path, schema)
    columns = {name: attribute_column(path, table, schema, name) for name in schema.names}
    found: dict[Values, list[int]] = {}
    texts: dict[Values, str] = {}
    for place, row in enumerate(table):
        values = intervention(path, row, schema)
        if all(columns[name][place].item() == value for name, value in values):
            raise row_error(path, row, "do", f"the picture before has {row.cells['do']} already")
        texts.setdefault(values, row.cells["do"])
        found.setdefault(values, []).append(place)
    for values, places in found.items():
        if len(places) < FEWEST:
            number = f"{len(places)} pair{'' if len(places) == 1 else 's'}"
            raise UserError(f"{path} has {number} for {texts[values]}: at least {FEWEST} are needed", argument="pairs")
    check_files(path, table)
    before, after = (read_pictures(path, table, column, data) for column in PICTURES)
    pairs = {}
    for values, places in found.items():
        index = torch.tensor(places)
        pairs[values] = Pairs(before[index], after[index], {name: column[index] for name, column in columns.items()})
    return OutsidePairs(tuple(texts.values()), pairs)


def row_error(path: Path, row: Row, column: str, message: str) -> UserError:
    return UserError(f"{path}, row {row.number}, column {column}: {message}", argument="pairs")


def read_table(path: Path, schema: Schema) -> list[Row]:
    """The rows of the table that are not blank, if it has all columns."""
    needed = [*PICTURES, "do", *schema.names]
    with blame("pairs"):
        lines = read_csv(path)
    header = [cell.strip() for cell in lines[0]] if lines else []
    if missing := [name for name in needed if name not in header]:
        raise UserError(
            f"{path} has no column {', '.join(missing)}: before and after (files), do, and the value of each attribute in "
            f"the picture before are needed; its columns are {', '.join(header) or '(none)'}",
            argument="pairs",
        )
    if repeated := sorted({name for name in needed if header.count(name) > 1}):
        raise UserError(f"{path} has more than one column {', '.join(repeated)}", argument="pairs")
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if not any(cell.strip() for cell in line):
            continue
        if len(line) != len(header):
            raise UserError(
                f"{path}, row {number}: {len(line)} values for {len(header)} columns (a value with a comma needs quotes)",
                argument="pairs",
            )
        rows.append(Row(number, dict(zip(header, (cell.strip() for cell in line), strict=True))))
        for column in needed:
            if not rows[-1].cells[column]:
                raise row_error(path, rows[-1], column, "the cell is empty")
    if not rows:
        raise UserError(f"{path} has no pairs, only the names of its columns", argument="pairs")
    return rows


def attribute_column(path: Path, table: Sequence[Row], schema: Schema, name: str) -> Tensor:
    """An attribute of the pictures before, in real units."""
    known: dict[str, float] = {}
    for row in table:
        cell = row.cells[name]
        if cell not in known:
            value = cell if isinstance(schema[name], Categorical) else number_or_name(cell)
            try:
                known[cell] = schema.check_given({name: value}, 1)[name].item()
            except ValueError as error:
                raise row_error(path, row, name, str(error)) from error
    return torch.tensor([known[row.cells[name]] for row in table], dtype=schema.low.dtype)


def intervention(path: Path, row: Row, schema: Schema) -> Values:
    try:
        return assigned_values(schema, row.cells["do"])
    except (UserError, ValueError) as error:
        raise row_error(path, row, "do", str(error)) from error


def check_files(path: Path, table: Sequence[Row]) -> None:
    """Refuses a picture that is paired with itself, and a pair that is listed twice."""
    seen: dict[tuple[Path, Path, str], int] = {}
    for row in table:
        before, after = (path.parent / row.cells[column] for column in PICTURES)
        if before == after:
            raise row_error(path, row, "after", f"{row.cells['after']} is the picture before")
        first = seen.setdefault((before, after, row.cells["do"]), row.number)
        if first != row.number:
            raise row_error(path, row, "after", f"this pair is in row {first} already")


def read_pictures(path: Path, table: Sequence[Row], column: str, data: ImageData) -> Tensor:
    """The pictures of a column; one that several rows name is read once."""
    frame = frame_of(data, data.image_shape)
    known: dict[Path, Tensor] = {}
    for row in table:
        file = path.parent / row.cells[column]
        if file not in known:
            try:
                known[file] = read_picture(file, data.image_shape, frame, formats=FORMATS)
            except UserError as error:
                raise row_error(path, row, column, str(error)) from error
    return torch.stack([known[path.parent / row.cells[column]] for row in table])
