"""The tables that `answer` fills: which pictures there are, and what is read from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cfgen.audit._material import Material
from cfgen.audit._transformations import AFFINE
from cfgen.audit.answers import (
    COUNTERFACTUAL,
    DISTANCE_TO_TRUTH,
    MSE,
    REAL,
    RECONSTRUCTION,
    TRANSFORMED,
    TRUE,
    Answers,
    Picture,
    Readings,
)
from cfgen.audit.questions import Questions
from cfgen.audit.strength import output_names
from cfgen.interventions import Intervention
from cfgen.processes import Processes

Output = tuple[Picture, str]


class Tables:
    """The tables being filled: 0 in the rows of other processes, NaN where an image has no such picture."""

    def __init__(self, questions: Questions, material: Material) -> None:
        self.questions, self.material = questions, material
        n = len(questions.ids)
        pictures, outputs = pictures_of(questions), outputs_of(questions, material)
        self.raw = {
            name: torch.zeros(len(pictures), n, len(one.outcome.columns)) for name, one in material.classifiers.items()
        }
        self.place = {picture: row for row, picture in enumerate(pictures)}
        self.outside: dict[str, dict[Picture, Tensor]] = {name: {} for name in material.classifiers}
        self.output_place = {output: row for row, output in enumerate(outputs)}
        self.values = torch.zeros(len(outputs), n)

    def put(self, name: str, picture: Picture, rows: Tensor, values: Tensor) -> None:
        self.raw[name][self.place[picture], rows] = values.to("cpu", torch.float32)

    def put_reading(self, picture: Picture, output: str, rows: Tensor, values: Tensor) -> None:
        self.values[self.output_place[picture, output], rows] = values.to("cpu", torch.float32)

    def add_up(self, processes: Processes | None) -> None:
        """The rows of all processes: 0 + value is that value to the bit."""
        if processes is not None:
            self.raw = {name: processes.sum(raw) for name, raw in self.raw.items()}
            self.values = processes.sum(self.values)

    def answers(self) -> Answers:
        tables = {
            name: {picture: raw[row].numpy() for picture, row in self.place.items()}
            | {picture: values.numpy() for picture, values in self.outside[name].items()}
            for name, raw in self.raw.items()
        }
        columns = {name: one.outcome.columns for name, one in self.material.classifiers.items()}
        return Answers(self.questions.ids, tables, columns)

    def readings(self) -> Readings:
        """Outputs that were measured on no image are left out, as in a saved table."""
        values = {key: self.values[row].numpy() for key, row in self.output_place.items()}
        return Readings(
            self.questions.ids, {key: column for key, column in values.items() if not np.isnan(column).all()}
        )


def arm_pictures(questions: Questions, intervention: Intervention, model: str) -> list[Picture]:
    return [Picture(COUNTERFACTUAL, intervention.name, arm.name, model) for arm in intervention.arms(questions.columns)]


def true_picture(questions: Questions, intervention: Intervention) -> Picture | None:
    """The true counterfactual of an intervention, where it is known for all images or for those used as pairs."""
    if len(intervention.arms(questions.columns)) > 1:
        return None
    return Picture(TRUE, intervention.name) if questions.has_truth or intervention.name in questions.pairs else None


def pictures_of(questions: Questions) -> list[Picture]:
    """All pictures that classifiers answer to, the same on every process."""
    first = questions.models[0]
    found = [Picture(REAL), *(Picture(RECONSTRUCTION, model=model) for model in questions.models)]
    found += [Picture(TRANSFORMED, name) for name in AFFINE]
    found += [
        arm
        for model in questions.models
        for one in questions.interventions
        for arm in arm_pictures(questions, one, model)
    ]
    found += [arm for one in questions.toggles for arm in arm_pictures(questions, one, first)]
    return found + [true for one in questions.interventions if (true := true_picture(questions, one))]


def outputs_of(questions: Questions, material: Material) -> list[Output]:
    """All that is read from pictures, the same on every process."""
    first = questions.models[0]
    found: list[Output] = [(Picture(RECONSTRUCTION, model=first), MSE)]
    if questions.has_truth:
        for one in questions.interventions:
            if true_picture(questions, one):
                found += [
                    (arm_pictures(questions, one, first)[-1], DISTANCE_TO_TRUTH),
                    (Picture(REAL, one.name), DISTANCE_TO_TRUTH),
                ]
    if material.predictor is not None:
        found += [(Picture(REAL), name) for name in output_names(material.predictor, read_attributes(material))]
        for one in questions.interventions:
            names = output_names(material.predictor, material.reads.get(one.name, ()))
            found += [(arm_pictures(questions, one, first)[-1], name) for name in names]
    return found


def read_attributes(material: Material) -> list[str]:
    return list(dict.fromkeys(name for names in material.reads.values() for name in names))
