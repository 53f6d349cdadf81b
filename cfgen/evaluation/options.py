"""How models are evaluated: the keyword arguments of `evaluate` and `compare`, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cfgen.errors import UserError, require_different, unknown_name
from cfgen.evaluation.metrics import metric_names

if TYPE_CHECKING:
    from cfgen.contracts import ReadsAttributes
    from cfgen.processes import Processes
    from lightning_modules import Classifier

    AnyPredictor = str | Path | ReadsAttributes
    Predictors = AnyPredictor | Sequence[AnyPredictor]

__all__ = ["FACE_NETWORKS", "NONE", "SPLITS", "Options"]

SPLITS = ("test", "val")
FACE_NETWORKS = ("dlib",)
NONE = "none"  # in place of a predictor: no judges
JUDGED = {"effectiveness", "labels"}  # metrics that judges have a part in


@dataclass(frozen=True, kw_only=True)
class Options:
    """See `cfgen.evaluation.evaluate`."""

    metrics: Sequence[str] | None = None
    classifier: str | Path | Classifier | None = None
    predictor: Predictors | None = None
    fid: str | None = None
    identity: str | None = None
    split: str = "test"
    count: int | None = None
    seed: int = 0
    seeds: int = 1
    values: int = 1
    batch_size: int | None = None
    trusted: bool = False
    processes: Processes | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.metrics, str):
            raise UserError(f"expected a list of names, not the text {self.metrics!r}", argument="metrics")
        for name in self.metrics or ():
            if name not in metric_names():
                raise UserError(unknown_name("metric", name, metric_names()), argument="metrics")
        require_different(self.metrics or (), "metrics")
        if self.split not in SPLITS:
            raise UserError(unknown_name("split", self.split, SPLITS), argument="split")
        if self.identity not in (None, *FACE_NETWORKS):
            raise UserError(unknown_name("network", self.identity, FACE_NETWORKS), argument="identity")
        for argument, least in (("count", 1), ("seed", 0), ("seeds", 1), ("values", 1), ("batch_size", 1)):
            number = getattr(self, argument)
            if number is not None and number < least:
                raise UserError(f"expected a whole number of {least} or more, not {number}", argument)

        for argument, named in (("classifier", (self.classifier,)), ("predictor", self.judges or ())):
            if "" in named:
                raise UserError("expected a run, and nothing is named", argument)
        if NONE in (several := self.judges or ()) and len(several) > 1:
            raise UserError(f"{NONE} stands for no judge, and cannot be named beside others", argument="predictor")

    @property
    def judges(self) -> tuple[AnyPredictor, ...] | None:
        """The predictors that are named, () where none are wanted; None for those that come with cfgen."""
        if self.predictor is None:
            return None if self.metrics is None or JUDGED.intersection(self.metrics) else ()
        named = tuple(self.predictor) if isinstance(self.predictor, list | tuple) else (self.predictor,)
        return () if named == (NONE,) else named

    @property
    def all_seeds(self) -> range:
        return range(self.seed, self.seed + self.seeds)
