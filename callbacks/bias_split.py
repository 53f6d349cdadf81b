"""The images of a split, the pictures that mechanisms draw of them, and the estimate of a classifier's bias from both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.counterfactual import as_unit_float, asked_of, sweep
from cfgen.effects import CONFIDENCE, Array, Effect, Sample, SampleAnswers, estimate_effect
from cfgen.image_ids import image_ids
from cfgen.interventions import Mask, Set
from cfgen.metrics.counterfactual_bias import wilson
from lightning_modules import ImageMechanismModule

__all__ = ["BiasEstimate", "BiasSplit", "Pictures"]

AT_ONCE = 100  # images


class Pictures(NamedTuple):
    """What one mechanism draws of some images of a split; mechanism and images (`rows`) are given by their numbers.

    `x_r` are the reconstructions.  By intervention, `target` says which images change, and `x_c` are their counterfactuals.
    """

    model: int
    rows: Tensor
    x_r: Tensor
    target: dict[str, Tensor]
    x_c: dict[str, Tensor]


class BiasEstimate(NamedTuple):
    """A classifier on a split of `n_images`: its accuracy with Wilson's interval, and the effects of interventions.

    `effects` is by intervention; each of several classes has its own under `NAME/CLASS`, by its number.
    """

    n_images: int
    accuracy: tuple[float, float, float]
    effects: dict[str, Effect]


class BiasSplit:
    """A split as a `Sample`.  Every mechanism draws the first `images` images under every intervention.

    `estimate_effect` estimates the effects, so the bias is the one that an audit of the same images with the same `seed` reports.
    """

    def __init__(
        self,
        data: Any,
        split: str,
        mechanisms: Sequence[ImageMechanismModule],
        interventions: Mapping[str, Mapping[str, Any]],
        images: int,
        seed: int,
    ) -> None:
        self.x, self.y = data.images(split), data.targets(split)
        self.mechanisms, self.seed = mechanisms, seed
        self.n_drawn = min(images, len(self.x))
        scm = mechanisms[0].scm
        self.sample = Sample(scm.schema, scm.graph, data.columns(split), ids=image_ids(data, split), seed=seed)
        sets = {name: Set.from_values(scm.schema, do) for name, do in interventions.items()}
        # without a counterfactual of an image in the target there is no model-only estimate
        self.interventions = {name: one for name, one in sets.items() if self.target(one)[: self.n_drawn].any()}
        self.do = {name: interventions[name] for name in self.interventions}

    def target(self, intervention: Set) -> Mask:
        """The images that the estimate is about."""
        return self.sample.comparison(intervention).real.exposure.target

    def pictures(self, share: tuple[int, int]) -> Iterator[Pictures]:
        """The pictures of this process's images: every n-th."""
        columns = {name: column[: self.n_drawn] for name, column in self.sample.columns.items()}
        for model, mechanism in enumerate(self.mechanisms):
            asked = {
                name: asked_of(mechanism, columns, do, self.seed, changed_only=True) for name, do in self.do.items()
            }
            images = sweep(
                mechanism, self.x[: self.n_drawn], columns, asked, seed=self.seed, batch_size=AT_ONCE, share=share
            )
            for batch in images:
                x_c = {name: batch.x_c(name).half() for name in asked}
                yield Pictures(model, batch.rows, batch.x_r.half(), {name: batch.of(name) for name in asked}, x_c)

    def estimate(self, trainer: pl.Trainer, model: Any, pictures: Iterable[Pictures]) -> BiasEstimate:
        """From the answers in all processes; the same in each of them."""
        classes = model.classes if model.classes > 2 else 1
        real = torch.zeros(len(self.x), classes, device=model.device)
        # by mechanism: answers to reconstructions, and to counterfactuals by intervention
        drawn = real.new_zeros(len(self.mechanisms), 1 + len(self.do), self.n_drawn, classes)

        def answer(x: Tensor) -> Tensor:
            predicted = model.predict(x.to(model.dtype))
            return predicted[:, None].float() if classes == 1 else nn.functional.one_hot(predicted, classes).float()

        mine = torch.arange(len(self.x))[trainer.global_rank :: trainer.world_size]
        for rows in mine.split(AT_ONCE) if len(mine) else ():
            real[rows] = answer(as_unit_float(self.x[rows].to(model.device)))
        for number, rows, x_r, target, x_c in pictures:
            drawn[number, 0, rows] = answer(x_r)
            for k, name in enumerate(self.do, start=1):
                if target[name].any():
                    drawn[number, k, rows[target[name]]] = answer(x_c[name])
        # each process has filled its rows, and whole numbers add up exactly
        tables = [trainer.strategy.reduce(table, reduce_op="sum") for table in (real, drawn)]
        real_answers, drawn_answers = (torch.as_tensor(table).cpu().double().numpy() for table in tables)
        return self.bias(real_answers, drawn_answers)

    def bias(self, real: Array, drawn: Array) -> BiasEstimate:
        """From answers of 0 and 1: `real` is (images, classes), and `drawn` (mechanisms, 1 + interventions, images, classes)."""
        n, classes = real.shape
        pictures = np.full((*drawn.shape[:2], n, classes), np.nan)
        pictures[:, :, : self.n_drawn] = drawn
        effects = {}
        for k, (name, intervention) in enumerate(self.interventions.items(), start=1):
            counterfactual = pictures[:, k]
            counterfactual[:, ~intervention.target(self.sample.columns)] = np.nan
            for c in range(classes):
                answers = SampleAnswers(real[:, c], pictures[:, 0, :, c], counterfactual[:, :, c])
                effect = estimate_effect(self.sample, intervention, answers)
                assert effect is not None, "the intervention changes some of the images"
                effects[name if classes == 1 else f"{name}/{c}"] = effect
        predicted = real[:, 0] if classes == 1 else real.argmax(axis=1)
        right = int((predicted == self.y.numpy()).sum())
        return BiasEstimate(n, (right / n, *wilson(right, n, CONFIDENCE)), effects)
