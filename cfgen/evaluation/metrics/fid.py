"""FID of generated images (Heusel et al., 2017; Table 2)."""

from __future__ import annotations

import math

from cfgen.counterfactual import Swept
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Description, Metric, Missing, Values
from cfgen.evaluation.statistics import Score
from cfgen.evaluation.subject import Subject
from cfgen.metrics.fid import fids

__all__ = ["GeneratedFID"]


class GeneratedFID(Metric):
    """`fid_NETWORK/generated`: the distance between the features of the images and of generated ones with their attributes.

    It has no value for a single image, and so no standard error but over seeds.
    """

    name = "fid"
    title = "Reconstruction and quality (Table 2)"
    unit = ""
    place = 100

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        assert judges.fid is not None
        self.fid = judges.fid

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        return Missing("fid", "a network for features") if judges.fid is None else None

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        return {"fid"}

    def descriptions(self) -> dict[str, Description]:
        return {f"fid_{self.judges.network}/generated": self.describe(direction=-1, width=0)}

    def update(self, batch: Swept) -> Values:
        return {}

    def finish(self, share: tuple[int, int]) -> dict[str, Score]:
        x = self.subject.x
        distances = fids(self.fid, self.mechanism, x, self.subject.columns, seed=self.seed, share=share)
        return {
            f"fid_{self.judges.network}/{kind}": Score(value.item(), math.nan, len(x))
            for kind, value in distances.items()
        }
