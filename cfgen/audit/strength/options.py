"""`CalibrateOptions`: the options of `calibrate` and the command `cfgen calibrate`; light to import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cfgen.command_line import PositiveInt, Seed
from cfgen.errors import UserError
from cfgen.options import option, require_at_least

if TYPE_CHECKING:
    from cfgen.contracts import ReadsAttributes
    from cfgen.processes import Processes

__all__ = ["CalibrateOptions"]


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Which images a calibration uses, and which predictor reads them.

    >>> CalibrateOptions(count=500).split
    'val'

    Args:
        predictor: the run of a Predictor that reads all attributes of the model (default: the one in the model's folder; if
            there is none, it is trained first, which takes minutes).
        split: the split of the model's data.
        count: use the first N images (default: all).
        keep_residual: add what the reconstruction lost to every counterfactual; choose the same as in your audits (default: do
            not add it).
        seed: seed of the noise and of the folds of regressions.
        batch_size: number of images in a batch; larger batches need more memory, and the numbers stay the same.
        trusted: import classes of your own that a model, its data or a predictor names, which runs code; only for folders and
            checkpoints whose source you trust (default: classes that come with cfgen alone).
        processes: several processes that share the images (default: this process, on the model's device).
        progress: show a progress bar on stderr.
    """

    predictor: str | Path | ReadsAttributes | None = option(None, group="measurement", metavar="RUN", type=str)
    keep_residual: bool = option(False, group="measurement")
    split: Literal["val", "test"] = option("val", group="images")
    count: int | None = option(None, group="images", metavar="N", type=PositiveInt)
    seed: int = option(0, group="images", metavar="N", type=Seed)
    batch_size: int = option(100, group="computing", metavar="N", type=PositiveInt)
    trusted: bool = option(False, group="computing")
    processes: Processes | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        if self.split not in ("val", "test"):
            raise UserError(f"expected test or val, not {self.split!r}", argument="split")
        require_at_least(self, count=1, batch_size=1, seed=0)
