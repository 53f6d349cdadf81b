"""The pool of digits: true counterfactuals by the tool that sets thickness and intensity, generated ones by morphomnist-csali.

Every digit of the pool is there in `VERSIONS` thicknesses, spread evenly over their distribution and made from the original
digit as the published set is made.  So thickness does not depend on the digit, in the pool as in the causal model.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from benchmarks.coverage_study import networks
from benchmarks.coverage_study.pool import Floats, Pool, Question, do_name, thresholds
from benchmarks.coverage_study.workers import over_blocks
from cfgen.checkpoints import load_module
from cfgen.counterfactual import asked_of, sweep
from cfgen.morpho import measure, set_intensity, set_thickness
from cfgen.progress import progress
from cfgen.runs.model import load_mechanism
from datamodules.sources import digits as sources
from lightning_modules import Classifier, ResidualKept

GENERATOR = "morphomnist-csali"
CLASSIFIERS = ["bright", "thick or a 1", "an 8", "slanted", "random"]
AT_MEDIAN = ["bright", "slanted", "random"]
EIGHT = 8
QUESTIONS: list[dict[str, float]] = [
    *({"thickness": value} for value in (2.0, 2.5, 3.0, 4.0)),
    *({"intensity": value} for value in (120.0, 200.0)),
]
VERSIONS = 10


@dataclass(frozen=True)
class Options:
    """What the pool is made with."""

    size: int = 2000
    seed: int = 12345
    training: int = 6000
    epochs: int = 6
    classifier: str | None = None
    processes: int = 2

    @property
    def source(self) -> str:
        """MNIST's own digits where they are at hand: its test digits are new to the generator.  The embedded ones are not."""
        return "mnist" if os.environ.get("CFGEN_DATA") else "embedded"

    @property
    def recipe(self) -> dict[str, Any]:
        return {
            "study": "digits",
            "source": self.source,
            "size": self.size,
            "versions": VERSIONS,
            "seed": self.seed,
            "training": self.training,
            "epochs": self.epochs,
            "classifier": self.classifier,
            "generator": GENERATOR,
            "questions": QUESTIONS,
        }


class Made(NamedTuple):
    """Digits of given thickness, before (`inked`) and after their intensity is set, with their attributes in real units."""

    inked: np.ndarray
    images: np.ndarray
    columns: dict[str, Floats]
    noise: Floats


def intensity_of(thickness: Floats | float, noise: Floats) -> Floats:
    """The published mechanism: 64 + 191 sigmoid(2 (t - 2.5) + e), e ~ N(0, 0.5^2)."""
    return 64 + 191 / (1 + np.exp(-(2 * (np.asarray(thickness) - 2.5) + noise)))


def evenly(rng: np.random.Generator, rows: int, versions: int) -> Floats:
    """Uniform numbers (rows, versions), each row with one in each part of [0, 1], in random order."""
    parts = np.stack([rng.permutation(versions) for _ in range(rows)])
    return (parts + rng.random((rows, versions))) / versions


def make(digits: sources.Digits, versions: int, seed: int, what: str) -> Made:
    """Every digit in several thicknesses and intensities; the versions of a digit stand one after the other."""
    rng = np.random.default_rng(seed)
    thickness = 0.5 + stats.gamma(10, scale=1 / 5).ppf(evenly(rng, len(digits), versions)).ravel()
    noise = stats.norm(scale=0.5).ppf(evenly(rng, len(digits), versions)).ravel()
    intensity = intensity_of(thickness, noise)
    with progress(f"making digits to {what}", len(thickness)) as advance:
        inked = set_thickness(np.repeat(digits.images, versions, axis=0), thickness, progress=advance)
    images = set_intensity(inked, intensity)
    slant = measure(images, ["slant"])["slant"]
    label = np.repeat(digits.labels, versions).astype(np.float64)
    columns = {"thickness": thickness, "intensity": intensity, "slant": np.nan_to_num(slant), "label": label}
    return Made(inked, images, columns, noise)


def read(options: Options) -> tuple[sources.Digits, sources.Digits]:
    """Digits to train on and digits of the pool."""
    folder = os.environ.get("CFGEN_DATA")
    splits = sources.read(options.source, sources.locate(options.source, Path(folder) if folder else None))
    return splits["train"][: options.training], splits["test"][: options.size]


class Brightness(nn.Module):
    """The mean of all pixels, (N,)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(1, 2, 3))


def audited_networks(options: Options, digits: sources.Digits) -> networks.Together:
    reader: nn.Module | None = load_module(Path(options.classifier), Classifier) if options.classifier else None
    made = make(digits, 1, options.seed + 1, "train on")
    images, columns = as_tensor(made.images), {name: torch.from_numpy(c).float() for name, c in made.columns.items()}
    told = ((columns["thickness"] > 2.5) | (columns["label"] == 1)).float()[:, None]
    thick = networks.train(images, told, options.epochs, options.seed, "thick digits and ones")
    slant = (columns["slant"] / columns["slant"].std())[:, None]
    slanted = networks.train(images, slant, options.epochs, options.seed, "the slant", networks.squared_loss)
    if reader is None:
        labels = nn.functional.one_hot(columns["label"].long(), 10).float()
        reader = networks.train(images, labels, options.epochs, options.seed, "digits apart")
    order = [Brightness(), networks.Column(thick, 0), networks.Logit(reader, EIGHT), networks.Column(slanted, 0)]
    return networks.Together([*order, networks.untrained(1, options.seed)]).eval()


def as_tensor(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images)[:, None]


def pool_of(options: Options) -> Pool:
    """Asks all classifiers about all images of the pool and about their true and generated counterfactuals."""
    training, tested = read(options)
    audited = audited_networks(options, training)
    made = make(tested, VERSIONS, options.seed, "audit")
    generator = load_mechanism(GENERATOR)
    arguments = (options, audited, made, tested.images)
    found = over_blocks(len(made.images), 50 * VERSIONS, Worker, arguments, options.processes, "asking about digits")
    limit = thresholds(found["own"], CLASSIFIERS, AT_MEDIAN)[:, None]
    own = (found["own"] > limit).astype(np.uint8)
    questions = []
    for do in QUESTIONS:
        name = do_name(do)
        parts = {part: (found[f"{part}/{name}"] > limit).astype(np.uint8) for part in ("with_it", "drawn")}
        values = np.stack([made.columns[key] for key in do])
        questions.append(Question(name, do, values, np.zeros(len(own[0])), without=own, **parts))
    edges = [list(edge) for edge in generator.scm.graph.edges]
    return Pool(options.recipe, generator.scm.schema.spec, edges, CLASSIFIERS, made.columns, questions)


class Worker:
    """Asks about a block of the pool; one lives in each process."""

    def __init__(self, options: Options, audited: networks.Together, made: Made, originals: np.ndarray) -> None:
        torch.set_num_threads(1)
        self.options, self.audited, self.made, self.originals = options, audited, made, originals
        self.generator = ResidualKept(load_mechanism(GENERATOR)).eval()

    def __call__(self, block: slice) -> dict[str, Floats]:
        images = as_tensor(self.made.images[block])
        columns = {name: torch.from_numpy(column[block]).float() for name, column in self.made.columns.items()}
        found = {"own": networks.scores(self.audited, images)}
        asked = {do_name(do): asked_of(self.generator, columns, do, self.options.seed) for do in QUESTIONS}
        for do in QUESTIONS:
            found[f"with_it/{do_name(do)}"] = networks.scores(self.audited, as_tensor(self.true(block, do)))
        drawn: dict[str, list[Tensor]] = {name: [] for name in asked}
        for batch in sweep(self.generator, images, columns, asked, seed=self.options.seed + block.start):
            for name in asked:
                drawn[name].append(networks.scores(self.audited, batch.x_c(name)))
        found |= {f"drawn/{name}": torch.cat(parts) for name, parts in drawn.items()}
        return {name: scores.numpy().T for name, scores in found.items()}

    def true(self, block: slice, do: dict[str, float]) -> np.ndarray:
        """The tool's counterfactuals: intensity follows thickness with each image's own noise, nothing follows intensity."""
        if "intensity" in do:
            return set_intensity(self.made.inked[block], do["intensity"])
        digits = self.originals[block.start // VERSIONS : block.stop // VERSIONS]
        inked = np.repeat(set_thickness(digits, do["thickness"]), VERSIONS, axis=0)
        return set_intensity(inked, intensity_of(do["thickness"], self.made.noise[block]))
