"""The files of an image folder: the metadata files, what is in them, and the pictures that they name."""

from __future__ import annotations

import io
import json
import posixpath
import unicodedata
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from cfgen.errors import UserError
from cfgen.io.archives import leads_outside
from datamodules.image_table.findings import Finding
from datamodules.sources.picture_files import PictureFiles

__all__ = ["ATTRIBUTES_FILE", "FILE_NAME", "METADATA", "FolderFiles", "Rows", "read_rows"]

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
ATTRIBUTES_FILE = "attributes.yaml"
FILE_NAME = "file_name"
MOST_OF_TABLE = 500_000_000  # bytes
MOST_ROWS = 10_000_000  # a Parquet file of a few bytes can stand for any number


class FolderFiles(PictureFiles):
    """The files of a folder; a zip at its top is read as if it were unpacked there.  The folder may be a zip itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if folder.is_dir():
            self.add_folder(lambda name: not hidden(name), deep=True)
            zips = sorted(name for name in self.stamps if "/" not in name and name.lower().endswith(".zip"))
            if len(zips) > 1:
                raise UserError(f"{folder} has {len(zips)} zips ({', '.join(zips)}), and one is read")
            for name in zips:
                del self.stamps[name]
                self.add_zip(folder / name, shown)
        elif folder.is_file() and folder.suffix.lower() == ".zip":
            self.add_zip(folder, shown)
        else:
            raise UserError(f"there is no folder {folder}: a folder with {METADATA[0]} is expected")

    def metadata(self) -> list[str]:
        """The metadata files, which all have one format."""
        names = sorted(name for name in self.stamps if PurePosixPath(name).name in METADATA)
        if not names:
            raise UserError(
                f"{self.place} has no {METADATA[0]}, {METADATA[1]} or {METADATA[2]}: a table with the column {FILE_NAME} (the "
                "picture, relative to the table) and a column for each attribute is expected",
            )
        if len({PurePosixPath(name).suffix for name in names}) > 1:
            raise UserError(f"{self.place} has {', '.join(names)}: keep one format")
        return names

    def attributes_file(self) -> str | None:
        """The attributes.yaml beside the table: in the folder itself, or beside the first metadata file of a zip."""
        beside = str(PurePosixPath(self.metadata()[0]).parent / ATTRIBUTES_FILE)
        return next((name for name in (ATTRIBUTES_FILE, beside) if name in self.stamps), None)

    def found(self, name: str) -> str | None:
        """The file of this name, however its letters with accents are put together; None where there is none."""
        return name if name in self.stamps else self._composed.get(unicodedata.normalize("NFC", name))

    def hint(self, name: str) -> str:
        """What may have been meant by a name that no file has."""
        alike = self._folded.get(unicodedata.normalize("NFC", name).casefold())
        return f"; there is {alike!r}, and names tell capital letters" if alike else ""

    @cached_property
    def _composed(self) -> dict[str, str]:
        return {unicodedata.normalize("NFC", name): name for name in self.stamps}

    @cached_property
    def _folded(self) -> dict[str, str]:
        return {name.casefold(): file for name, file in self._composed.items()}


def hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def shown(name: str) -> str | None:
    return None if hidden(name) else name


@dataclass(frozen=True)
class Rows:
    """All rows of a folder's metadata: the cells by column, the picture of each row, and where the row is written.

    Cells are text, numbers, True and False, or missing (None, NaN), as the file has them.
    """

    cells: pd.DataFrame
    pictures: np.ndarray  # names of files, as the folder has them
    sources: np.ndarray  # the metadata file of each row
    numbers: np.ndarray  # the row's number in that file

    def finding(self, row: int, message: str, column: str | None = None) -> Finding:
        """An error in a row."""
        return Finding("error", self.sources[row], message, int(self.numbers[row]), column)

    @property
    def source(self) -> str:
        """The metadata file, or the first of several."""
        return str(self.sources[0])


def read_rows(files: FolderFiles) -> tuple[Rows, list[Finding]]:
    """The rows of all metadata files and the pictures that they name, with those that are missing."""
    parts, findings = [], []
    for name in files.metadata():
        frame = read_frame(files, name)
        if FILE_NAME not in frame.columns:
            raise UserError(f"{files.place / name} has no column {FILE_NAME}: {columns_told(frame)}")
        frame.columns = frame.columns.map(str)
        if twice := frame.columns[frame.columns.duplicated()].tolist():
            raise UserError(f"{files.place / name} has two columns {twice[0]}")
        parts.append((name, frame))
    rows = Rows(
        cells=pd.concat([frame for _, frame in parts], ignore_index=True),
        pictures=np.concatenate([frame[FILE_NAME].to_numpy(dtype=object) for _, frame in parts]),
        sources=np.concatenate([np.full(len(frame), str(files.place / name), dtype=object) for name, frame in parts]),
        numbers=np.concatenate([frame.index.to_numpy() for _, frame in parts]),
    )
    if not len(rows.cells):
        raise UserError(f"{files.place / rows_of(parts)} has no rows")
    folders = [posixpath.dirname(name) for name, frame in parts for _ in range(len(frame))]
    for number, (picture, folder) in enumerate(zip(rows.pictures, folders, strict=True)):
        if not isinstance(picture, str) or not picture.strip():
            findings.append(rows.finding(number, "no picture is named", FILE_NAME))
            continue
        if leads_outside(picture):
            findings.append(rows.finding(number, f"{picture!r} leads out of the folder", FILE_NAME))
            continue
        path = posixpath.normpath(posixpath.join(folder, picture.replace("\\", "/")))
        file = files.found(path)
        if file is None:
            findings.append(rows.finding(number, f"there is no picture {path!r}{files.hint(path)}", FILE_NAME))
        rows.pictures[number] = file
    return rows, findings


def rows_of(parts: list[tuple[str, pd.DataFrame]]) -> str:
    return ", ".join(name for name, _ in parts)


def columns_told(frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    if len(names) == 1 and (separator := next((s for s in ";\t|" if s in names[0]), None)):
        return f"its columns are separated by {separator!r}; save it with commas"
    return f"it has {', '.join(names[:10])}"


def read_frame(files: FolderFiles, name: str) -> pd.DataFrame:
    """A metadata file as a table; its index is the number of each row, as a spreadsheet or an editor shows it."""
    data, path = files.read(name, MOST_OF_TABLE), files.place / name
    if name.endswith(".parquet"):
        return read_parquet(data, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text in UTF-8 (at byte {error.start:,}): save it as UTF-8") from None
    return read_csv(text, path) if name.endswith(".csv") else read_json_lines(text, path)


def read_csv(text: str, path: Path) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
            # text as it is written, with what pandas, and so `datasets`, takes for missing
            frame = pd.read_csv(
                io.StringIO(text), dtype=str, index_col=False, skip_blank_lines=False, skipinitialspace=True
            )
    except (ValueError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise UserError(f"{path} cannot be read as a table ({' '.join(str(error).split())})") from None
    frame.index += 2  # the header is row 1
    return frame.dropna(how="all")  # empty lines


def read_json_lines(text: str, path: Path) -> pd.DataFrame:
    records: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            records[number] = json.loads(line)
        except (ValueError, RecursionError):
            records[number] = {}
        if not isinstance(records[number], dict) or not records[number]:
            raise UserError(f"{path}, row {number:,}: a JSON object is expected, not {line[:40]!r}")
    return pd.DataFrame(list(records.values()), index=list(records), dtype=object)


def read_parquet(data: bytes, path: Path) -> pd.DataFrame:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        if file.metadata.num_rows > MOST_ROWS:
            raise UserError(f"{path} has {file.metadata.num_rows:,} rows, and at most {MOST_ROWS:,} are read")
        # not the notes of pandas: they can name types of other packages
        frame = file.read().to_pandas(ignore_metadata=True).astype(object)
    except UserError:
        raise
    except Exception as error:  # whatever a torn or foreign file makes of itself
        raise UserError(f"{path} cannot be read as Parquet ({' '.join(str(error).split())})") from None
    frame.index += 1
    return frame
