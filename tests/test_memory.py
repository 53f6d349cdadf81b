"""What an audit, an evaluation and a sweep keep of an image: a row of numbers, and never the image."""

from __future__ import annotations

import gc
import weakref
from typing import ClassVar

import pytest
import torch

from cfgen.audit import AuditOptions, answer, prepare
from cfgen.audit.questions import Questions
from cfgen.classifiers import ExternalClassifier
from cfgen.counterfactual import asked_of, sweep
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.cycles import Cycles
from cfgen.evaluation.metrics.minimality import Minimality
from cfgen.evaluation.run import pass_over
from cfgen.evaluation.subject import Subject
from cfgen.processes import Processes
from cfgen.runs.model import TrainedModel
from tests.fakes import Painted, Painter, fitted

BATCH = 16


class Counting(Painter):
    """Knows how many of the images that it made or was given are still held by anybody."""

    alive: ClassVar[weakref.WeakValueDictionary[int, torch.Tensor]] = weakref.WeakValueDictionary()
    most: ClassVar[int] = 0

    def noted(self, images: torch.Tensor) -> torch.Tensor:
        Counting.alive[id(images)] = images
        Counting.most = max(Counting.most, sum(len(one) for one in Counting.alive.values()))
        return images

    def abduct(self, x, a, noise=None):
        return self.noted(super().abduct(self.noted(x), a, noise))

    def decode(self, z, a):
        return self.noted(super().decode(z, a))


def swept(model: Counting, data: Painted) -> None:
    columns = data.columns("test")
    asked = {"it": asked_of(model, columns, {"Bangs": 1})}
    for batch in sweep(model, data.images("test"), columns, asked, batch_size=BATCH):
        batch.x_c("it")


def prepared(model: Painter, data: Painted, classifier: torch.nn.Module, **options) -> Questions:
    """The questions of an audit of a model that was never saved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cfgen.audit._prepare.model_data", lambda model, split: data)
        given = ExternalClassifier(classifier, output="probability")
        return prepare(TrainedModel(model), given, AuditOptions(predictor=None, explain="none", **options))


def audited(model: Counting, data: Painted) -> None:
    classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(0))
    answer(prepared(model, data, classifier, do="Bangs=1", batch_size=BATCH))


def evaluated(model: Counting, data: Painted) -> None:
    subject = Subject("it", model, data, "test", data.images("test"), data.columns("test"))
    metrics = [kind(subject, Judges()) for kind in (Cycles, Minimality)]
    pass_over(subject, metrics, 0, Processes(), batch_size=BATCH)


@pytest.mark.parametrize("work", [swept, audited, evaluated])
def test_no_more_images_are_held_for_more_images(work, monkeypatch):
    """At any time those of a batch or two, whether there are 64 images or 256."""
    monkeypatch.setattr("cfgen.evaluation.run.worker_count", lambda device: 1)
    most = []
    for rows in (64, 256):
        data = Painted(rows=rows)
        model = fitted(Counting, data)
        gc.collect()
        Counting.alive.clear()
        Counting.most = 0
        with torch.inference_mode():
            work(model, data)
        most.append(Counting.most)
    assert 0 < most[1] < most[0] + BATCH  # how many of a batch an intervention changes is chance


def test_networks_meet_few_numbers_of_images():
    """What is compiled for each of them is kept: multiples of eight, whole batches and the last one, however many images."""
    met: dict[str, set[int]] = {"decode": set(), "classify": set()}

    class Counted(Painter):
        def decode(self, z, a):
            met["decode"].add(len(a))
            return super().decode(z, a)

    class Bright(torch.nn.Module):
        def forward(self, x):
            met["classify"].add(len(x))
            return x.mean((1, 2, 3))

    data = Painted(rows=1030)
    model = fitted(Counted, data)
    questions = prepared(model, data, Bright(), do=[f"{name}=1" for name in data.columns("test")], batch_size=100)
    met["classify"].clear()  # before the work starts, it is tried on a few images
    answers, _ = answer(questions)
    for numbers in met.values():
        assert numbers - {100, 30} <= set(range(8, 100, 8))
        assert len(numbers) < 10
    assert {len(raw) for raw in answers.tables["Bright"].values()} == {1030}
