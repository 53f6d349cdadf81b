"""FID during training: what it refuses, what it logs, a checkpoint chosen by it, and two processes against one."""

import csv
from pathlib import Path

import pytest
import torch

from callbacks import FID
from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.runs.model import load_mechanism
from datamodules import MorphoMNIST
from tests.fakes import Painted
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

OF_MY_OWN = """
import torch
from torch import nn

class Strokes(nn.Module):
    '''Means of rows and columns.'''
    num_features = 56
    def forward(self, x):
        return torch.cat([x.mean(dim=(1, 2)), x.mean(dim=(1, 3))], dim=1)
"""
CALLBACKS = """
trainer:
  check_val_every_n_epoch: 1
  callbacks:
    - class_path: callbacks.FID
      init_args:
        do: [{label: 3}, {thickness: 2.5, label: 1}]
        images: 20
        every_n_epochs: 2
        features: strokes_of_my_own:Strokes
    - class_path: callbacks.BestCheckpoint
      init_args: {monitor: val/fid_Strokes/generated}
"""
STOP_EARLY = """
import pytorch_lightning as pl

class PowerCut(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = True
"""
SCHEMA = {"Bangs": {"kind": "binary"}, "label": {"kind": "categorical", "values": [0, 1]}, "t": {"kind": "continuous"}}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    (tmp_path / "strokes_of_my_own.py").write_text(OF_MY_OWN)
    (tmp_path / "power_cut.py").write_text(STOP_EARLY)
    (tmp_path / "fid.yaml").write_text(CALLBACKS)
    return tmp_path


def logged(run: Path) -> dict[tuple[str, int], float]:
    """FIDs by name and step."""
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {(row["name"], int(row["step"])): float(row["value"]) for row in rows if "fid_" in row["name"]}


def test_names_and_values_are_checked_before_any_data_is_read(workplace):
    def check(**do: object) -> None:
        FID([do], features="strokes_of_my_own:Strokes").check(Painted(SCHEMA))

    check(Bangs=1, label=0, t=99)  # the range of t is that of the data
    with pytest.raises(ValueError, match="unknown attribute 'Bang'. Did you mean 'Bangs'"):
        check(Bang=1)
    with pytest.raises(ValueError, match="do.Bangs=2. is out of range"):
        check(Bangs=2)
    with pytest.raises(ValueError, match="unknown value '7'"):
        check(label=7)
    with pytest.raises(ValueError, match="sets no attribute"):
        check()
    with pytest.raises(UserError, match="unknown network 'efficientnet'. Did you mean 'efficientnet_lite0'"):
        FID(features="efficientnet").check(Painted(SCHEMA))
    with pytest.raises(ValueError, match="images is at least 2"):
        FID(images=1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["images", "1"], "images is at least 2, not 1"),
        (["features", "strokes_of_my_own:Stroke"], "Did you mean 'Strokes'"),
        (["do", "[{lable: 3}]"], "Did you mean 'label'"),
        (["do", "[{thickness: 99}]"], "do(thickness=99) is out of range"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_line(options, told, tiny, workplace, capsys):
    name, value = options
    run = ["--config", "quickstart", *tiny, "--trainer.callbacks", "callbacks.FID"]
    run += ["--trainer.callbacks.features", "strokes_of_my_own:Strokes"] if name != "features" else []
    assert fit.main([*run, f"--trainer.callbacks.{name}", value]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len([line for line in error.splitlines() if line.startswith("error:")]) == 1


def test_a_run_keeps_the_best_by_fid_and_no_network_in_its_checkpoints(tiny, workplace):
    run = ["--config", "quickstart", *tiny, "--config", "fid.yaml", "--trainer.max_epochs", "3"]
    assert fit.main([*run, "--name", "whole"]) == 0
    whole = logged(workplace / "runs/whole/001")
    keys = ["generated", "do(label=3)", "do(thickness=2.5,label=1)"]
    assert {name for name, _ in whole} == {f"val/fid_Strokes/{key}" for key in keys}
    assert len(whole) == 6  # in epochs 0 and 2
    assert all(value > 0 for value in whole.values())
    by_step = {step: value for (name, step), value in whole.items() if name.endswith("generated")}
    best = torch.load(workplace / "runs/whole/001/best.ckpt", weights_only=True)
    assert best["global_step"] == min(by_step, key=by_step.get) + 1
    assert not [name for name in best["state_dict"] if "inception" in name or "features" in name]


def test_a_resumed_run_measures_what_the_uninterrupted_one_does(tiny, workplace):
    (workplace / "fid.yaml").write_text(CALLBACKS)
    run = ["--config", "quickstart", *tiny, "--config", "fid.yaml", "--trainer.max_epochs", "3"]
    assert fit.main([*run, "--name", "whole"]) == 0
    assert fit.main([*run, "--name", "cut", "--trainer.callbacks+", "power_cut.PowerCut"]) == 0
    assert fit.main([*run, "--name", "cut", "--ckpt_path", "last"]) == 0
    whole, cut = (logged(workplace / "runs" / name / "001") for name in ("whole", "cut"))
    assert len(whole) == 6
    assert cut == pytest.approx(whole, rel=1e-5)


def measured(devices: int, run: str, cache: str) -> dict[str, float]:
    """What the callback logs; in each of several processes."""
    module, data = load_mechanism(run), MorphoMNIST(limit=300, batch_size=25, cache_dir=cache)
    callback = FID([{"label": 3}], 30, features="tests.fakes:Strokes")
    strategy = "ddp" if devices > 1 else "auto"
    trainer = quiet_trainer(Path(), devices=devices, strategy=strategy, callbacks=[callback])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cfgen.metrics.fid.AT_ONCE", 7)
        (metrics,) = trainer.validate(module, datamodule=data, verbose=False)
    return {name: value for name, value in metrics.items() if "fid" in name}


@pytest.mark.xdist_group("two_processes")
def test_two_processes_measure_like_one(tiny_run, digits_cache, two_processes: Pool):
    one = measured(1, str(tiny_run), str(digits_cache))
    two, other = two_processes.run(measured, 2, str(tiny_run), str(digits_cache))
    assert set(one) == {"val/fid_Strokes/generated", "val/fid_Strokes/do(label=3)"}
    assert two == pytest.approx(one, rel=1e-4)
    assert two == other
