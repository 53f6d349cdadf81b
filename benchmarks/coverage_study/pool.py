"""A pool of images whose answers are known with and without what an intervention asks for: the population of the study.

A resample draws images from the pool and decides anew, with the probability that the causal model gives, which of them have the
attribute.  So the assumption behind the estimates (what else is in an image does not depend on the attribute, given its causes)
holds in the pool exactly and not only up to the chance with which a pool of a few thousand was drawn, and the true effect of the
population that is sampled is a plain mean over the pool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfgen.attributes import Schema
from cfgen.scm.graph import CausalGraph

Floats = NDArray[np.float64]
Answers = NDArray[np.uint8]


@dataclass(frozen=True)
class Question:
    """An intervention, asked of all images of a pool.

    Every image has two versions: `without` what is asked for, with the values `values` (k, N) of the attributes intervened on,
    and `with_it`.  They and the generator's counterfactuals of the version without (`drawn`) have answers of each classifier,
    (C, N).
    `probability` is that an image drawn from the population has it.
    """

    name: str
    do: dict[str, Any]
    values: Floats
    probability: Floats
    without: Answers
    with_it: Answers
    drawn: Answers

    @property
    def truth(self) -> Floats:
        """Eq. 5 of each classifier over the images that the intervention changes."""
        weights = 1 - self.probability
        gap = self.with_it.astype(np.float64) - self.without
        return gap @ weights / weights.sum()

    @property
    def generator_bias(self) -> Floats:
        """What the generator would say of the whole population."""
        weights = 1 - self.probability
        return (self.drawn.astype(np.float64) - self.without) @ weights / weights.sum()


@dataclass(frozen=True)
class Pool:
    """The images' attributes, their graph, and the questions; `recipe` is what all of it was made with."""

    recipe: dict[str, Any]
    attributes: dict[str, Any]
    edges: list[list[str]]
    classifiers: list[str]
    columns: dict[str, Floats]
    questions: list[Question]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def schema(self) -> Schema:
        return Schema(self.attributes)

    @property
    def graph(self) -> CausalGraph:
        return CausalGraph(self.attributes, self.edges)

    def save(self, path: Path) -> None:
        card = {
            "recipe": self.recipe,
            "attributes": self.attributes,
            "edges": self.edges,
            "classifiers": self.classifiers,
            "questions": [{"name": question.name, "do": question.do} for question in self.questions],
        }
        arrays: dict[str, Any] = {"card": json.dumps(card)}
        arrays |= {f"column/{name}": column for name, column in self.columns.items()}
        for question in self.questions:
            for part in ("values", "probability", "without", "with_it", "drawn"):
                arrays[f"{part}/{question.name}"] = getattr(question, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **arrays)


def load(path: Path) -> Pool:
    with np.load(path) as file:
        card = json.loads(str(file["card"]))
        parts = ("values", "probability", "without", "with_it", "drawn")
        questions = [
            Question(**told, **{p: file[f"{p}/{told['name']}"] for p in parts}) for told in card.pop("questions")
        ]
        prefix = "column/"
        columns = {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}
    return Pool(**card, columns=columns, questions=questions)


def load_if_made_so(path: Path, recipe: Mapping[str, Any]) -> Pool | None:
    """The pool of an earlier run, unless it was made with another recipe."""
    if not path.is_file():
        return None
    pool = load(path)
    return pool if pool.recipe == json.loads(json.dumps(recipe)) else None


def do_name(do: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in do.items())


def thresholds(scores: Floats, names: Sequence[str], at_median: Sequence[str]) -> Floats:
    """Where a score becomes a yes: at 0 (a logit), or at the median of the pool for networks without a threshold of their own."""
    return np.array([np.median(row) if name in at_median else 0.0 for name, row in zip(names, scores, strict=True)])
