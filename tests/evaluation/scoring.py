"""Scores of a mechanism by single metrics, without a run on disk; and runs of modules that nobody trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml
from torch import Tensor, nn

from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Metric
from cfgen.evaluation.run import Pass, pass_over, scores_of
from cfgen.evaluation.statistics import Table
from cfgen.evaluation.subject import Subject
from cfgen.processes import Processes
from tests.fakes import DIGITS, FACES, Drawing, Measured, Painted, Painter, ReadStripes, Stripes, fitted, saved

__all__ = [
    "ROWS",
    "Bands",
    "Share",
    "judged_digits",
    "judged_faces",
    "make_run",
    "means",
    "painted_run",
    "passed",
    "subject_of",
    "table_of",
]

ROWS = 80  # images of a split


class Bands(nn.Module):
    """Features for FID: how bright three bands of an image are."""

    num_features = 3

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(x.mean(dim=1, keepdim=True), (3, 1)).flatten(1)


class Share(Processes):
    """A part of the work, of which nobody has the other parts."""

    def __init__(self, rank: int, count: int) -> None:
        super().__init__()
        self.rank, self.count = rank, count

    def sum(self, values: Tensor) -> Tensor:
        return values


def subject_of(
    mechanism: Any, data: Any, split: str = "test", x: Tensor | None = None, count: int | None = None
) -> Subject:
    x = data.images(split) if x is None else x
    columns = {name: column[:count] for name, column in data.columns(split).items()}
    return Subject("tested", mechanism, data, split, x[:count], columns)


def passed(metrics: Sequence[type[Metric]], subject: Subject, judges: Judges | None = None, **options: Any) -> Pass:
    values, seed = options.pop("values", 1), options.pop("seed", 0)
    made = [metric(subject, judges or Judges(), values) for metric in metrics]
    return pass_over(subject, made, seed, options.pop("processes", Processes()), **options)


def table_of(metrics: Sequence[type[Metric]], subject: Subject, judges: Judges | None = None, **options: Any) -> Table:
    """The values of single images."""
    return passed(metrics, subject, judges, **options).table


def means(
    metrics: Sequence[type[Metric]], subject: Subject, judges: Judges | None = None, **options: Any
) -> dict[str, float]:
    """The scores by name."""
    judges = judges or Judges()
    made = [metric(subject, judges, options.pop("values", 1)) for metric in metrics]
    table = pass_over(subject, made, options.pop("seed", 0), Processes(), **options).table
    return {name: score.value for name, score in scores_of(made, table, Processes()).items()}


def make_run(folder: Path, module: pl.LightningModule, data: Mapping[str, Any]) -> Path:
    """A finished run of a module as it is."""
    folder.mkdir(parents=True)
    for name in ("best.ckpt", "last.ckpt"):
        saved(module, folder / name)
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": dict(data)}))
    (folder / "finished.json").write_text(json.dumps({}))
    return folder


class Known(Painted):
    """Knows its true counterfactuals: the attributes change, the background stays."""

    def true_attributes(self, split: str, rows: Any, do: Mapping[str, Any]) -> dict[str, Tensor]:
        return {k: column[rows] for k, column in self.columns(split).items()} | dict(do)

    def true_counterfactual(self, split: str, rows: Any, a_c: Tensor) -> Tensor:
        mechanism = fitted(Painter, self)
        x, a = self.images(split)[rows] / 255, self.schema.encode(self.columns(split))[rows]
        with torch.no_grad():
            return mechanism.decode(mechanism.abduct(x, a), a_c).mul(255).round().clamp(0, 255).to(torch.uint8)


class ReadLabel(nn.Module):
    """A classifier of labels that reads them from stripes, with an eye for all classes."""

    classes = 3

    def __init__(self, predictor: ReadStripes) -> None:
        super().__init__()
        self.predictor = predictor

    def predict(self, x: Tensor) -> Tensor:
        return self.predictor.read(x)["label"].long()


def judged_digits(kind: Any = Drawing) -> tuple[Subject, Judges]:
    """Images with a thickness that can be measured and a label, with a right classifier and predictor."""
    data = Measured(attributes=DIGITS, rows=ROWS)
    subject = subject_of(fitted(kind, data), data)
    predictor = ReadStripes(data.schema)
    return subject, Judges(classifier=ReadLabel(predictor), predictors={"stripes": predictor})


def judged_faces(kind: Any = Drawing) -> tuple[Subject, Judges]:
    """Images with binary attributes whose truth is known, with a classifier of yes or no and a right predictor."""
    data = Known(attributes=FACES, edges=[("Black_Hair", "Bangs")], rows=ROWS)
    subject = subject_of(fitted(kind, data), data)
    return subject, Judges(classifier=Stripes([3.1, -1.3, 2.7, 0.13]), predictors={"stripes": ReadStripes(data.schema)})


def painted_run(folder: Path, kind: Any = Painter) -> Path:
    """A finished run of a mechanism that fits its images."""
    data = Painted(rows=ROWS)
    return make_run(folder, fitted(kind, data), {"class_path": "tests.fakes.Painted", "init_args": {"rows": ROWS}})
