"""Scalars to CSV always; W&B offline, disabled or broken never stops a run."""

import csv

import pytest

from cfgen.training import tracking
from cfgen.training.tracking import ScalarCSV, wandb_logger


def test_scalars_are_appended(tmp_path):
    for part in range(2):  # a resumed run goes on in the same file
        ScalarCSV(tmp_path).log_metrics({"train/loss": 0.25, "epoch": part}, step=part)
    ScalarCSV(tmp_path).log_metrics({"val/mse": 1.5}, step=2)
    rows = list(csv.reader((tmp_path / "metrics.csv").open()))
    assert rows == [
        ["epoch", "step", "name", "value"],
        ["0", "0", "train/loss", "0.25"],
        ["1", "1", "train/loss", "0.25"],
        ["", "2", "val/mse", "1.5"],
    ]


def test_disabled(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert wandb_logger(tmp_path, {}, print) is None


@pytest.mark.slow
def test_offline_writes_into_the_run_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "offline")
    lines: list[str] = []
    logger = wandb_logger(tmp_path, {"model": {"width": 0.5}, "git_commit": "abc"}, lines.append)
    assert logger is not None
    assert logger.experiment.config["git_commit"] == "abc"
    logger.experiment.finish()
    assert list((tmp_path / "wandb").glob("offline-run-*"))
    assert ["wandb sync" in line for line in lines] == [True]
    assert capsys.readouterr().out == ""


def test_a_broken_wandb_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setattr("wandb.login", lambda **_: True)

    class Unreachable:
        def __init__(self, **_):
            raise ConnectionError("no route to host")

    monkeypatch.setattr(tracking, "WandbLogger", Unreachable)
    with pytest.warns(UserWarning, match="did not start (online|offline): no route to host"):
        assert wandb_logger(tmp_path, {}, print) is None


def test_the_run_id_is_made_once(tmp_path):
    assert tracking.run_id(tmp_path) == tracking.run_id(tmp_path)
