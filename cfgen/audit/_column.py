"""What follows from the answers of one classifier, or about one of its classes: Table 3, effects, strengths and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from cfgen.audit._findings import BiasRow, ClassifierResult
from cfgen.audit._subgroups import subgroup_rows
from cfgen.audit._transformations import AFFINE
from cfgen.audit.answers import (
    COUNTERFACTUAL,
    DISTANCE_TO_TRUTH,
    MSE,
    PAIRS,
    REAL,
    RECONSTRUCTION,
    TRANSFORMED,
    TRUE,
    Answers,
    Picture,
    Readings,
)
from cfgen.audit.questions import AuditedClassifier, Group, Questions
from cfgen.audit.strength import measured_strength
from cfgen.audit.verdict import Verdict, judge
from cfgen.effects import CONFIDENCE, Array, Effect, OutsidePairAnswers, Sample, SampleAnswers, estimate_effect
from cfgen.effects.strength import Strength
from cfgen.interventions import Intervention, Mask
from cfgen.metrics import CounterfactualBias
from cfgen.metrics.importance import importances, local_scores

RESAMPLES = 2000  # of the bootstrap interval of the model-only bias
Raw = NDArray[np.float32]


class Finding(NamedTuple):
    effect: Effect
    strength: Strength | None
    verdict: Verdict


class ClassifierColumn:
    """The answers of one classifier, or about one of its classes, and what follows from them."""

    def __init__(
        self,
        questions: Questions,
        answers: Answers,
        readings: Readings,
        classifier: AuditedClassifier,
        class_name: str,
        samples: Mapping[str, Sample],
    ) -> None:
        self.questions, self.table, self.readings = questions, answers, readings
        self.classifier, self.class_name, self.samples = classifier, class_name, samples
        self.outcome = classifier.outcome
        self.column = self.outcome.columns.index(class_name)
        self.base = questions.base_picture(questions.models[0])
        self.spread = self.outcome.spread(self.says(Picture(REAL)))

    def raw(self, picture: Picture) -> Raw:
        """p of yes or of the class, or the predicted value."""
        return self.table[self.classifier.name, picture][:, self.column]

    def says(self, picture: Picture) -> Array:
        """The answers that means are taken of: 1 for yes and 0 for no, or values; NaN without a picture."""
        return self.outcome.answers(self.table[self.classifier.name, picture], self.class_name)

    def says_if_known(self, picture: Picture) -> Array | None:
        return self.says(picture) if (self.classifier.name, picture) in self.table else None

    def result(self, several: bool) -> ClassifierResult:
        questions, name = self.questions, self.classifier.name
        lines = [
            (toggle, toggle.raises(questions.columns).numpy(), self.raw(questions.compared(toggle)[1]))
            for toggle in questions.toggles
        ]
        base, explained = self.raw(self.base), questions.explained.numpy()
        ranked = [(toggle, raises, np.where(explained, after, np.nan)) for toggle, raises, after in lines]
        cells = {
            (group.name, one.name): (found.effect, found.verdict)
            for group in questions.subgroups
            for one in questions.interventions
            if (found := self.finding(group, one)) is not None
        }
        return ClassifierResult(
            name=f"{name}, {self.class_name}" if several and self.class_name else self.class_name or name,
            classifier=name,
            class_name=self.class_name,
            label=self.class_name or self.classifier.label,
            outcome=self.outcome,
            bias=[row for cohort in questions.cohorts for row in self.cohort_rows(cohort)],
            subgroups=subgroup_rows(questions.subgroups, cells),
            importance=importances(base, ranked),
            local=[score for image in questions.local for score in local_scores(base, lines, image)],
            model_error=self.model_error(),
            n_images=len(base),
            accuracy=self.accuracy(),
        )

    def cohort_rows(self, cohort: Group) -> list[BiasRow]:
        """The rows of Table 3: transformations, and interventions with what real images say about them."""
        rows = [self.transformation_row(cohort, name) for name in AFFINE]
        for one in self.questions.interventions:
            row, found = self.intervention_row(cohort, one), self.finding(cohort, one)
            rows.append(row if found is None else replace(row, **found._asdict()))
        return rows

    def model_error(self) -> dict[str, float]:
        own_picture = Picture(RECONSTRUCTION, model=self.questions.models[0])
        real, own, base = (self.says(picture) for picture in (Picture(REAL), own_picture, self.base))
        mse = self.readings.get(own_picture, MSE)
        agreement = float((real == own).mean()) if self.outcome.flips else float(np.corrcoef(real, own)[0, 1])
        return {
            "mse_x": math.nan if mse is None else float(mse.astype(np.float64).mean()),
            "agreement": agreement,
            "positive_real": float(real.mean()),
            "positive_own": float(own.mean()),
            "positive_base": float(base.mean()),
        }

    def accuracy(self) -> float:
        labels = self.classifier.labels
        if labels is None or not self.outcome.flips:
            return math.nan
        if self.class_name:
            labels = labels == self.outcome.columns.index(self.class_name)
        return float((self.says(Picture(REAL)) == labels.numpy()).mean())

    def compare(self, before: Picture, after: Picture, counted: Mask, resamples: int) -> dict[str, float]:
        """How answers flip between two pictures of the counted images; of values, their mean change."""
        if not self.outcome.flips:
            return _mean_change((self.raw(after).astype(np.float64) - self.raw(before))[counted])
        # the table is whole already, and other processes have left
        metric = CounterfactualBias(resamples=resamples, seed=self.questions.seed, sync_on_compute=False)
        metric.update(*(torch.from_numpy(self.says(picture)[counted] == 1) for picture in (before, after)))
        return {key: value.item() for key, value in metric.compute().items()}

    def bias_row(self, group: Group, change: str, before: Picture, after: Picture) -> BiasRow:
        counted = group.members.numpy() & ~np.isnan(self.raw(after))
        start, end = self.raw(before)[counted].astype(np.float64), self.raw(after)[counted].astype(np.float64)
        mean = float(self.says(before)[counted].mean()) if counted.any() else math.nan
        moved = float((end - start).mean()) if counted.any() else math.nan
        return BiasRow(group.name, change, self.compare(before, after, counted, RESAMPLES), mean, moved)

    def transformation_row(self, cohort: Group, name: str) -> BiasRow:
        return replace(self.bias_row(cohort, name, self.base, Picture(TRANSFORMED, name)), transformation=True)

    def intervention_row(self, group: Group, intervention: Intervention) -> BiasRow:
        """How answers flip from before an intervention to after it, by the model and in truth."""
        before, after = self.questions.compared(intervention)
        row = self.bias_row(group, intervention.name, before, after)
        if self.questions.has_truth and self.says_if_known(Picture(TRUE, intervention.name)) is not None:
            counted = group.members.numpy() & ~np.isnan(self.raw(after))
            truth = self.compare(Picture(REAL), Picture(TRUE, intervention.name), counted, 0)
            error, untouched = (
                float(np.nanmean(found.astype(np.float64)[counted]))
                if found is not None and counted.any()
                else math.nan
                for found in (
                    self.readings.get(picture, DISTANCE_TO_TRUTH)
                    for picture in (after, Picture(REAL, intervention.name))
                )
            )
            row = replace(row, truth=truth, error=error, untouched=untouched)
        return row

    def finding(self, group: Group, intervention: Intervention) -> Finding | None:
        """Effect, strength and verdict in a cohort or subgroup; None where no image changes."""
        sample = self.samples[group.name]
        effect = estimate_effect(sample, intervention, self.sample_answers(group, intervention))
        if effect is None:
            return None
        strength = self.strength(group, intervention, sample)
        return Finding(effect, strength, judge(effect, strength))

    def sample_answers(self, group: Group, intervention: Intervention) -> SampleAnswers:
        questions, rows = self.questions, group.members.numpy()
        pictures = [questions.compared(intervention, model) for model in questions.models]
        truth = self.says_if_known(Picture(TRUE, intervention.name))
        pairs = None
        if truth is not None and intervention.name in questions.pairs:
            pairs = np.where(questions.pairs[intervention.name].numpy(), truth, np.nan)[rows]
        return SampleAnswers(
            real=self.says(Picture(REAL))[rows],
            base=np.stack([self.says(before)[rows] for before, _ in pictures]),
            counterfactual=np.stack([self.says(after)[rows] for _, after in pictures]),
            pairs=pairs,
            truth=truth[rows] if questions.has_truth and truth is not None else None,
            outside=self.outside_answers(intervention) if rows.all() else None,
            outcome=self.outcome,
            spread=self.spread,
        )

    def outside_answers(self, intervention: Intervention) -> OutsidePairAnswers | None:
        parts = [
            self.says_if_known(Picture(kind, intervention.name, sample=PAIRS)) for kind in (REAL, TRUE, COUNTERFACTUAL)
        ]
        return None if any(part is None for part in parts) else OutsidePairAnswers(*parts)  # type: ignore[arg-type]

    def strength(self, group: Group, intervention: Intervention, sample: Sample) -> Strength | None:
        """By the predictor's readings; otherwise from the model's calibration."""
        rows, after = group.members.numpy(), self.questions.compared(intervention)[1]

        def outputs(picture: Picture) -> Callable[[str], Raw | None]:
            return lambda name: None if (found := self.readings.get(picture, name)) is None else found[rows]

        found = measured_strength(
            self.questions.schema,
            intervention.arms(sample.columns)[-1].values,
            sample.columns,
            sample.comparison(intervention).real,
            outputs(Picture(REAL)),
            outputs(after),
        )
        return self.questions.calibrated.get(intervention.name) if found is None else found


def _mean_change(changes: Array) -> dict[str, float]:
    """The number of images, and the mean change of predicted values with its 95 % confidence interval."""
    n, half = len(changes), math.nan
    mean = float(changes.mean()) if n else math.nan
    if n > 1:
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * float(changes.std(ddof=1)) / math.sqrt(n)
    return {"n": n, "bias": mean, "bias/low": mean - half, "bias/high": mean + half}
