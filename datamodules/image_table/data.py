"""A folder of pictures with a table as a data set: no class of one's own is needed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cfgen.attributes import TargetKind
from cfgen.errors import UserError
from cfgen.io.pictures import decoded_bytes, in_colours
from datamodules.image_table.files import FILE_NAME, METADATA
from datamodules.image_table.findings import Finding, TableError
from datamodules.image_table.kinds import as_text
from datamodules.image_table.reading import ReadFolder, read_folder
from datamodules.image_table.settings import Settings
from datamodules.packed import PackedDataModule
from datamodules.sources.framing import framed_squares
from datamodules.sources.packing import packed
from datamodules.sources.picture_files import SPLITS, PictureFiles, PictureTable

__all__ = ["ImageTable"]

_VERSION = 1  # raise it when the same files give other pixels: packed images are then made again
_DIGEST = 16  # bytes of a picture's hash
_log = logging.getLogger(__name__)


class ImageTable(PackedDataModule):
    """Pictures and a table in the `imagefolder` convention of Hugging Face `datasets`; docs/image_table.md has examples.

    The folder has `metadata.csv` (or `.jsonl`, `.parquet`) with the column `file_name`, relative to it, and a column for each
    attribute.  A column `split`, or folders `train`, `val` and `test`, say the splits; otherwise a seeded tenth validates and
    a tenth tests.  What is not said here, `attributes.yaml` beside the table says; what that does not say is inferred, and
    `description` has it all in its form.  Pictures are decoded, framed and resized once, into a file of bytes in `cache_dir`.

    Args:
        data_dir: the folder, or a zip of it.  By default the environment variable CFGEN_DATA.
        cache_dir: where packed images are kept; by default `cfgen` in the user's cache folder.
        batch_size: images in a batch of one device.
        seed: of splits that are drawn and of the order of the batches.
        image_size: height and width of an image; by default the pictures' own, at most 64.
        channels: 1 for grey, 3 for colour; by default what the pictures have.
        framing: `crop` takes the middle of a picture that is not square, `pad` adds black bars.
        target: the column that is `y`, by name or with its kind as {name: NAME, kind: binary|categorical|continuous}; by
            default there is none.
        edges: the causal graph as [cause, effect] pairs.
        mechanisms: how an attribute follows from its causes, by name (see `cfgen.scm`).
        attributes: the names of those that models see; or what is said of some of them, as {size: {kind: continuous, low: 0,
            high: 9, unit: mm}}, where the other columns are attributes too.
        leave_out: columns that are no attributes; those that are numbers are in `other_columns`.
        flip: mirror each training image with probability 1/2, on the device.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        batch_size: int = 64,
        seed: int = 0,
        image_size: int | None = None,
        channels: int | None = None,
        framing: str | None = None,
        target: str | Mapping[str, Any] | None = None,
        edges: Sequence[Sequence[str]] | None = None,
        mechanisms: Mapping[str, Mapping[str, Any]] | None = None,
        attributes: Sequence[str] | Mapping[str, Mapping[str, Any] | None] | None = None,
        leave_out: Sequence[str] | None = None,
        flip: bool = False,
    ) -> None:
        super().__init__(None, (), {}, (0, 0, 0), batch_size, seed, data_dir, cache_dir, flip)
        said: dict[str, Any] = {"attributes": attributes, "target": target, "edges": edges, "mechanisms": mechanisms}
        said |= {"leave_out": leave_out, "image_size": image_size, "channels": channels, "framing": framing}
        self._said = Settings.of(said)
        self._digests: dict[int, np.ndarray] = {}

    @cached_property
    def _read(self) -> ReadFolder:
        if self.data_dir is None:
            raise UserError(
                f"ImageTable needs a folder with {METADATA[0]} and pictures: give data_dir or set the variable CFGEN_DATA"
            )
        return read_folder(Path(self.data_dir), self._said, self.seed)

    @cached_property
    def settings(self) -> Settings:
        """Everything that is said or inferred of the folder; arguments that say all of it need no folder."""
        settings = self._said if self._said.complete else self._read.settings
        attributes = {name: plain_spec(spec) for name, spec in (settings.attributes or {}).items()}
        size = settings.image_size or 0
        shape = (settings.channels or 0, size, size)
        try:
            self._describe(attributes, settings.edges or (), settings.mechanisms or {}, shape)
        except ValueError as error:  # an edge of what is no attribute, or a cycle
            raise UserError(str(error)) from error
        return settings

    def arguments(self) -> dict[str, Any]:
        """The settings as arguments of this class: with them, no attributes.yaml is needed."""
        names = ("attributes", "target", "edges", "mechanisms", "leave_out", "image_size", "channels", "framing")
        return {name: getattr(self.settings, name) for name in names}

    @property
    def description(self) -> str:
        """`attributes.yaml` to keep: all that is said or inferred, with a remark at questionable guesses."""
        return self._read.description

    @property
    def findings(self) -> list[Finding]:
        """What is worth a look in the table; errors are raised instead."""
        return self._read.findings

    @property
    def units(self) -> dict[str, str]:
        """The units of attributes, where attributes.yaml says them."""
        attributes = self.settings.attributes or {}
        return {name: str(spec["unit"]) for name, spec in attributes.items() if "unit" in spec}

    @property
    def about(self) -> str:
        return "Pictures with a table of their attributes (datamodules.ImageTable)."

    @property
    def target(self) -> str | None:  # type: ignore[override]  # known once the folder is read
        target = self.settings.target
        return None if target is None else str(target["name"])

    @property
    def target_kind(self) -> TargetKind:
        target = self.settings.target
        if target is None:
            return super().target_kind
        return TargetKind(target["name"], target["kind"], tuple(as_text(value) for value in target.get("values", ())))

    @property
    def scm_spec(self) -> dict[str, Any]:
        self.settings  # noqa: B018  # describes the attributes
        return super().scm_spec

    @property
    def image_shape(self) -> tuple[int, int, int]:
        self.settings  # noqa: B018
        return super().image_shape

    def prepare_data(self) -> None:
        if self._read.doubts:
            _log.warning(
                "%s: the kind of %s was guessed. `cfgen data %s` shows what to check and keep as attributes.yaml",
                self.data_dir, ", ".join(self._read.doubts), self.data_dir,
            )  # fmt: skip
        super().prepare_data()

    def framed(self, image: Image.Image) -> Image.Image:
        """A picture from elsewhere, framed as this set's are."""
        channels, size, _ = self.image_shape
        (pixels,) = framed_squares([image], size, channels, self.settings.framing or "crop")
        return Image.fromarray(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0))

    def _files(self) -> tuple[PictureFiles, PictureTable]:
        self.settings  # noqa: B018
        return self._read.files, self._read.table

    def _recipe(self) -> dict[str, Any]:
        return {"version": _VERSION, "shape": list(self.image_shape), "framing": self.settings.framing}

    def _pixels(self, files: PictureFiles, table: PictureTable, rows: slice) -> np.ndarray:
        channels, size, _ = self.image_shape
        pictures, digests = [], []
        for row in range(rows.start, rows.stop):
            name = table.names[row]
            try:
                data = files.read(name)
                pictures.append(in_colours(decoded_bytes(data, name), channels, name))
            except UserError as error:
                raise TableError([self._read.rows.finding(row, str(error), FILE_NAME)]) from error
            digests.append(digest(data))
        self._digests[rows.start] = np.stack(digests)
        return framed_squares(pictures, size, channels, self.settings.framing or "crop")

    def _packed(self, files: PictureFiles, table: PictureTable) -> np.ndarray:
        images = super()._packed(files, table)
        self._refuse_copies(files, table)
        return images

    def _refuse_copies(self, files: PictureFiles, table: PictureTable) -> None:
        """Refuses pictures that are in two splits under different names: scores on them would be too good."""

        def hashes(rows: slice) -> np.ndarray:
            ready = self._digests.get(rows.start)  # of a block that was packed just now
            return np.stack([digest(files.read(name)) for name in table.names[rows]]) if ready is None else ready

        path = self._cache_file(files, table)
        found = packed(path.with_suffix(".hashes.npy"), (len(table.names), _DIGEST), hashes, "comparing pictures")
        self._digests.clear()
        _, picture = np.unique(np.ascontiguousarray(found).view(f"V{_DIGEST}")[:, 0], return_inverse=True)
        first = np.full(picture.max() + 1, len(picture))
        np.minimum.at(first, picture, np.arange(len(picture)))
        copies = np.flatnonzero(table.split != table.split[first[picture]])
        rows, findings = self._read.rows, []
        for row in copies.tolist():
            other = int(first[picture[row]])
            place = f"{rows.sources[other]}, row {int(rows.numbers[other]):,}"
            message = (
                f"{table.names[row]!r} ({SPLITS[table.split[row]]}) is the same picture as {table.names[other]!r} "
                f"({SPLITS[table.split[other]]}; {place}): remove one, or put both into one split"
            )
            findings.append(rows.finding(row, message, FILE_NAME))
        if findings:
            raise TableError(findings)


def plain_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """An attribute as a schema takes it: a binary one is 0 or 1, whatever the table calls it, and units are for people."""
    if spec["kind"] == "categorical":
        values = [
            value if isinstance(value, int) and not isinstance(value, bool) else as_text(value)
            for value in spec["values"]
        ]
        return {"kind": "categorical", "values": values}
    return {key: spec[key] for key in ("kind", "low", "high") if key in spec}


def digest(data: bytes) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(data).digest()[:_DIGEST], dtype=np.uint8)
