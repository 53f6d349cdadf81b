"""`Calibration`: how a model draws every attribute, as `calibration.json` in its folder has it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfgen.effects import Estimate
from cfgen.effects.strength import Strength, plain_values
from cfgen.errors import UserError
from cfgen.io.files import read_json
from cfgen.io.writing import write_files
from cfgen.runs.card import CALIBRATION, README, renewed_card
from cfgen.runs.checksums import renewed_checksums
from cfgen.runs.data import results_folder
from cfgen.runs.model import TrainedModel
from cfgen.runs.provenance import fingerprint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AttributeCalibration", "Calibration", "Gap", "model_fingerprint", "read_calibration"]


@dataclass(frozen=True)
class Gap:
    """Model-only effects on a predictor's readings minus the effects in real images.

    Attributes:
        readings: the number of effects that were compared.
        differ: for how many of them the 95 % interval of the difference excludes 0.
        rms: the root mean square difference.
        chance: what `rms` would be by sampling error alone.
    """

    readings: int
    differ: int
    rms: float
    chance: float

    @property
    def share(self) -> float:
        return self.differ / self.readings if self.readings else math.nan

    @classmethod
    def from_estimates(cls, gaps: Sequence[Estimate]) -> Gap:
        squares = [[gap.value**2, gap.variance] for gap in gaps] or [[0.0, 0.0]]
        return cls(len(gaps), sum(not gap.holds(0.0) for gap in gaps), *np.sqrt(np.mean(squares, axis=0)).tolist())

    @classmethod
    def pool(cls, gaps: Sequence[Gap]) -> Gap:
        """Several together.

        >>> round(Gap.pool([Gap(1, 1, 0.3, 0.1), Gap(1, 0, 0.4, 0.1)]).rms ** 2, 3)  # (0.09 + 0.16) / 2
        0.125
        """
        readings = sum(gap.readings for gap in gaps)
        squares = sum(gap.readings * np.array([gap.rms, gap.chance]) ** 2 for gap in gaps) / max(readings, 1)
        return cls(readings, sum(gap.differ for gap in gaps), *np.sqrt(squares + np.zeros(2)).tolist())


@dataclass(frozen=True)
class AttributeCalibration:
    """How a model draws one value of an attribute.

    Attributes:
        do: the intervention, such as "Young=0".
        images: the number of images that it changes.
        strength, gap: how strongly it is drawn, and the gap to real images.
        side_effect: the attribute that the intervention should not change and whose reading moves most; empty if none moves.
        side_effect_size: by how much, as a share of the images, or in standard deviations of a continuous attribute.  What the
            predictor confuses in real images is subtracted.
    """

    do: str
    images: int
    strength: Strength
    side_effect: str
    side_effect_size: float
    gap: Gap

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; `from_dict` is the inverse."""
        return asdict(self) | {"strength": self.strength.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AttributeCalibration:
        parts = {"strength": Strength.from_dict(values["strength"]), "gap": Gap(**plain_values(Gap, values["gap"]))}
        return cls(**plain_values(cls, dict(values) | parts))


@dataclass(frozen=True)
class Calibration:
    """How a model draws every attribute and value.

    Attributes:
        drawn: one entry per value.
        turned: by discrete attribute, the share of images whose reading the reconstruction alone changes.
        accuracy: how well the predictor reads real images (`OwnPredictor.accuracy`).
        facts: the model, images, predictor and options.
    """

    drawn: Sequence[AttributeCalibration]
    turned: Mapping[str, float]
    accuracy: Mapping[str, float]
    facts: Mapping[str, Any]

    @cached_property
    def strengths(self) -> dict[str, Strength]:
        """By intervention, such as "Young=0"."""
        return {row.do: row.strength for row in self.drawn}

    @property
    def gap(self) -> Gap:
        """Over all interventions."""
        return Gap.pool([row.gap for row in self.drawn])

    @property
    def split(self) -> str:
        return self.facts["split"]

    @property
    def keep_residual(self) -> bool:
        return self.facts["keep_residual"]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, with None in place of NaN; `from_dict` is the inverse."""
        shares = {key: {name: _or_none(value) for name, value in getattr(self, key).items()} for key in SHARES}
        gap = asdict(self.gap) | {"share": _or_none(self.gap.share)}
        return {**self.facts, "gap": gap, **shares, "drawn": [row.to_dict() for row in self.drawn]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        facts = {key: value for key, value in values.items() if key not in ("gap", "drawn", *SHARES)}
        turned, accuracy = (
            {name: math.nan if share is None else float(share) for name, share in values[key].items()} for key in SHARES
        )
        if not isinstance(facts["split"], str) or not isinstance(facts["keep_residual"], bool):
            raise TypeError("split must be a string, and keep_residual true or false")
        return cls([AttributeCalibration.from_dict(row) for row in values["drawn"]], turned, accuracy, facts)

    def to_frame(self) -> pd.DataFrame:
        """One row per intervention."""
        import pandas as pd

        rows = []
        for row in self.drawn:
            plain = asdict(row)
            value, gap = plain.pop("strength"), plain.pop("gap")
            plain |= {"strength": value.pop("value"), **value, **{f"gap/{key}": number for key, number in gap.items()}}
            rows.append(plain)
        return pd.DataFrame(rows).set_index("do")

    def save(self, folder: str | Path) -> Path:
        """Writes `calibration.json`, and adds the calibration to the model card if the folder has one."""
        contents = self.to_dict()
        files = {CALIBRATION: json.dumps(contents, indent=1) + "\n"}
        if (card := renewed_card(Path(folder), contents)) is not None:
            files[README] = card
        with renewed_checksums(Path(folder), files):
            return write_files(folder, files)[0]


SHARES = ("turned", "accuracy")


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def model_fingerprint(model: TrainedModel) -> str:
    """Of the weights that counterfactuals need; the same for a run, its best checkpoint and its export."""
    module = copy.deepcopy(model.module)
    module.keep_inference_only()
    return fingerprint(None, module)


def read_calibration(model: TrainedModel) -> Calibration | None:
    """The calibration in the model's folder, if it has the model's fingerprint.

    For a packaged model, your own calibration in `runs` is preferred to the packaged one.
    """
    if model.source is None:
        return None
    folders = [results_folder(model.source), *([model.folder] if model.folder is not None else [])]
    for folder in dict.fromkeys(folders):
        try:
            found = Calibration.from_dict(read_json(folder / CALIBRATION))
            if found.facts["model"] == model_fingerprint(model):
                return found
        except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue  # no file, or not a calibration of this version
    return None
