"""The pool of drawn faces: true counterfactuals by the painter, generated ones by faces-modulated with its residual kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.coverage_study import networks
from benchmarks.coverage_study.pool import Floats, Pool, Question, do_name, thresholds
from benchmarks.coverage_study.workers import over_blocks
from cfgen.checkpoints import load_module
from cfgen.counterfactual import asked_of, sweep
from cfgen.runs.model import load_mechanism
from datamodules import Faces
from datamodules.faces.scm import ATTRIBUTES, EDGES, PROBABILITIES, draw
from lightning_modules import Classifier, Predictor, ResidualKept

GENERATOR = "faces-modulated"
CLASSIFIERS = ["trained", "hair-only", "glasses-only", "unbiased", "random"]
AT_MEDIAN = ["unbiased", "random"]
HAIR, GLASSES = "Black_Hair", "Eyeglasses"
QUESTIONS: list[dict[str, int]] = [
    *({name: 1} for name in ATTRIBUTES),
    {"Young": 0},
    *({name: 1, "Pale_Skin": 1} for name in ("Black_Hair", "Blond_Hair", "Brown_Hair")),
]
SPLIT = "train"  # eight tenths of a set; nothing was trained on it, since no model has seen its seed


@dataclass(frozen=True)
class Options:
    """What the pool is made with."""

    size: int = 6000
    seed: int = 12345
    training: int = 20_000
    epochs: int = 6
    classifier: str | None = None
    predictor: str | None = None
    processes: int = 2

    @property
    def recipe(self) -> dict[str, Any]:
        return {
            "study": "faces",
            "size": self.size,
            "seed": self.seed,
            "training": self.training,
            "epochs": self.epochs,
            "classifier": self.classifier,
            "predictor": self.predictor,
            "generator": GENERATOR,
            "questions": QUESTIONS,
        }


def data_of(options: Options) -> Faces:
    data = Faces(count=max(10, -(-options.size * 10 // 8)), seed=options.seed)
    data.setup()
    return data


def audited_networks(options: Options) -> networks.Together:
    """The five classifiers; those that no finished run is given for are trained on other faces than the pool's."""
    of: dict[str, nn.Module] = {}
    if options.classifier:
        of["attractive"] = load_module(Path(options.classifier), Classifier)
    if options.predictor:
        reader = load_module(Path(options.predictor), Predictor)
        of |= {name: networks.Column(reader, reader.schema.slices[name].start) for name in (HAIR, GLASSES)}
    faces = Faces(count=options.training)
    faces.setup()
    images, columns = faces.images("train"), faces.columns("train")
    labels = {"attractive": faces.targets("train").float(), HAIR: columns[HAIR], GLASSES: columns[GLASSES]}
    if wanted := [name for name in labels if name not in of]:
        targets = torch.stack([labels[name] for name in wanted], dim=1)
        small = networks.train(images, targets, options.epochs, options.seed, ", ".join(wanted))
        of |= {name: networks.Column(small, k) for k, name in enumerate(wanted)}
    eyes = torch.from_numpy(draw(options.training, faces.seed).state["eyes"][: len(images)]).float()[:, None]
    told = networks.train(images, eyes, options.epochs, options.seed, "the size of the eyes", networks.squared_loss)
    order = [of["attractive"], of[HAIR], of[GLASSES], networks.Column(told, 0)]
    return networks.Together([*order, networks.untrained(3, options.seed)]).eval()


def pool_of(options: Options) -> Pool:
    """Asks all classifiers about all images of the pool and about their true and generated counterfactuals."""
    audited = audited_networks(options)
    data = data_of(options)
    own = {name: column[: options.size].double().numpy() for name, column in data.columns(SPLIT).items()}
    found = over_blocks(options.size, 100, Worker, (options, audited), options.processes, "asking about faces")
    limit = thresholds(found["own"], CLASSIFIERS, AT_MEDIAN)[:, None]
    questions = []
    for do in QUESTIONS:
        name = do_name(do)
        parts = {part: (found[f"{part}/{name}"] > limit).astype(np.uint8) for part in ("without", "with_it", "drawn")}
        questions.append(Question(name, do, other_values(do, own, options.seed), probability(do, own), **parts))
    attributes = {name: {"kind": "binary"} for name in ATTRIBUTES}
    return Pool(options.recipe, attributes, EDGES, CLASSIFIERS, own, questions)


def chance(name: str, columns: Mapping[str, Floats], value: float) -> Floats:
    """P(attribute = value | its causes)."""
    p = PROBABILITIES[name]
    one = np.where(columns["Young"] == 1, p[1], p[0]) if isinstance(p, tuple) else np.full(len(columns[name]), p)
    return one if value == 1 else 1 - one


def probability(do: Mapping[str, int], columns: Mapping[str, Floats]) -> Floats:
    return np.prod([chance(name, columns, value) for name, value in do.items()], axis=0)


def other_values(do: Mapping[str, int], columns: Mapping[str, Floats], seed: int) -> Floats:
    """The values of the attributes (k, N) in the version without what is asked for: an image's own, or for those that have all of
    it already, drawn from what the others have."""
    values = np.stack([columns[name] for name in do])
    wanted = np.array([[value] for value in do.values()], dtype=np.float64)
    rng = np.random.default_rng([seed, *map(ATTRIBUTES.index, do)])
    while (has := (values == wanted).all(axis=0)).any():
        for row, name in enumerate(do):
            values[row, has] = rng.random(has.sum()) < chance(name, columns, 1)[has]
    return values


class Worker:
    """Asks about a block of the pool; one lives in each process."""

    def __init__(self, options: Options, audited: networks.Together) -> None:
        torch.set_num_threads(1)
        self.options, self.audited = options, audited
        self.data = data_of(options)
        self.generator = ResidualKept(load_mechanism(GENERATOR)).eval()
        self.columns = {name: column[: options.size] for name, column in self.data.columns(SPLIT).items()}
        own = {name: column.double().numpy() for name, column in self.columns.items()}
        self.other = {do_name(do): other_values(do, own, options.seed) for do in QUESTIONS}

    def __call__(self, block: slice) -> dict[str, Floats]:
        return {name: scores.numpy().T for name, scores in self.answers(torch.arange(block.start, block.stop))}

    def scores(self, images: Tensor) -> Tensor:
        return networks.scores(self.audited, images) if len(images) else torch.empty(0, len(CLASSIFIERS))

    def answers(self, rows: Tensor) -> Iterator[tuple[str, Tensor]]:
        x, columns = self.data.images(SPLIT)[rows], {name: column[rows] for name, column in self.columns.items()}
        own = self.scores(x)
        yield "own", own
        drawn = self.generated(x, columns, QUESTIONS, rows)
        for do in QUESTIONS:
            name = do_name(do)
            has = torch.stack([columns[key] == value for key, value in do.items()]).all(dim=0)
            with_it, without, of_other = own.clone(), own.clone(), drawn[name]
            with_it[~has] = self.scores(self.true(rows[~has], do)[0])
            if has.any():
                values = torch.from_numpy(self.other[name][:, rows[has].numpy()])
                images, attributes = self.true(rows[has], dict(zip(do, values, strict=True)))
                without[has] = self.scores(images)
                of_other[has] = self.generated(images, attributes, [do], rows[has])[name]
            yield from ((f"with_it/{name}", with_it), (f"without/{name}", without), (f"drawn/{name}", of_other))

    def true(self, rows: Tensor, do: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The images of faces under an intervention, and all their attributes."""
        attributes = self.data.true_attributes(SPLIT, rows, do)
        return self.data.true_counterfactual(SPLIT, rows, self.data.schema.encode(attributes)), attributes

    def generated(
        self, x: Tensor, columns: Mapping[str, Tensor], questions: list[dict[str, int]], rows: Tensor
    ) -> dict[str, Tensor]:
        """Scores of the generator's counterfactuals, NaN where an image has what is asked for already."""
        seed = self.options.seed + int(rows[0])
        asked = {do_name(do): asked_of(self.generator, columns, do, seed, changed_only=True) for do in questions}
        found = {name: torch.full((len(x), len(CLASSIFIERS)), torch.nan) for name in asked}
        for batch in sweep(self.generator, x, columns, asked, seed=seed):
            for name, question in asked.items():
                of = question.of[batch.rows]
                found[name][batch.rows[of]] = (
                    self.scores(batch.decode(batch.a_c(name), of)) if of.any() else found[name][:0]
                )
        return found
