"""Scores of a mechanism by single metrics, without a run on disk; and runs of modules that nobody trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from torch import Tensor, nn

from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Metric
from cfgen.evaluation.run import Pass, pass_over, scores_of
from cfgen.evaluation.statistics import Table
from cfgen.evaluation.subject import Subject
from cfgen.processes import Processes
from tests.fakes import saved

__all__ = ["Bands", "Share", "make_run", "means", "subject_of", "table_of"]


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
