"""MedianAbsError and ImageGrids with mechanisms whose right answers are known."""

from pathlib import Path

import pytest
from pytorch_lightning.loggers import CSVLogger

from callbacks import ImageGrids, MedianAbsError
from tests.fakes import Ignorant, Measured, Painter, fitted
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

SIZE = {"kind": "continuous", "low": 0.0, "high": 10.0}
ATTRIBUTES = {"size": SIZE, "height": SIZE, "label": {"kind": "categorical", "values": ["a", "b"]}}
PREFIX = "val/median_abs_error/"


def measured(kind: type[Painter], folder: str = ".", **options: object) -> dict[str, float]:
    data = Measured(ATTRIBUTES, [["size", "height"]], rows=61)
    trainer = quiet_trainer(Path(folder), callbacks=[MedianAbsError(images=51)], **options)
    (logged,) = trainer.validate(fitted(kind, data), datamodule=data, verbose=False)
    return {name.removeprefix(PREFIX): value for name, value in logged.items() if name.startswith(PREFIX)}


def test_a_model_that_does_what_is_asked_has_the_error_of_the_measure_alone():
    values = measured(Painter)
    names = {f"{do}/{j}" for do in ("floor", "untouched", "do(size)", "do(height)") for j in ("size", "height")}
    assert values.keys() == names | {"relative"}
    assert values["floor/size"] < 0.05  # of a range of 10: levels of grey
    assert values["untouched/size"] > 1
    assert all(values[f"{do}/{j}"] < 0.05 for do in ("do(size)", "do(height)") for j in ("size", "height"))
    assert values["relative"] < 0.03


def test_a_model_that_ignores_what_is_asked_scores_as_doing_nothing():
    values = measured(Ignorant)
    assert values["do(size)/size"] == pytest.approx(values["untouched/size"], abs=1e-4)
    assert values["do(height)/size"] == pytest.approx(values["floor/size"], abs=1e-4)


def measured_by_two() -> dict[str, float]:
    """In each of two processes."""
    return measured(Painter, devices=2, strategy="ddp_find_unused_parameters_true")


@pytest.mark.xdist_group("two_processes")
def test_two_processes_measure_like_one(two_processes: Pool):
    two, other = two_processes.run(measured_by_two)
    assert two == other == pytest.approx(measured(Painter), abs=1e-6)


def test_grids_are_drawn_into_the_runs_folder(tmp_path):
    data = Measured(ATTRIBUTES)
    grids = ImageGrids({"label": ["a", "b"]}, {"size": [1, 99]}, images=8)
    grids.check(data)
    logger = CSVLogger(tmp_path, name="", version="")
    quiet_trainer(tmp_path, logger=logger, callbacks=[grids]).validate(
        fitted(Painter, data), datamodule=data, verbose=False
    )
    drawn = {path.name.removeprefix("epoch=000-"): path.stat().st_size for path in (tmp_path / "images").iterdir()}
    assert drawn.keys() == {"reconstructions.png", "counterfactuals.png", "interpolations.png"}
    assert min(drawn.values()) > 1000
