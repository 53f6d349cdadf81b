"""Runs that need an earlier run, as users type them: trained first, used, resumed, refused."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.runs.model import load_trained
from cfgen.training.cli import FitCLI
from cfgen.training.run import train
from cfgen.training.stages import plan
from datamodules import Faces

ROOT = Path(__file__).parents[2]

POWER_CUT = """
import os
import pytorch_lightning as pl

class StageCut(pl.Callback):
    '''Interrupts the run that the environment names, after its first epoch.'''
    def __init__(self, run: str) -> None:
        self.run = run
    def on_train_epoch_end(self, trainer, module):
        if os.environ.get("CUT") == self.run and trainer.current_epoch == 1:
            raise KeyboardInterrupt
"""

CONFIG = """
model:
  class_path: lightning_modules.{model}
  init_args: {arguments}
data:
  class_path: datamodules.MorphoMNIST
  init_args: {{limit: 300, batch_size: {batch_size}, cache_dir: {cache}}}
trainer:
  max_epochs: 2
  limit_train_batches: 3
  accelerator: cpu
  num_sanity_val_steps: 0
  enable_progress_bar: false
  callbacks:
    - class_path: callbacks.BestCheckpoint
      init_args: {{monitor: val/mse_x}}
    - class_path: stage_cut.StageCut
      init_args: {{run: {name}}}
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch, digits_cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    (tmp_path / "stage_cut.py").write_text(POWER_CUT)
    models = {
        "first": ("StyleALI", 25, "{width: 0.05, latent_dim: 8, lr_decay: true}"),
        "second": ("CyclicEncoder", 40, "{mechanism: first.yaml, lr_decay: true}"),
    }
    for name, (model, batch_size, arguments) in models.items():
        text = CONFIG.format(model=model, arguments=arguments, cache=digits_cache, name=name, batch_size=batch_size)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def weights(path: str) -> dict[str, torch.Tensor]:
    return torch.load(path, weights_only=True)["state_dict"]


def runs(folder: str = "runs") -> set[str]:
    """The runs there are, those that were trained to their end marked."""
    return {
        f"{path.parent.name}/{path.name}{' finished' if (path / 'finished.json').is_file() else ''}"
        for path in Path(folder).glob("*/*")
    }


def test_one_command_trains_all_stages_and_survives_interruptions(monkeypatch, capsys):
    command = ["--config", "second.yaml"]
    for cut, left in [("first", {"first/001"}), ("second", {"first/001 finished", "second/001"})]:
        monkeypatch.setenv("CUT", cut)
        assert fit.main(command) == 130
        assert runs() == left
    said = capsys.readouterr().out
    assert "interrupted. The same command goes on with runs/first/001\n" in said
    assert "interrupted. `cfgen fit --ckpt_path runs/second/001` goes on with it\n" in said
    assert "runs/first/001 was interrupted: going on with it" in said
    trained_once = Path("runs/first/001/last.ckpt").stat().st_mtime_ns
    monkeypatch.delenv("CUT")
    assert fit.main(command) == 0
    assert runs() == {"first/001 finished", "second/001 finished"}
    assert Path("runs/first/001/last.ckpt").stat().st_mtime_ns == trained_once
    # the same to the bit as what was never interrupted
    assert fit.main([*command, "--runs_dir", "whole"]) == 0
    one, other = weights("runs/second/001/last.ckpt"), weights("whole/second/001/last.ckpt")
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    # a finished last stage is not gone on with: the command asks for a new run of it
    assert fit.main(command) == 0
    assert runs() == {"first/001 finished", "second/001 finished", "second/002 finished"}


def test_an_interrupted_run_of_another_config_is_left_alone(monkeypatch):
    monkeypatch.setenv("CUT", "first")
    assert fit.main(["--config", "second.yaml"]) == 130
    text = Path("first.yaml").read_text()
    Path("first.yaml").write_text(text.replace("latent_dim: 8", "latent_dim: 9"))
    monkeypatch.delenv("CUT")
    assert fit.main(["--config", "second.yaml"]) == 0
    assert runs() == {"first/001", "first/002 finished", "second/001 finished"}


def test_an_earlier_run_that_does_not_fit_is_refused_with_the_command_that_makes_one(capsys):
    assert fit.main(["--config", "second.yaml", "--trainer.max_epochs", "1"]) == 0
    others = ["--data.attributes", "[thickness,intensity,label]"]
    assert fit.main(["--config", "second.yaml", *others]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --model.mechanism: runs/first/001 was trained with other attributes (slant) than ")
    command = shlex.split(error.split("Make one that does: cfgen fit ")[1])
    with pytest.raises(UserError, match="Name another run$") as refusal:
        fit.fit(["--config", "second.yaml", *others, "--model.mechanism", "runs/first/001"])
    assert refusal.value.argument == "model.mechanism"
    assert runs() == {"first/001 finished", "second/001 finished"}
    # the command does make one, and of the two runs there are now each is used where it fits
    assert fit.main([*command, "--trainer.max_epochs", "1"]) == 0
    capsys.readouterr()
    for words, builds_on in (([], "001"), (others, "002")):
        assert fit.main(["--config", "second.yaml", "--trainer.max_epochs", "1", *words]) == 0
        assert f"second builds on runs/first/{builds_on}\n" in capsys.readouterr().out


def test_a_trial_with_other_settings_does_not_displace_the_run_that_the_config_asks_for(capsys):
    quick = ["--trainer.max_epochs", "1"]
    assert fit.main(["--config", "first.yaml", *quick]) == 0
    assert fit.main(["--config", "second.yaml", *quick]) == 0
    assert "second builds on runs/first/001\n" in capsys.readouterr().out  # all there is, and said
    assert fit.main(["--config", "first.yaml"]) == 0
    assert fit.main(["--config", "first.yaml", *quick, "--model.mapping_layers", "2"]) == 0
    capsys.readouterr()
    assert fit.main(["--config", "second.yaml", *quick]) == 0
    assert "second builds on runs/first/002\n" in capsys.readouterr().out


@pytest.mark.parametrize("mechanism", ["faces_stylali", "runs/nowhere/001", "."])
def test_what_is_no_run_and_no_config_is_refused(mechanism):
    with pytest.raises(UserError) as refusal:
        fit.fit(["--config", "second.yaml", "--model.mechanism", mechanism])
    assert refusal.value.argument == "model.mechanism"
    assert runs() == set()


def test_stages_share_the_data_and_batch_it_as_they_like():
    assert fit.main(["--config", "second.yaml", "--trainer.max_epochs", "1", "--data.seed", "3"]) == 0
    settings = {}
    for name in ("first", "second"):
        settings[name] = yaml.safe_load(Path(f"runs/{name}/001/config.yaml").read_text())["data"]["init_args"]
    assert {name: found.pop("batch_size") for name, found in settings.items()} == {"first": 25, "second": 40}
    assert settings["first"] == settings["second"]
    assert settings["first"]["seed"] == 3


GRID = '{"class_path": "callbacks.ImageGrids", "init_args": {"rows": {"lable": [1]}, "columns": {}}}'


@pytest.mark.parametrize("stage", ["first", "second"])
def test_names_in_every_stage_are_checked_before_the_first_is_trained(stage):
    config = yaml.safe_load(Path(f"{stage}.yaml").read_text())
    config["trainer"]["callbacks"] = json.loads(f"[{GRID}]")
    Path(f"{stage}.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UserError, match="Did you mean 'label'") as refusal:
        fit.fit(["--config", "second.yaml"])
    assert refusal.value.argument == "trainer.callbacks"
    assert runs() == set()


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--trainer.fast_dev_run", "true"], "trainer.fast_dev_run"),  # it would leave no run to build on
        (["--ckpt_path", "nowhere.ckpt"], "ckpt_path"),
        (["--model.mechanism", "circle.yaml"], "model.mechanism"),  # which needs itself
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_before_anything_is_trained(words, argument):
    Path("circle.yaml").write_text(Path("second.yaml").read_text().replace("first.yaml", "circle.yaml"))
    with pytest.raises(UserError) as refusal:
        fit.fit(["--config", "second.yaml", *words])
    assert refusal.value.argument == argument
    assert runs() == set()


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The names of the configs that were parsed, in order."""
    names = []
    parse = FitCLI.parse_arguments

    def counted(cli, parser, words):
        parse(cli, parser, words)
        names.append(cli.config.name)

    monkeypatch.setattr(FitCLI, "parse_arguments", counted)
    return names


def test_a_plan_resolves_each_config_once(parsed, workplace):
    """Four configs, four parses, and nothing made."""
    steps = plan(["--config", "celeba_fair_classifier_cpu", "--data.data_dir", str(workplace)])
    expected = ["celeba_classifier_cpu", "celeba_styleali_cpu", "celeba_csali_cpu", "celeba_fair_classifier_cpu"]
    assert [step.name for step in steps] == expected
    assert sorted(parsed) == sorted(expected)
    assert [step.needed_by for step in steps] == [expected[3], expected[2], expected[3], None]
    assert steps[-1].builds_on == {"classifier": steps[0], "mechanism": steps[2]}
    assert runs() == set()


def test_training_parses_no_more_than_the_plan(parsed):
    quick = {"max_epochs": 1}
    train("second.yaml", trainer=quick)
    assert parsed == ["second", "first"]
    parsed.clear()
    train("second.yaml", trainer=quick)  # the first is finished: its config says which of its runs fits
    assert parsed == ["second", "first"]
    parsed.clear()
    train("second.yaml", trainer=quick, model={"mechanism": "runs/first/001"})
    assert parsed == ["second"]


@pytest.mark.slow
def test_the_celeba_recipe_as_it_ships(workplace):
    """celeba_csali_cpu with all its stages, through CelebA's loader, on drawn faces in CelebA's layout."""
    faces = Faces(count=40, cache_dir="drawn")
    faces.prepare_data()
    names = list(faces.scm_spec["attributes"])
    words = ["--config", "celeba_csali_cpu", "--data.data_dir", str(faces.folder()), "--data.cache_dir", "packed"]
    words += ["--data.attributes", json.dumps(names), "--trainer.accelerator", "cpu"]
    assert fit.main(words) == 0
    assert runs() == {"celeba_styleali_cpu/001 finished", "celeba_csali_cpu/001 finished"}
    model = load_trained("runs/celeba_csali_cpu")
    assert model.schema.names == names
    assert type(model.module.ali).__name__ == "StyleALI"


@pytest.mark.slow
def test_two_processes_go_through_the_stages_together(workplace):
    text = Path("first.yaml").read_text().replace("limit_train_batches: 3", "limit_train_batches: 1.0")
    Path("first.yaml").write_text(text)
    command = [sys.executable, "-m", "cfgen.fit", "--config", "second.yaml", "--trainer.devices", "2"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{workplace}"}
    for cut, code, left in [
        ("first", 130, {"first/001"}),
        ("", 0, {"first/001 finished", "second/001 finished"}),
    ]:
        done = subprocess.run(
            command, env=environment | {"CUT": cut}, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == code, done.stderr[-3000:]
        assert runs() == left
    steps = torch.load("runs/first/001/last.ckpt", weights_only=True)["global_step"]
    assert steps == 2 * (240 // 2 // 25)  # each process has half of the 240 digits
