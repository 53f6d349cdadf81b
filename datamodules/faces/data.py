"""Synthetic faces in CelebA's layout: drawn from a known SCM, so that true counterfactual images are known too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cfgen.errors import UserError
from cfgen.io.pictures import decoded_jpeg
from datamodules.celeba import CelebA
from datamodules.faces.files import DrawnFiles, attribute_matrix, blocks, drawn_folder, jpegs
from datamodules.faces.scm import ATTRIBUTES, EDGES, TARGET, Population, attractiveness, draw
from datamodules.sources import cache
from datamodules.sources.celeba_files import read_table
from datamodules.sources.framing import crop_and_resize
from datamodules.sources.packing import on_all_cores
from datamodules.sources.picture_files import PictureTable

__all__ = ["Faces"]

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

    known: ClassVar[tuple[str, ...]] = tuple(sorted((*ATTRIBUTES, TARGET)))
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
            target=TARGET,
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
        return drawn_folder(
            cache.location(self.cache_dir, f"faces-{self.count}", recipe).with_suffix(""), self._everyone
        )

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
        wanted = attribute_matrix(attributes)
        images = np.empty((len(population), *self.image_shape), dtype=np.uint8)

        def render(block: slice) -> None:
            drawn = (decoded_jpeg(data, "a face") for data in jpegs(population.state[block], wanted[block]))
            images[block] = crop_and_resize(drawn, block.stop - block.start, self.crop, self.image_size)

        for _ in on_all_cores(render, blocks(len(population))):
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

    def _files(self) -> tuple[DrawnFiles, PictureTable]:
        folder = self.folder()
        images = DrawnFiles(folder, self._everyone)
        return images, read_table(folder, images, [*self._schema.names, self.target])
