"""Any data set of cfgen as a folder of pictures with a table, which `ImageTable` and Hugging Face `datasets` read."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from cfgen.attributes import Categorical
from cfgen.errors import UserError
from cfgen.io.writing import new_folder, require_free
from cfgen.progress import progress
from datamodules.base import AttributeDataModule
from datamodules.image_table.files import ATTRIBUTES_FILE, FILE_NAME, METADATA
from datamodules.image_table.settings import Settings, as_yaml
from datamodules.sources.packing import BLOCK, on_all_cores

__all__ = ["write_image_folder"]

FOLDERS = {"train": "train", "val": "validation", "test": "test"}


def write_image_folder(data: AttributeDataModule, folder: Path) -> Path:
    """Writes a data set into a new folder: `train`, `validation` and `test`, each with PNG files and its metadata.csv, and
    attributes.yaml.  `ImageTable(folder)` then has the same images, attributes, graph and target.

    A target that is an attribute too, such as the label of digits, is written as the attribute alone.
    """
    if data.image_shape[0] not in (1, 3):
        raise UserError(f"images of {data.image_shape[0]} channels cannot be written as pictures; 1 or 3 can")
    require_free(folder, "folder")
    data.prepare_data()
    data.setup()
    with (
        new_folder(folder, "folder") as new,
        progress("writing pictures", sum(map(len, map(data.images, FOLDERS)))) as advance,
    ):
        for split, name in FOLDERS.items():
            (new.place / name).mkdir()
            images = data.images(split)
            blocks = [slice(start, min(start + BLOCK, len(images))) for start in range(0, len(images), BLOCK)]
            for block, _ in on_all_cores(lambda rows, i=images, n=name: save(i, rows, new.place / n), blocks):  # type: ignore[misc]
                advance(block.stop - block.start)
            with (new.place / name / METADATA[0]).open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(table(data, split))
        notes = [f"A folder that cfgen wrote: {data.about}" if data.about else "A folder that cfgen wrote."]
        new.write({ATTRIBUTES_FILE: as_yaml(settings_of(data), {}, notes)})
    return new.path


def save(images: Tensor, rows: slice, folder: Path) -> None:
    for row in range(rows.start, rows.stop):
        pixels = images[row].permute(1, 2, 0).numpy()
        picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
        picture.save(folder / picture_name(row))


def picture_name(row: int) -> str:
    return f"{row:06d}.png"


def target_name(data: AttributeDataModule) -> str | None:
    """What the target's column is called; None where there is none, or where an attribute has it already."""
    name = getattr(data, "target", None) or data.target_kind.name
    written = name not in data.scm_spec["attributes"] and bool(
        (data.targets("train") != data.targets("train")[0]).any()
    )
    return name if written else None


def table(data: AttributeDataModule, split: str) -> Iterator[list[Any]]:
    """The header, then the cells of each row."""
    target, columns = target_name(data), {}
    for name, column in data.columns(split).items():
        kind = data.schema[name]
        if isinstance(kind, Categorical):
            columns[name] = [kind.values[position] for position in column.long().tolist()]
        else:
            columns[name] = numbers(column)
    if target is not None:
        values = data.target_kind.values
        y = data.targets(split)
        columns[target] = [values[position] for position in y.long().tolist()] if values else numbers(y)
    columns |= {name: numbers(column) for name, column in data.other_columns(split).items()}
    yield [FILE_NAME, *columns]
    for row, cells in enumerate(zip(*columns.values(), strict=True)):
        yield [picture_name(row), *cells]


def numbers(column: Tensor) -> list[str]:
    """With all digits that a single-precision number has."""
    return [f"{value:.9g}" for value in column.tolist()]


def settings_of(data: AttributeDataModule) -> Settings:
    spec, name, kind = data.scm_spec, target_name(data), data.target_kind
    target: dict[str, Any] | None = None
    if name is not None:
        target = {"name": name, "kind": kind.kind} | ({"values": list(kind.values)} if kind.values else {})
    return Settings(
        attributes=data.schema.spec,
        target=target,
        edges=spec["edges"],
        mechanisms=spec["mechanisms"],
        leave_out=list(data.other_columns("train")),
        image_size=data.image_shape[1],
        channels=data.image_shape[0],
        framing="crop",
    )
