"""Synthetic faces in CelebA's layout: drawn from a known SCM, so that true counterfactual images are known too."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cfgen.errors import UserError
from cfgen.progress import progress
from datamodules.celeba import CelebA
from datamodules.faces.draw import paint
from datamodules.faces.scm import ATTRIBUTES, EDGES, Population, attractiveness, draw
from datamodules.sources import cache, celeba_files
from datamodules.sources.packing import BLOCK, on_all_cores

__all__ = ["Faces"]

_TARGET = "Attractive"
_VERSION = 1  # raise it when the same seed gives other faces: sets are then drawn again


class Faces(CelebA):
    """Drawn faces with binary attributes; needs no download.  `y` is `Attractive`, biased by a known amount.

    The set is written once, as JPEG files in CelebA's layout, and read as CelebA is.  The first eight tenths train, one
    tenth validates and one tests.  `datamodules.faces.scm` has the probabilities of the attributes and the weights of the label.

    Args:
        count: how many faces.
        cache_dir: where sets are kept; by default `cfgen` in the user's cache folder.
        batch_size: images in a batch of one device.
        seed: of the faces and of the order of the batches.
        attributes: those the models see; by default all fifteen.  `other_columns` has the others.
        edges: the causal graph as [cause, effect] pairs; by default the true one, that of Appendix O: Young -> Eyeglasses,
            Gray_Hair, Receding_Hairline, as far as the attributes are there.
        mechanisms: how an attribute follows from its causes, by name; by default a probability table.
        image_size: height and width of an image.
        flip: mirror each training image with probability 1/2, on the device.
    """

    known: ClassVar[tuple[str, ...]] = tuple(sorted((*ATTRIBUTES, _TARGET)))
    left_out: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        count: int = 20_000,
        cache_dir: str | None = None,
        batch_size: int = 128,
        seed: int = 0,
        attributes: Sequence[str] | None = None,
        edges: Sequence[Sequence[str]] | None = None,
        mechanisms: Mapping[str, Mapping[str, Any]] | None = None,
        image_size: int = 64,
        flip: bool = False,
    ) -> None:
        if not 10 <= count <= 999_999:
            raise ValueError(f"count is from 10, so that no split is left without faces, to 999999, not {count}")
        if edges is None:
            present = ATTRIBUTES if attributes is None else attributes
            edges = [edge for edge in EDGES if set(edge) <= set(present)]
        super().__init__(
            cache_dir=cache_dir,
            batch_size=batch_size,
            seed=seed,
            attributes=attributes,
            target=_TARGET,
            edges=edges,
            mechanisms=mechanisms,
            image_size=image_size,
            flip=flip,
        )
        self.count = count

    @property
    def about(self) -> str:
        return f"{self.count:,} faces that cfgen drew from a known causal model (datamodules.Faces); nobody's likeness."

    def shareable(self) -> Faces:
        return self

    def folder(self) -> Path:
        """The folder with the set; draws it where it is not there yet."""
        recipe = {"version": _VERSION, "seed": self.seed, "count": self.count}
        folder = cache.location(self.cache_dir, f"faces-{self.count}", recipe).with_suffix("")
        if not folder.is_dir():
            with cache.locked(folder):
                if not folder.is_dir():  # else the process that held the lock has just drawn it
                    self._write(folder)
        return folder

    def persons(self, split: str) -> Tensor:
        raise UserError("drawn faces are nobody's, and no two of them are of one person; CelebA's photographs are")

    def true_attributes(self, split: str, rows: Sequence[int] | Tensor, do: Mapping[str, Any]) -> dict[str, Tensor]:
        """All fifteen attributes of faces, had `do` been the case: from the noise they were drawn with, not an estimate."""
        for name in do:
            self.schema[name]
        found = self._population(split, rows).attributes({name: np.asarray(value) for name, value in do.items()})
        return {name: torch.from_numpy(column).float() for name, column in found.items()}

    def true_counterfactual(self, split: str, rows: Sequence[int] | Tensor, a_c: Tensor) -> Tensor:
        """The images of faces, had they the attributes `a_c` (N, schema.size): bytes, (N, 3, image_size, image_size).

        All else about a face stays, and it takes the same way through JPEG, crop and resize as the set: with its own
        attributes, a face's image comes back to the bit.
        """
        population = self._population(split, rows)
        return self._drawn(population, self._columns(population, a_c))

    def redrawn_counterfactual(
        self, split: str, rows: Sequence[int] | Tensor, do: Mapping[str, Any], seed: int
    ) -> Tensor:
        """What the true SCM makes of these images alone, under `do`: what they do not tell is drawn anew; as bytes."""
        for name in do:
            self.schema[name]
        # all at once, so that no face depends on the others that are asked for
        population = self._everyone.redrawn(seed)[self._numbers(split, rows)]
        return self._drawn(population, population.attributes({name: np.asarray(value) for name, value in do.items()}))

    def _drawn(self, population: Population, attributes: Mapping[str, np.ndarray]) -> Tensor:
        """The faces with these attributes, on the way through JPEG, crop and resize that the set took."""
        wanted = _matrix(attributes)
        images = np.empty((len(population), *self.image_shape), dtype=np.uint8)

        def render(block: slice) -> None:
            drawn = (celeba_files.decode(data) for data in _jpegs(population.state[block], wanted[block]))
            images[block] = celeba_files.crop_and_resize(drawn, block.stop - block.start, self.crop, self.image_size)

        for _ in on_all_cores(render, _blocks(len(population))):
            pass
        return torch.from_numpy(images)

    def true_probability(self, split: str, rows: Sequence[int] | Tensor, a_c: Tensor) -> Tensor:
        """p(Attractive = 1) of faces, had they the attributes `a_c`: the built-in bias, without the label's noise."""
        population = self._population(split, rows)
        return torch.from_numpy(attractiveness(self._columns(population, a_c), population.state["eyes"])).float()

    @cached_property
    def _everyone(self) -> Population:
        return draw(self.count, self.seed)

    def _population(self, split: str, rows: Sequence[int] | Tensor) -> Population:
        return self._everyone[self._numbers(split, rows)]

    def _numbers(self, split: str, rows: Sequence[int] | Tensor) -> np.ndarray:
        """Which of everyone these rows are."""
        names = self.names(split)
        chosen = torch.as_tensor(rows, dtype=torch.long).tolist()
        return np.array([int(Path(names[row]).stem) - 1 for row in chosen], dtype=np.int64)

    def _columns(self, population: Population, a_c: Tensor) -> dict[str, np.ndarray]:
        """All fifteen attributes: those of `a_c`, and for those the models do not see, the faces' own."""
        if len(a_c) != len(population):
            raise ValueError(f"{len(population)} rows have {len(a_c)} rows of attributes")
        given = {name: column.cpu().numpy().astype(np.int64) for name, column in self.schema.decode(a_c).items()}
        return population.attributes() | given

    def _write(self, folder: Path) -> None:
        """The set as files: finished, the folder takes its name; interrupted, the drawing goes on with what is missing."""
        partial = folder.with_name(f".{folder.name}.partial")
        images = partial / celeba_files.IMAGES
        everyone = self._everyone
        attributes = everyone.attributes()
        matrix = _matrix(attributes)

        def save(block: slice) -> None:
            paths = [images / _name(row) for row in range(block.start, block.stop)]
            if all(path.exists() for path in paths):
                return
            for path, data in zip(paths, _jpegs(everyone.state[block], matrix[block]), strict=True):
                temporary = path.with_suffix(".tmp")
                temporary.write_bytes(data)
                os.replace(temporary, path)

        try:
            images.mkdir(parents=True, exist_ok=True)
            with progress("drawing faces", self.count) as advance:
                for block, _ in on_all_cores(save, _blocks(self.count)):
                    advance(block.stop - block.start)
            table = attributes | {_TARGET: everyone.label(attributes)}
            (partial / celeba_files.TABLE).write_text(_table(table), encoding="utf-8")
            (partial / celeba_files.PARTITION).write_text(_partition(self.count), encoding="utf-8")
            os.replace(partial, folder)
        except OSError as error:
            reason = f"{error.strerror or error} (cache_dir chooses another folder)"
            raise UserError(f"cannot write {folder}: {reason}") from None


def _blocks(count: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]


def _name(row: int) -> str:
    return f"{row + 1:06d}.jpg"


def _matrix(attributes: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.stack([attributes[name] for name in ATTRIBUTES], axis=1)


def _jpegs(state: np.ndarray, attributes: np.ndarray) -> Iterator[bytes]:
    for image in paint(state, attributes):
        buffer = io.BytesIO()
        # colours at full resolution: what an attribute changes stays within the 8 x 8 pixels it touches
        Image.fromarray(image).save(buffer, "JPEG", quality=95, subsampling=0)
        yield buffer.getvalue()


def _table(columns: Mapping[str, np.ndarray]) -> str:
    """As CelebA has it: the count, the names, then for each image its name and 1 or -1 for each attribute."""
    names = sorted(columns)
    signs = np.stack([np.where(columns[name] == 1, " 1", "-1") for name in names], axis=1)
    rows = (f"{_name(row)} {' '.join(values)}" for row, values in enumerate(signs.tolist()))
    return "\n".join([str(len(signs)), " ".join(names) + " ", *rows]) + "\n"


def _partition(count: int) -> str:
    tenth = count // 10
    return "".join(
        f"{_name(row)} {0 if row < count - 2 * tenth else 1 if row < count - tenth else 2}\n" for row in range(count)
    )
