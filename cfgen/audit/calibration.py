"""A model's calibration: how strongly it draws each attribute, what else it changes by that, and how far off its effects are.

Measured once on the data that a model was trained on, and kept beside it as `calibration.json`, so that audits start from it.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from cfgen.audit.drawn import Drawn, Gap, interventions, measure_drawn, turned_readings
from cfgen.audit.material import read_data
from cfgen.audit.predictor import accuracies, own_predictor
from cfgen.audit.reading import same_kind
from cfgen.audit.readings import read_images
from cfgen.audit.strength import Strength
from cfgen.checkpoints import load_module
from cfgen.contracts import ReadsAttributes
from cfgen.errors import UserError
from cfgen.processes import Processes
from cfgen.progress import progress as progress_bar
from cfgen.reporting.provenance import data_fingerprint, fingerprint, versions
from cfgen.runs.card import CALIBRATION, README, renewed_card
from cfgen.runs.checksums import renewed_checksums
from cfgen.runs.data import results_folder
from cfgen.runs.model import TrainedModel
from cfgen.io.files import read_json
from cfgen.io.writing import write_files
from lightning_modules import Predictor, ResidualKept

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Calibration", "calibrate", "model_fingerprint", "read_calibration"]


@dataclass(frozen=True)
class Calibration:
    """How a model draws every attribute and value.  `facts` say of which model, on which images, by which predictor.

    `turned` has, for each binary and categorical attribute, the share of images whose reading the reconstruction alone
    changes; `accuracy` how well the predictor reads real images (`OwnPredictor.accuracy`).
    """

    drawn: Sequence[Drawn]
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
        return Gap.over([row.gap for row in self.drawn])

    @property
    def split(self) -> str:
        return self.facts["split"]

    @property
    def keep_residual(self) -> bool:
        return self.facts["keep_residual"]

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON."""
        shares = {key: {name: or_none(value) for name, value in getattr(self, key).items()} for key in SHARES}
        gap = asdict(self.gap) | {"share": or_none(self.gap.share)}
        return {**self.facts, "gap": gap, **shares, "drawn": [row.to_dict() for row in self.drawn]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_dict`."""
        facts = {key: value for key, value in values.items() if key not in ("gap", "drawn", *SHARES)}
        turned, accuracy = (
            {name: math.nan if share is None else float(share) for name, share in values[key].items()} for key in SHARES
        )
        if not isinstance(facts["split"], str) or not isinstance(facts["keep_residual"], bool):
            raise TypeError("the split is a name, and keep_residual true or false")
        return cls([Drawn.from_dict(row) for row in values["drawn"]], turned, accuracy, facts)

    def to_frame(self) -> pd.DataFrame:
        """One row an intervention."""
        import pandas as pd

        rows = [
            {
                "do": row.do,
                "images": row.images,
                "strength": row.strength.value,
                **{key: value for key, value in asdict(row.strength).items() if key != "value"},
                "side_effect": row.side_effect,
                "side_effect_size": row.side_effect_size,
                **{f"gap/{key}": value for key, value in asdict(row.gap).items()},
            }
            for row in self.drawn
        ]
        return pd.DataFrame(rows).set_index("do")

    def save(self, folder: str | Path) -> Path:
        """Writes `calibration.json`; where the folder has a model's card, puts the calibration on it too."""
        contents = self.to_dict()
        files = {CALIBRATION: json.dumps(contents, indent=1) + "\n"}
        if (card := renewed_card(Path(folder), contents)) is not None:
            files[README] = card
        with renewed_checksums(Path(folder), files):
            return write_files(folder, files)[0]


SHARES = ("turned", "accuracy")


def or_none(value: float) -> float | None:
    """None in place of NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def model_fingerprint(model: TrainedModel) -> str:
    """Of what draws: a run, its best checkpoint and its export are one model."""
    module = copy.deepcopy(model.module)
    module.keep_inference_only()
    return fingerprint(None, module)


def read_calibration(model: TrainedModel) -> Calibration | None:
    """What `calibrate` has left beside the model, if it is of this very model; of a model that comes with cfgen, yours comes
    before the one that it comes with."""
    if model.source is None:
        return None
    folders = [results_folder(model.source), *([model.folder] if model.folder is not None else [])]
    for folder in dict.fromkeys(folders):
        try:
            found = Calibration.from_dict(read_json(folder / CALIBRATION))
            if found.facts["model"] == model_fingerprint(model):
                return found
        except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue  # none there, or not one of this version
    return None


def calibrate(
    model: TrainedModel,
    *,
    predictor: str | Path | ReadsAttributes | None = None,
    split: str = "val",
    count: int | None = None,
    keep_residual: bool = False,
    batch_size: int = 100,
    seed: int = 0,
    trusted: bool = False,
    processes: Processes | None = None,
    progress: bool = False,
) -> Calibration:
    """A model's error, measured once for all attributes on the data it was trained on.

    Every binary attribute is set to 1 and to 0, a categorical one to each of its values, a continuous one to its 10 %, 50 % and
    90 % quantile; each is asked of the images that do not have the value.  A predictor reads the attributes of images,
    reconstructions and counterfactuals.  Prints nothing; the result is the same on every process, for any batch size.

    Args:
        model: the model to calibrate.
        predictor: a `Predictor`, or its run, that reads all attributes of the model.  By default the one that is kept beside
            the model; it is trained first, on the training images, where there is none (minutes).
        split: "val" or "test".
        count: how many images, from the first; all by default.
        keep_residual: calibrate the model as audits use it with this option: what the reconstruction lost is added to every
            counterfactual.
        batch_size: images at a time.
        seed: of the noise that is abducted, and of the folds of regressions.
        trusted: classes of your own that a predictor's run names are imported, which runs code; the model's are as it was loaded.
        processes: where to compute, and with how many processes; by default here, on the model's device.
        progress: show a progress bar on stderr.
    """
    for argument, number, least in (("count", count, 1), ("batch_size", batch_size, 1), ("seed", seed, 0)):
        if number is not None and number < least:
            raise UserError(f"expected a whole number of {least} or more, not {number}", argument=argument)
    given = None if predictor is None else fitting_predictor(predictor, model, trusted)
    data = read_data(model, split)
    if given is None:
        own = own_predictor(model, data, processes=processes, progress=progress and is_first(processes))
        given, accuracy = own.predictor, own.accuracy
    else:
        accuracy = {name: share for name, share in accuracies(given, data).items() if name in model.schema.names}
    x, columns = data.images(split)[:count], {name: column[:count] for name, column in data.columns(split).items()}
    do = interventions(model.schema, columns)
    with contextlib.ExitStack() as stack:
        shown = progress and is_first(processes)
        advance = stack.enter_context(progress_bar("calibrating", len(x))) if shown else lambda images: None
        mechanism = ResidualKept(model.module) if keep_residual else model.module
        readings = read_images(mechanism, given, x, columns, do, batch_size, seed, processes, advance)
    facts = {
        "model": model_fingerprint(model),
        "split": split,
        "images": len(x),
        "keep_residual": keep_residual,
        "seed": seed,
        "predictor": {
            "trained": "on the spot" if predictor is None else "before",
            "sha256": fingerprint(None, given) if isinstance(given, nn.Module) else None,
        },
        "data": data_fingerprint(x, columns),
        "versions": versions(),
    }
    drawn = list(measure_drawn(model.schema, model.scm.graph, columns, readings, do, seed))
    return Calibration(drawn, turned_readings(model.schema, readings), accuracy, facts)


def is_first(processes: Processes | None) -> bool:
    return processes is None or processes.first


def fitting_predictor(predictor: str | Path | ReadsAttributes, model: TrainedModel, trusted: bool) -> ReadsAttributes:
    """The predictor, if it can read all attributes of the model's images."""
    if isinstance(predictor, (str, Path)):
        try:
            predictor = load_module(predictor, Predictor, trusted).eval()
        except UserError as error:
            raise UserError(str(error), argument="predictor") from error
    theirs, ours = tuple(predictor.image_shape), tuple(model.module.image_shape)
    if theirs != ours:
        raise UserError(
            f"it reads images of shape {theirs}, and the model makes images of {ours}", argument="predictor"
        )
    if missing := [name for name in model.schema.names if not same_kind(model.schema, predictor.schema, name)]:
        raise UserError(
            f"it does not read the model's {', '.join(missing)}; a calibration needs all attributes",
            argument="predictor",
        )
    return predictor
