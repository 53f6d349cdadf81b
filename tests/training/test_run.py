"""`train` as a function: what it returns, what it takes, and that it says nothing by itself."""

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import yaml

from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.training.run import train

QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(digits_cache):
    """Values that shrink the quickstart to seconds."""
    return {
        "data": {"limit": 300, "batch_size": 50, "cache_dir": str(digits_cache)},
        "model": {"width": 0.1},
        "trainer": QUIET | {"max_epochs": 1, "limit_train_batches": 2, "check_val_every_n_epoch": 1, "log_every_n_steps": 1,
                            "callbacks": []},
    }  # fmt: skip


def test_a_run_is_what_was_written(small, capsys, tmp_path):
    told: list[str] = []
    before = warnings.filters[:]
    run = train("quickstart", runs_dir=tmp_path / "mine", name="small", tell=told.append, **small)
    assert capsys.readouterr().out == ""
    memory, folder = told
    assert memory.startswith("memory: a training step on 50 images takes about ")
    assert folder == f"run folder: {tmp_path}/mine/small/001"
    assert warnings.filters[:] == before
    assert not logging.getLogger("pytorch_lightning.utilities.rank_zero").filters
    assert run.folder == tmp_path / "mine" / "small" / "001"
    assert (run.epochs, run.steps) == (1, 2)
    assert run.config == yaml.safe_load((run.folder / "config.yaml").read_text())
    frame = run.to_frame()
    assert list(frame.columns) == ["epoch", "step", "name", "value"]
    assert set(frame["name"]) == set(run.metrics) >= {"train/loss_d", "val/mse_x"}
    last = frame[frame["name"] == "train/loss_d"]["value"].iloc[-1]
    assert run.metrics["train/loss_d"] == pytest.approx(last)
    assert json.loads(json.dumps(run.to_dict()))["folder"] == str(run.folder)


def test_the_function_and_the_command_train_the_same(small, digits_cache):
    run = train("quickstart", **small, seed_everything=2)
    words = [
        "--config",
        "quickstart",
        "--data.limit",
        "300",
        "--data.batch_size",
        "50",
        "--data.cache_dir",
        str(digits_cache),
    ]
    words += ["--model.width", "0.1", "--seed_everything", "2"]
    words += [f"--trainer.{key}={json.dumps(value)}" for key, value in small["trainer"].items() if key != "accelerator"]
    assert fit.main([*words, "--trainer.accelerator=cpu"]) == 0
    other = torch.load("runs/quickstart/002/last.ckpt", weights_only=True)
    mine = torch.load(run.folder / "last.ckpt", weights_only=True)
    assert all(torch.equal(value, other["state_dict"][name]) for name, value in mine["state_dict"].items())
    assert yaml.safe_load(Path("runs/quickstart/002/config.yaml").read_text()) == run.config


def test_values_by_mapping_by_class_and_by_full_name_are_one(small):
    spelled = [
        {"model": {"width": 0.1, "betas": [0.1, 0.9], "lr_decay": False}},
        {"model": {"init_args": {"width": 0.1, "betas": (0.1, 0.9)}}, "model.lr_decay": False},
        {"model": {"class_path": "lightning_modules.HVAE", "init_args": {"width": 0.1, "betas": [0.1, 0.9], "lr_decay": False}}},
        {"model.width": 0.1, "model.betas": [0.1, 0.9], "model.lr_decay": False},
    ]  # fmt: skip
    del small["model"]  # or the last would name the width twice
    configs = [train("quickstart", **small | one).config["model"] for one in spelled]
    assert configs[0]["init_args"]["width"] == 0.1
    assert configs[0]["init_args"]["latent_dim"] == 64  # the config's own
    assert all(config == configs[0] for config in configs)


def test_several_configs_merge_and_a_run_is_gone_on_with(small, tmp_path):
    (tmp_path / "more.yaml").write_text("model: {init_args: {latent_dim: 7}}\n")
    first = train(["quickstart", tmp_path / "more.yaml"], **small)
    assert first.config["model"]["init_args"]["latent_dim"] == 7
    small["trainer"] = small["trainer"] | {"max_epochs": 2}
    second = train(["quickstart", tmp_path / "more.yaml"], ckpt_path="last", **small)
    assert (second.folder, second.epochs, second.steps) == (first.folder, 2, 4)
    other = train(["quickstart", tmp_path / "more.yaml"], ckpt_path=first.folder / "last.ckpt", name="other", **small)
    assert other.folder == Path("runs/other/001")


def test_a_trial_leaves_nothing(small):
    run = train("quickstart", **small | {"trainer": QUIET | {"fast_dev_run": True, "callbacks": []}})
    assert run.folder is None
    assert run.metrics == {}
    assert list(run.to_frame().columns) == ["epoch", "step", "name", "value"]
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("config", "overrides", "argument"),
    [
        ("quikstart", {}, "config"),
        ([], {}, "config"),
        ("quickstart", {"modle": {"width": 1}}, "modle"),
        ("quickstart", {"model": {"widht": 1}}, "model.widht"),
        ("quickstart", {"trainer.max_epoch": 1}, "trainer.max_epoch"),
        ("quickstart", {"trainer": {"callbacks": [object()]}}, "trainer.callbacks"),
        ("quickstart", {"data": {"batch_size": "many"}}, "data.batch_size"),
        ("quickstart", {"seed_everything": -1}, "seed_everything"),
    ],
)
def test_what_is_wrong_is_named_as_the_argument(config, overrides, argument):
    with pytest.raises(UserError) as refusal:
        train(config, **overrides)
    assert refusal.value.argument == argument
    assert "--" not in str(refusal.value)
    assert not Path("runs").exists()


@pytest.mark.filterwarnings("ignore:It is recommended to use")  # one process that looks like several to Lightning
def test_a_group_that_was_there_before_stays(small, tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        train("quickstart", **small)
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


SCRIPT = """
import json, os, sys
import torch.distributed as dist
from cfgen.training.run import train

small = json.loads(sys.argv[1])
for name in ("one", "two"):
    run = train("quickstart", name=name, **small)
    assert not dist.is_initialized()
    assert run.steps == 2
    assert (run.folder is None) == (os.environ.get("LOCAL_RANK", "0") != "0")
"""


@pytest.mark.slow
def test_a_script_trains_on_two_devices_twice(small, tmp_path):
    """Each call ends the process group that it started; the next one starts anew."""
    (tmp_path / "script.py").write_text(SCRIPT)
    small["trainer"] = small["trainer"] | {"devices": 2}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "script.py", json.dumps(small)],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(path.parts[1] for path in Path("runs").glob("*/001/finished.json")) == ["one", "two"]
