"""Whether a model's files are as they should be: what `cfgen verify` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl

from cfgen.checkpoints import CARD, CONFIG, EXAMPLES, class_path, load_module
from cfgen.errors import UserError
from cfgen.io.checksums import CHECKSUMS, listed_checksums, require_unchanged
from cfgen.io.files import read_json
from cfgen.io.writing import write_files
from cfgen.runs.card import CALIBRATION, require_calibration
from cfgen.runs.data import run_data, run_folder
from cfgen.runs.examples import read_examples
from cfgen.runs.export import SCORES
from lightning_modules import Classifier, ImageMechanismModule, Predictor

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Verified", "verify"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, whether it is as it should be, and what was found."""

    what: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Verified:
    """The folder of a model and all that was checked of it."""

    folder: Path
    checks: list[Check]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "passed": self.passed, "checks": [asdict(check) for check in self.checks]}

    def to_frame(self) -> pd.DataFrame:
        """A row a check."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()["checks"]).set_index("what")

    def save(self, folder: str | Path) -> Path:
        """Writes `verified.json`."""
        return write_files(folder, {"verified.json": json.dumps(self.to_dict(), indent=1)})[0]


def verify(what: str | Path, *, trusted: bool = False) -> Verified:
    """Checks a model, classifier or predictor: checksums, classes, weights, and every file that commands read beside it.

    Goes on after what is wrong, so that all of it is found.  Nothing of the folder is run, unless classes of one's own are
    `trusted`.
    """
    folder = run_folder(what)
    checks = list(checked_files(folder))
    modules: list[pl.LightningModule] = []

    def model() -> str:
        modules.append(load_any(what, trusted))
        tensors = modules[0].state_dict().values()
        return f"{class_path(modules[0])}; {len(tensors)} tensors, {sum(tensor.numel() for tensor in tensors):,} finite numbers"

    def data() -> str:
        return type(run_data(what, trusted)).__name__

    def examples() -> str:
        if not modules or not isinstance(modules[0], ImageMechanismModule):
            return "not read: only with the model"
        found = read_examples(folder, modules[0].scm.schema)
        if found is None or tuple(found.images.shape[1:]) != tuple(modules[0].image_shape):
            raise UserError(f"{folder / EXAMPLES} has images of another shape than the model's")
        return f"{len(found.images)} images"

    def calibration() -> str:
        require_calibration(read_json(folder / CALIBRATION), folder / CALIBRATION)
        return "readable"

    checks.append(check("class and weights", model))
    if (folder / CONFIG).exists() or (folder / CARD).exists():
        checks.append(check("data", data))
    for name, look in ((EXAMPLES, examples), (SCORES, lambda: f"{len(read_json(folder / SCORES))} values"),
                       (CALIBRATION, calibration)):  # fmt: skip
        if (folder / name).exists():
            checks.append(check(name, look))
    return Verified(folder, checks)


def check(what: str, look: Callable[[], str]) -> Check:
    try:
        return Check(what, True, look())
    except UserError as error:
        return Check(what, False, str(error))


def checked_files(folder: Path) -> list[Check]:
    """A check for each listed file, and a note on those that are not listed."""
    try:
        listed = listed_checksums(folder)
    except UserError as error:
        return [Check(CHECKSUMS, False, str(error))]
    if listed is None:
        return [Check(CHECKSUMS, True, "there is none: only folders that cfgen export writes have it")]

    def unchanged(name: str) -> str:
        require_unchanged(folder, [name])
        return "as it was written"

    def added() -> str:
        files = {path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}
        names = sorted(files - listed.keys() - {CHECKSUMS})
        return f"{len(listed)} files; not listed, and not looked at: {', '.join(names) or 'none'}"

    return [Check(CHECKSUMS, True, added()), *(check(name, partial(unchanged, name)) for name in listed)]


def load_any(what: str | Path, trusted: bool) -> pl.LightningModule:
    """The module, whichever of the three kinds it is."""
    module = load_module(what, pl.LightningModule, trusted)
    if not isinstance(module, ImageMechanismModule | Classifier | Predictor):
        raise UserError(f"{what} is a {class_path(module)}: neither a model nor a classifier nor a predictor")
    return module
