"""Distance from the true counterfactual image, on data that knows it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from cfgen.contracts import KnowsTruth, RedrawsTruth, true_images
from cfgen.counterfactual import Swept, as_unit_float
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import (
    LEVELS,
    Cell,
    Description,
    Metric,
    Missing,
    Values,
    binary_names,
    levels_apart,
)
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import do_name

__all__ = ["Truth"]

MOVES = 8.5 / 255  # of whole levels, whatever the rounding


class Truth(Metric):
    """For each image and binary attribute k under do(k = the other value):

    `true_error/do(k)`: mean |x_c - truth| of pixels in 0..255;
    `true_error/effect(k)`: mean |(x_c - x_r) - (truth - x)|, the error of the change alone, whatever the reconstruction lost;
    `true_error/untouched(k)`: mean |x - truth| of the image left as it is, what doing nothing scores on both;
    `true_error/changed(k)`: of the pixels that truly change (by more than 8 levels), the share whose x_c is nearer to the
    truth than to the image left as it is: 1 changes all that should change, 0 nothing (NaN where nothing should).

    `true_error/redrawn(k)`: mean |redrawn - truth|, where the data's own SCM sees no more than the image and draws what that
    does not tell anew, such as the look of glasses: what the best model scores.

    x_c is the model's alone: what follows from k is what its own SCM says.
    """

    name = "truth"
    title = "Distance from the true counterfactual, 0 to 255"
    unit = LEVELS
    place = 40

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        self.names = binary_names(self.schema)

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        if isinstance(subject.data, KnowsTruth) and binary_names(subject.mechanism.scm.schema):
            return None
        return Missing(None, "data with binary attributes whose true counterfactuals are known, such as Faces")

    def descriptions(self) -> dict[str, Description]:
        found = {}
        for k in self.names:
            for kind, column, direction in self.kinds():
                found[f"true_error/{kind}({k})"] = self.describe(
                    unit="share of pixels" if kind == "changed" else LEVELS,
                    direction=direction,
                    attribute=k,
                    baseline=not direction,
                    cell=Cell("Distance from the true counterfactual (0 to 255)", k, column or kind, error=False),
                )
        return found

    def kinds(self) -> list[tuple[str, str, int]]:
        """Scores, their columns and directions; a baseline has none."""
        found = [
            ("do", "error", -1),
            ("effect", "of the change", -1),
            ("untouched", "", 0),
            ("changed", "share changed", 1),
        ]
        return [*found, ("redrawn", "best possible", 0)] if isinstance(self.data, RedrawsTruth) else found

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.names)

    def update(self, batch: Swept) -> Values:
        found: Values = {}
        x = batch.x
        for k in self.names:
            do, x_c = {k: self.asked[k][batch.rows].cpu()}, batch.x_c(do_name(k))
            truth = as_unit_float(true_images(self.data, self.schema, self.subject.split, batch.rows, do)).to(x.device)
            if isinstance(self.data, RedrawsTruth):
                redrawn = self.data.redrawn_counterfactual(self.subject.split, batch.rows, do, self.seed)
                found[f"true_error/redrawn({k})"] = levels_apart(as_unit_float(redrawn).to(x.device), truth)
            moves = (truth - x).abs() > MOVES
            nearer = ((x_c - truth).abs() < (x_c - x).abs()) & moves
            found |= {
                f"true_error/do({k})": levels_apart(x_c, truth),
                f"true_error/effect({k})": levels_apart(x_c - batch.x_r, truth - x),
                f"true_error/untouched({k})": levels_apart(x, truth),
                f"true_error/changed({k})": nearer.flatten(1).sum(dim=1) / moves.flatten(1).sum(dim=1),
            }
        return found
