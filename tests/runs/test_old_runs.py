"""Runs that an earlier version saved: an option that was ignored then does not stop them from being read."""

import shutil

import pytest
import yaml

from cfgen.commands import fit, generate
from cfgen.errors import UserError, WithoutEffect
from cfgen.runs.data import run_data
from datamodules import MorphoMNIST


@pytest.fixture
def old_run(tiny_run, tmp_path, monkeypatch):
    """With a folder for digits that are read from none."""
    run = shutil.copytree(tiny_run, tmp_path / "runs" / "old" / "001")
    change(run, data_dir=str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return run


def change(run, **options):
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"]["init_args"] |= options
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def test_what_is_refused_of_a_new_run_is_ignored_in_a_saved_one_and_said(old_run, caplog):
    with pytest.raises(WithoutEffect) as refusal:
        MorphoMNIST(data_dir="digits")
    assert refusal.value.argument == "data_dir"
    data = run_data(old_run)
    assert isinstance(data, MorphoMNIST)
    assert [record.getMessage() for record in caplog.records] == [
        f"{old_run / 'config.yaml'}: data.data_dir has no effect and is ignored"
    ]


def test_commands_take_it(old_run):
    assert generate.main([str(old_run), "--do", "thickness=3", "--out", "made.png"]) == 0


def test_it_goes_on(old_run):
    assert fit.main(["--config", str(old_run / "config.yaml")]) == 2  # a new run, whose config is the user's to correct
    (old_run / "finished.json").unlink(missing_ok=True)
    assert fit.main(["--ckpt_path", str(old_run)]) == 0
    assert yaml.safe_load((old_run / "config.yaml").read_text())["data"]["init_args"]["data_dir"] is None


def test_all_else_is_still_refused(old_run):
    change(old_run, source="nowhere")
    with pytest.raises(UserError, match="nowhere"):
        run_data(old_run)
