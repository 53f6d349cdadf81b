"""Resamples of a pool, and what each way to estimate an effect says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.coverage_study import pool as pools
from benchmarks.coverage_study.pool import Floats, Pool, Question
from benchmarks.coverage_study.workers import pool_of_processes, work
from cfgen.effects import Estimate, RealImages, adjustment_for, by_pairs, combine, features
from cfgen.interventions import Set
from cfgen.metrics import CounterfactualBias
from cfgen.progress import progress

PAIRS = (50, 100, 200)
METHODS = ["generator", "real", "combined", *(f"pairs {count}" for count in PAIRS)]
VALUE, LOW, HIGH = range(3)
CHUNK = 20


class Task(NamedTuple):
    """Some resamples of one question at one size."""

    question: int
    n: int
    start: int
    stop: int


@dataclass(frozen=True)
class Draw:
    """A resample: what an audit would see (attributes, answers, the generator's answers), and the true counterfactual answers."""

    columns: dict[str, torch.Tensor]
    answers: Floats
    drawn: Floats
    true: Floats


def draw(pool: Pool, question: Question, n: int, rng: np.random.Generator) -> Draw:
    """n images with replacement; each gets what the question asks for with the probability of the causal model."""
    rows = rng.integers(len(pool), size=n)
    has = rng.random(n) < question.probability[rows]
    columns = {name: column[rows] for name, column in pool.columns.items()}
    for values, (name, wanted) in zip(question.values, question.do.items(), strict=True):
        columns[name] = np.where(has, wanted, values[rows])
    with_it = question.with_it[:, rows].astype(np.float64)
    return Draw(
        {name: torch.from_numpy(column) for name, column in columns.items()},
        np.where(has, with_it, question.without[:, rows]),
        np.where(has, np.nan, question.drawn[:, rows]),
        np.where(has, np.nan, with_it),
    )


class Worker:
    """Estimates on resamples of a saved pool; one lives in each process."""

    def __init__(self, path: Path, seed: int) -> None:
        torch.set_num_threads(1)
        self.pool, self.seed = pools.load(path), seed
        self.schema, self.graph = self.pool.schema, self.pool.graph
        self.schema.fit_ranges({name: torch.from_numpy(column) for name, column in self.pool.columns.items()})

    def __call__(self, task: Task) -> tuple[Floats, Floats]:
        """Value and ends of the interval, (resamples, classifiers, methods, 3), NaN where refused; and effective sample sizes."""
        results = [self.resample(task, number) for number in range(task.start, task.stop)]
        return np.stack([found for found, _ in results]), np.array([effective for _, effective in results])

    def resample(self, task: Task, number: int) -> tuple[Floats, float]:
        question = self.pool.questions[task.question]
        rng = np.random.default_rng([self.seed, task.question, task.n, number])
        drawn = draw(self.pool, question, task.n, rng)
        exposure = Set.from_values(self.schema, question.do).exposure(drawn.columns)
        names = adjustment_for(self.graph, question.do).names
        real = RealImages(exposure, features(self.schema, drawn.columns, names), seed=number)
        order = rng.permutation(np.flatnonzero(exposure.target))
        found = np.full((len(self.pool.classifiers), len(METHODS), 3), np.nan)
        for k in range(len(self.pool.classifiers)):
            answers, generated, true = drawn.answers[k], drawn.drawn[k], drawn.true[k]
            found[k, 0] = todays(answers[exposure.target], generated[exposure.target])
            combined = None
            if real.enough:
                combined = real.combined(answers, generated)
                found[k, 1], found[k, 2] = row(real.estimate(answers)), row(combined)
            for place, count in enumerate(PAIRS, start=3):
                if count <= len(order):
                    known = np.full(task.n, np.nan)
                    known[order[:count]] = true[order[:count]]
                    pairs = by_pairs(answers, generated, known, exposure.target)
                    found[k, place] = row(pairs if combined is None else combine([combined, pairs]))
        return found, real.effective


def row(estimate: Estimate) -> tuple[float, float, float]:
    return (estimate.value, *estimate.interval)


def todays(before: Floats, after: Floats) -> tuple[float, float, float]:
    """The interval of an audit without real images: the bootstrap over flips (`CounterfactualBias`)."""
    counts = np.bincount((2 * before + after).astype(np.int64), minlength=4)
    return ((counts[1] - counts[2]) / len(before), *CounterfactualBias().bias_interval(counts))


def resample(path: Path, sizes: list[int], resamples: int, seed: int, processes: int) -> tuple[Floats, Floats]:
    """All of (questions, sizes, resamples, classifiers, methods, 3), and effective sizes (questions, sizes, resamples)."""
    pool = pools.load(path)
    found = np.full((len(pool.questions), len(sizes), resamples, len(pool.classifiers), len(METHODS), 3), np.nan)
    effective = np.full(found.shape[:3], np.nan)
    tasks = [
        Task(question, n, start, min(start + CHUNK, resamples))
        for n in sorted(sizes, reverse=True)
        for question in range(len(pool.questions))
        for start in range(0, resamples, CHUNK)
    ]
    total = len(pool.questions) * len(sizes) * resamples
    with (
        progress("resampling", total, unit="resamples") as advance,
        pool_of_processes(processes, Worker, (path, seed)) as executor,
    ):
        for task, (part, size) in zip(tasks, executor.map(work, tasks), strict=True):
            place = (task.question, sizes.index(task.n), slice(task.start, task.stop))
            found[place], effective[place] = part, size
            advance(task.stop - task.start)
    return found, effective
