"""The tables that an audit computes: classifiers' answers to pictures, and what is read from pictures themselves."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfgen.errors import UserError
from cfgen.io.files import read_bytes

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "AUDIT", "COUNTERFACTUAL", "PAIRS", "REAL", "RECONSTRUCTION", "TRANSFORMED", "TRUE", "Answers", "Picture", "Readings",
]  # fmt: skip

REAL, RECONSTRUCTION, COUNTERFACTUAL, TRANSFORMED, TRUE = (
    "real", "reconstruction", "counterfactual", "transformed", "true"
)  # fmt: skip
AUDIT, PAIRS = "audit", "pairs"  # samples: the audited images, and pairs of pictures from outside
Float32 = NDArray[np.float32]


class Picture(NamedTuple):
    """Which picture of each image: the image itself, or what a model, a transformation or the ground truth makes of it."""

    picture: str
    intervention: str = ""
    arm: str = ""
    model: str = ""
    sample: str = AUDIT


@dataclass(frozen=True)
class Answers:
    """Raw answers of each classifier, by picture: (n, columns of its outcome), NaN where an image has no such picture.

    A saved table has one row for each image, picture, classifier and class: `image_id, sample, picture, intervention, arm, model,
    classifier, class_name, answer`.  `ids` are the images' ids by sample; pairs have ids by intervention.
    """

    ids: Sequence[str]
    tables: Mapping[str, Mapping[Picture, Float32]] = field(repr=False)
    columns: Mapping[str, Sequence[str]]

    def __getitem__(self, key: tuple[str, Picture]) -> Float32:
        """The answers of a classifier to a picture."""
        return self.tables[key[0]][key[1]]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[1] in self.tables.get(key[0], {})

    def to_frame(self) -> pd.DataFrame:
        """The saved table."""
        parts = (
            (
                (*picture, name, class_name),
                self.ids if picture.sample == AUDIT else [f"pair-{k}" for k in range(len(raw))],
                raw[:, column],
            )
            for name, pictures in self.tables.items()
            for picture, raw in pictures.items()
            for column, class_name in enumerate(self.columns[name])
        )
        return _long((*Picture._fields, "classifier", "class_name"), "answer", parts)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        ids: Sequence[str],
        columns: Mapping[str, Sequence[str]],
        pictures: Sequence[Picture] = (),
    ) -> Answers:
        """The inverse of `to_frame`, for images with these ids and classifiers with these columns.

        `pictures` of the images are there even if no image has one: the table has no row about such a picture.
        """
        tables: dict[str, dict[Picture, Float32]] = {
            name: {picture: np.full((len(ids), len(names)), np.nan, dtype=np.float32) for picture in pictures}
            for name, names in columns.items()
        }
        for key, part in _groups(frame, [*Picture._fields, "classifier"]):
            picture, name = Picture(*key[:-1]), key[-1]
            own = ids if picture.sample == AUDIT else list(dict.fromkeys(part["image_id"]))
            place = {image: row for row, image in enumerate(own)}
            raw = np.full((len(own), len(columns[name])), np.nan, dtype=np.float32)
            rows = part["image_id"].map(place).to_numpy(dtype=np.int64)
            across = part["class_name"].map({k: i for i, k in enumerate(columns[name])}).to_numpy(dtype=np.int64)
            raw[rows, across] = part["answer"].to_numpy(dtype=np.float32)
            tables[name][picture] = raw
        return cls(ids, tables, columns)


@dataclass(frozen=True)
class Readings:
    """What is measured on pictures without a classifier, by picture and output: (n,), NaN where nothing was measured.

    Outputs are pixel errors (`MSE`, `DISTANCE_TO_TRUTH`), an attribute's name for the value that a predictor reads, and
    `log_odds(attribute, value)` (`cfgen.audit.strength`) for how much speaks for a value.
    """

    ids: Sequence[str]
    values: Mapping[tuple[Picture, str], Float32] = field(repr=False)

    def get(self, picture: Picture, output: str) -> Float32 | None:
        return self.values.get((picture, output))

    def to_frame(self) -> pd.DataFrame:
        """The saved table: `image_id, picture, intervention, arm, model, output, value`; all are about the audited images."""
        parts = (((*picture[:-1], output), self.ids, values) for (picture, output), values in self.values.items())
        return _long((*Picture._fields[:-1], "output"), "value", parts)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, ids: Sequence[str]) -> Readings:
        """The inverse of `to_frame`."""
        place = {image: row for row, image in enumerate(ids)}
        values = {}
        for key, part in _groups(frame, [*Picture._fields[:-1], "output"]):
            column = np.full(len(ids), np.nan, dtype=np.float32)
            column[part["image_id"].map(place).to_numpy(dtype=np.int64)] = part["value"].to_numpy(dtype=np.float32)
            values[Picture(*key[:-1]), key[-1]] = column
        return cls(ids, values)


MSE, DISTANCE_TO_TRUTH = "mse", "distance_to_truth"


def to_parquet(frame: pd.DataFrame) -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def from_parquet(path: Path) -> pd.DataFrame:
    """The table of a Parquet file."""
    from pyarrow import parquet

    data = io.BytesIO(read_bytes(path, MOST_OF_A_TABLE))
    try:
        # without the notes of pandas, which can name types of other packages
        return parquet.ParquetFile(data).read().to_pandas(ignore_metadata=True)
    except Exception as error:  # a torn or foreign file can raise anything
        raise UserError(f"{path} cannot be read as Parquet ({' '.join(str(error).split())})") from None


MOST_OF_A_TABLE = 8 << 30  # bytes


def _long(
    names: Sequence[str], value: str, parts: Iterator[tuple[tuple[str, ...], Sequence[str], Float32]]
) -> pd.DataFrame:
    """One row for each image and part; rows without a value are left out."""
    import pandas as pd

    keys: list[tuple[str, ...]] = []
    ids: list[NDArray[np.object_]] = []
    values: list[Float32] = []
    for key, images, column in parts:
        known = ~np.isnan(column)
        keys.append(key)
        ids.append(np.asarray(images, dtype=object)[known])
        values.append(column[known])
    counts = [len(column) for column in values]
    columns = {
        name: pd.Categorical.from_codes(
            np.repeat([levels.index(key[place]) for key in keys], counts).astype(np.int32), levels
        )
        for place, name in enumerate(names)
        if (levels := list(dict.fromkeys(key[place] for key in keys))) or True
    }
    frame = pd.DataFrame({"image_id": np.concatenate(ids) if ids else [], **columns})
    return frame.assign(**{value: np.concatenate(values) if values else np.empty(0, dtype=np.float32)})


def _groups(frame: pd.DataFrame, names: list[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The rows of each picture, in the order in which pictures come."""
    for key, part in frame.groupby(names, sort=False, observed=True):
        yield tuple(map(str, key)), part
