"""A folder read: the rows by split, every column as numbers, and all settings, said or inferred."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cfgen.errors import UserError, unknown_name
from cfgen.io.files import MOST_OF_YAML, parsed_yaml
from cfgen.io.pictures import opened_bytes
from datamodules.image_table.files import ATTRIBUTES_FILE, FILE_NAME, FolderFiles, Rows, read_rows
from datamodules.image_table.findings import Finding, TableError, raise_errors
from datamodules.image_table.kinds import NO, YES, Column, Described, described
from datamodules.image_table.settings import Settings, as_yaml, attribute_name
from datamodules.image_table.splits import SPLIT, shared_pictures, split_of_rows
from datamodules.sources.picture_files import PictureTable

__all__ = ["ReadFolder", "read_folder"]

SAMPLE = 100  # pictures whose size and colours are looked at where nothing is said of them
SMALLEST, LARGEST = 16, 64  # sizes that are inferred; larger ones take long to train, and are for the user to choose
GREYS = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "F")


@dataclass(frozen=True)
class ReadFolder:
    """The rows of a folder, those of a split together, with all settings, what is questionable of them, and what was found."""

    files: FolderFiles
    rows: Rows
    table: PictureTable
    settings: Settings
    doubts: dict[str, str]
    description: str
    findings: list[Finding]


def read_folder(folder: Path, said: Settings, seed: int) -> ReadFolder:
    """Reads a folder's table; refuses it where it has errors."""
    files = FolderFiles(folder)
    rows, findings = read_rows(files)
    raise_errors(findings)
    said = said.over(settings_of(files))
    split, how = split_of_rows(rows, seed)
    findings += shared_pictures(rows, split)
    columns = named_columns(rows)
    target = said.target["name"] if said.target is not None else None
    names = attribute_names(said, list(columns), target, rows.source)
    kinds: dict[str, Described] = {}
    for name in (*names, *([target] if target else [])):
        about = (said.attributes or {}).get(name, {}) if name != target else kind_of_target(said)
        column = Column.of(name, rows.cells[columns[name]])
        kinds[name] = described(column, rows, split == 0, about, is_target=name == target)
        findings += kinds[name].findings
    raise_errors(findings)
    numbers = {name: kind.numbers for name, kind in kinds.items()} | other_columns(rows, columns, kinds)
    settings, sizes = with_image(said, files, rows)
    settings = replace(
        settings,
        attributes={name: kinds[name].spec for name in names},
        only=None,
        target=None if target is None else {"name": target, **kinds[target].spec},
        edges=said.edges or (),
        mechanisms=said.mechanisms or {},
        leave_out=[name for name in columns if name not in kinds],
    )
    notes = [f"How cfgen reads this folder; keep it beside the table as {ATTRIBUTES_FILE}.", f"Splits: {how}.", *sizes]
    notes += [f"The column {column!r} is called {name} here." for name, column in columns.items() if column != name]
    doubts = {name: kind.doubt for name, kind in kinds.items() if kind.doubt}
    order = np.argsort(split, kind="stable")
    table = PictureTable(
        rows.pictures[order].tolist(), split[order], {name: column[order] for name, column in numbers.items()}
    )
    rows = Rows(rows.cells.iloc[:0], rows.pictures[order], rows.sources[order], rows.numbers[order])
    return ReadFolder(files, rows, table, settings, doubts, as_yaml(settings, doubts, notes), findings)


def settings_of(files: FolderFiles) -> Settings:
    """What attributes.yaml says, where it exists."""
    name = files.attributes_file()
    if name is None:
        return Settings()
    path = files.place / name
    return Settings.of(parsed_yaml(files.read(name, MOST_OF_YAML), path), str(path))


def named_columns(rows: Rows) -> dict[str, str]:
    """The columns that describe pictures, by what they are called here."""
    columns: dict[str, str] = {}
    for column in rows.cells.columns:
        if column in (FILE_NAME, SPLIT):
            continue
        name = attribute_name(column)
        if name in columns:
            raise UserError(
                f"{rows.source}: the columns {columns[name]!r} and {column!r} both become {name}: rename one"
            )
        columns[name] = column
    return columns


def attribute_names(said: Settings, columns: Sequence[str], target: str | None, source: str) -> list[str]:
    """The attributes, in order; refuses names that the table does not have and a target that is an attribute."""
    listed = list(said.attributes or ()) if said.only is None else list(said.only)
    left_out = list(said.leave_out or ())
    for argument, names in (("attributes", listed), ("leave_out", left_out), ("target", [target] if target else [])):
        for name in names:
            if name not in columns:
                raise UserError(f"{source}: {argument}: {unknown_name('column', name, columns)}")
    if target is not None and target in listed:
        raise UserError(
            f"{source}, column {target}: it is the target and also an attribute; a model that is given it could not be "
            "audited for it: leave it out of the attributes"
        )
    if said.only is not None:
        names = listed
    else:
        names = [name for name in dict.fromkeys([*listed, *columns]) if name not in (*left_out, target)]
    if not names:
        raise UserError(f"{source} has no column for an attribute; its columns: {', '.join(columns) or 'none'}")
    return names


def kind_of_target(said: Settings) -> dict[str, Any]:
    return {key: value for key, value in (said.target or {}).items() if key != "name"}


def other_columns(rows: Rows, columns: Mapping[str, str], kinds: Collection[str]) -> dict[str, np.ndarray]:
    """The columns that are left out, where they are numbers, or yes and no, in every row: audits can adjust for them."""
    others = {}
    for name in columns:
        if name not in kinds:
            column = Column.of(name, rows.cells[columns[name]])
            words = np.array([1.0 if text in YES else 0.0 if text in NO else np.nan for text in column.text])
            numbers = column.number if column.numeric else words
            if np.isfinite(numbers).all():
                others[name] = numbers
    return others


def with_image(said: Settings, files: FolderFiles, rows: Rows) -> tuple[Settings, list[str]]:
    """The settings with the size and colours of images, and a note on the pictures that these were inferred from."""
    framing = said.framing or "crop"
    if said.image_size is not None and said.channels is not None:
        return replace(said, framing=framing), []
    sides, grey = [], True
    looked = np.unique(np.linspace(0, len(rows.pictures) - 1, SAMPLE).astype(int)).tolist()
    for row in looked:
        name = rows.pictures[row]
        try:
            picture = opened_bytes(files.read(name), name)
        except UserError as error:
            raise TableError([rows.finding(row, str(error), FILE_NAME)]) from error
        sides.append(min(picture.size))
        grey &= picture.mode in GREYS
    size = int(min(LARGEST, max(SMALLEST, np.median(sides) // 4 * 4)))
    settings = replace(
        said,
        image_size=said.image_size or size,
        channels=said.channels or (1 if grey else 3),
        framing=framing,
    )
    note = f"Of {len(looked)} pictures the shorter side has {min(sides)} to {max(sides)} pixels; "
    return settings, [note + ("all are grey." if grey else "some have colours.")]
