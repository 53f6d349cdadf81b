"""The images of a split that a classifier is asked about, and what its answers say of its bias under interventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.attributes import Columns
from cfgen.counterfactual import as_unit_float, asked_of, sweep
from cfgen.effects import CONFIDENCE, Array, Estimate, Mask, RealImages, by_generator
from cfgen.metrics.counterfactual_bias import wilson
from lightning_modules import ImageMechanismModule
from lightning_modules.weighted_gap import comparable_images

__all__ = ["BiasSplit", "Found", "Pairs", "Question"]

AT_ONCE = 100  # images


class Pairs(NamedTuple):
    """Images of a split by their numbers, as a mechanism draws them; by intervention, which of them it changes and how."""

    rows: Tensor
    x_r: Tensor
    changed: dict[str, Tensor]
    x_c: dict[str, Tensor]


@dataclass(frozen=True)
class Question:
    """One intervention on the images of a split; its folds and weights are fitted once, whatever classifier is asked.

    `lacking` says why real images cannot answer, where they cannot.
    """

    real: RealImages
    lacking: str

    @classmethod
    def of(cls, mechanism: ImageMechanismModule, columns: Columns, do: Mapping[str, Any]) -> Question:
        return cls(*comparable_images(mechanism.scm.schema, mechanism.scm.graph, columns, do))

    @property
    def changed(self) -> Mask:
        return self.real.exposure.changed

    def answered(self, answers: Array, base: Array, generated: Array) -> tuple[Estimate, Estimate]:
        """The combined estimate and the generator's own (Eq. 4), which is also the first where real images cannot answer.

        `answers` are those for all images of the split; for the first of them there are also answers for what a generator
        made of them: `base`, and `generated`, which are NaN where nothing was asked.
        """
        count = len(base)
        own = by_generator(base, generated, self.changed[:count])
        if self.lacking:
            return own, own
        unknown = np.full(len(answers) - count, np.nan)
        return self.real.combined(answers, np.concatenate([generated, unknown])), own


class Found(NamedTuple):
    """What a classifier is worth on a split: its accuracy with Wilson's interval; by intervention, both estimates of its bias."""

    images: int
    accuracy: tuple[float, float, float]
    bias: dict[str, Estimate]
    by_generator: dict[str, Estimate]


class BiasSplit:
    """A split, of which the first `images` images are also drawn by every mechanism under every intervention."""

    def __init__(
        self,
        data: Any,
        split: str,
        mechanisms: Sequence[ImageMechanismModule],
        interventions: Mapping[str, Mapping[str, Any]],
        images: int,
        seed: int,
    ) -> None:
        self.x, self.y, self.columns = data.images(split), data.targets(split), data.columns(split)
        self.mechanisms, self.seed = mechanisms, seed
        self.drawn = min(images, len(self.x))
        questions = {name: Question.of(mechanisms[0], self.columns, do) for name, do in interventions.items()}
        # nothing can be said of what changes none of the images drawn
        self.questions = {name: one for name, one in questions.items() if one.changed[: self.drawn].any()}
        self.interventions = {name: interventions[name] for name in self.questions}

    def pairs(self, share: tuple[int, int]) -> Iterator[Pairs]:
        """This process's share: every n-th image."""
        columns = {name: column[: self.drawn] for name, column in self.columns.items()}
        for mechanism in self.mechanisms:
            asked = {
                name: asked_of(mechanism, columns, do, self.seed, changed_only=True)
                for name, do in self.interventions.items()
            }
            images = sweep(
                mechanism, self.x[: self.drawn], columns, asked, seed=self.seed, batch_size=AT_ONCE, share=share
            )
            for batch in images:
                changed = {name: batch.of(name) for name in asked}
                yield Pairs(batch.rows, batch.x_r.half(), changed, {name: batch.x_c(name).half() for name in asked})

    def ask(self, trainer: pl.Trainer, model: Any, pairs: Iterable[Pairs]) -> Found:
        """What the answers of all processes say, the same on each of them."""
        # one row for all images themselves, one for base images and one for each intervention; of several classes, one for each
        count = model.classes if model.classes > 2 else 1
        answers = torch.zeros(2 + len(self.interventions), len(self.x), count, device=model.device)

        def answer(x: Tensor) -> Tensor:
            predicted = model.predict(x.to(model.dtype))
            return predicted[:, None].float() if count == 1 else nn.functional.one_hot(predicted, count).float()

        mine = torch.arange(len(self.x))[trainer.global_rank :: trainer.world_size]
        for rows in mine.split(AT_ONCE) if len(mine) else ():
            answers[0, rows] = answer(as_unit_float(self.x[rows].to(model.device)))
        for rows, x_r, changed, x_c in pairs:
            answers[1, rows] += answer(x_r)
            for k, name in enumerate(self.interventions):
                if changed[name].any():
                    answers[2 + k, rows[changed[name]]] += answer(x_c[name])
        # each process has filled its rows, and whole numbers add up exactly
        table = trainer.strategy.reduce(answers, reduce_op="sum")
        assert isinstance(table, Tensor)
        return self.found(table.cpu().double().numpy())

    def found(self, table: Array) -> Found:
        """From answers (rows, images, classes); the bias of each of several classes is `NAME/CLASS`, by its number."""
        answers, (base, *made) = table[0], table[1:, : self.drawn] / len(self.mechanisms)
        count = answers.shape[1]
        estimates = {}
        for (name, question), generated in zip(self.questions.items(), made, strict=True):
            made_of = question.changed[: self.drawn]
            for k in range(count):
                drawn = np.where(made_of, generated[:, k], np.nan)
                key = name if count == 1 else f"{name}/{k}"
                estimates[key] = question.answered(answers[:, k], base[:, k], drawn)
        predicted = answers[:, 0] if count == 1 else answers.argmax(axis=1)
        right, n = int((predicted == self.y.numpy()).sum()), len(answers)
        return Found(
            n,
            (right / n, *wilson(right, n, CONFIDENCE)),
            {name: combined for name, (combined, _) in estimates.items()},
            {name: own for name, (_, own) in estimates.items()},
        )
