"""Training as users do it: every shipped config, resume, seeds, two processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from cfgen import fit
from cfgen.checkpoints import built
from cfgen.training.checks import check_names
from cfgen.training.parser import packaged_configs

ROOT = Path(fit.__file__).parents[1]

STOP_EARLY = """
import pytorch_lightning as pl

class PowerCut(pl.Callback):
    '''Ends the run after its first epoch, though it was to go on.'''
    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = True
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    return tmp_path


def weights(path: Path) -> dict[str, torch.Tensor]:
    return torch.load(path, weights_only=True)["state_dict"]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    "config",
    [name for name in packaged_configs() if name.startswith(("morphomnist_ali", "morphomnist_mod", "quickstart"))],
)
def test_every_config_trains_on_tiny_data(config, tiny, workplace):
    options = ["--data.source", "embedded", "--trainer.max_epochs", "1", "--trainer.check_val_every_n_epoch", "1"]
    options += ["--trainer.log_every_n_steps", "1"]
    assert fit.main(["--config", config, *tiny, *options]) == 0
    folder = workplace / "runs" / config / "001"
    names = {p.name for p in folder.iterdir()}
    assert {"best.ckpt", "last.ckpt", "config.yaml", "metrics.csv", "images"} <= names
    assert len(list((folder / "images").glob("*.png"))) == 3
    scalars = (folder / "metrics.csv").read_text()
    for key in (
        "train/loss_d",
        "val/mse_x",
        "val/median_abs_error/do(thickness)/intensity",
        "val/median_abs_error/floor/slant",
    ):
        assert f",{key}," in scalars
    assert not [p for p in folder.iterdir() if p.name.endswith(".part")]


@pytest.mark.parametrize("config", packaged_configs())
def test_every_config_resolves(config, capsys, monkeypatch):
    """Every class, option, attribute and monitored FID that a packaged config names exists."""
    with pytest.raises(SystemExit) as stopped:
        fit.main(["--config", config, "--print_config"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert "class_path: lightning_modules." in text
    monkeypatch.setattr("callbacks.fid.feature_network", lambda features: torch.nn.Identity())  # no download
    settings = yaml.safe_load(text)
    check_names([built(one) for one in settings["trainer"]["callbacks"]], built(settings["data"]))


def test_the_fid_that_is_monitored_must_be_measured(capsys):
    fid = {"class_path": "callbacks.FID", "init_args": {"features": "efficientnet_lite0"}}
    best = {"class_path": "callbacks.BestCheckpoint", "init_args": {"monitor": "val/fid_inception/generated"}}
    assert fit.main(["--config", "faces_styleali", "--trainer.callbacks", json.dumps([fid, best])]) == 2
    assert "monitor val/fid_efficientnet_lite0/generated" in capsys.readouterr().err


def test_resume_equals_uninterrupted_and_seeds_decide(tiny, workplace):
    (workplace / "power_cut.py").write_text(STOP_EARLY)
    run = ["--config", "quickstart", *tiny, "--trainer.max_epochs", "2", "--trainer.check_val_every_n_epoch", "1"]
    cut = ["--trainer.callbacks+", "power_cut.PowerCut"]
    assert fit.main([*run, "--name", "whole"]) == 0
    assert fit.main([*run, "--name", "cut", *cut]) == 0
    halfway = torch.load("runs/cut/001/last.ckpt", weights_only=True)
    assert halfway["global_step"] == 4  # 240 digits in batches of 50: one batch is one step, for two optimisers
    assert fit.main([*run, "--name", "cut", "--ckpt_path", "last"]) == 0
    assert not same(halfway["state_dict"], weights(Path("runs/cut/001/last.ckpt")))
    assert same(weights(Path("runs/whole/001/last.ckpt")), weights(Path("runs/cut/001/last.ckpt")))
    assert fit.main([*run, "--name", "other", "--seed_everything", "1"]) == 0
    assert not same(weights(Path("runs/whole/001/last.ckpt")), weights(Path("runs/other/001/last.ckpt")))


def test_a_models_data_must_match(tiny, tiny_run, capsys):
    """Resuming with other data settings is refused: the ranges the model learned would be wrong."""
    options = ["--data.seed", "5", "--trainer.max_epochs", "3", "--ckpt_path", str(tiny_run / "last.ckpt")]
    assert fit.main(["--config", "quickstart", *tiny, *options]) == 2
    assert "Use the same data settings" in capsys.readouterr().err


def test_unknown_names_in_callbacks_and_data_are_refused(tiny, capsys):
    assert fit.main(["--config", "quickstart", *tiny, "--data.source", "minst"]) == 2
    assert "unknown source 'minst'. Did you mean 'mnist'?" in capsys.readouterr().err
    assert fit.main(["--config", "quickstart", *tiny, "--data.edges", "[[thickness, intensty]]"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: edge thickness -> intensty: unknown attribute 'intensty'. Did you mean 'intensity'?")
    assert "Union" not in said
    grid = '{"class_path": "callbacks.ImageGrids", "init_args": {"rows": {"lable": [1]}, "columns": {}}}'
    assert fit.main(["--config", "quickstart", *tiny, "--trainer.callbacks", f"[{grid}]"]) == 2
    assert "unknown attribute 'lable'. Did you mean 'label'" in capsys.readouterr().err


TWO_PROCESSES = """
import json, sys
import pytorch_lightning as pl
import torch
import yaml
import cfgen
from callbacks import MedianAbsError
from datamodules import MorphoMNIST

devices, run, cache = int(sys.argv[1]), sys.argv[2], sys.argv[3]

class Replicas(pl.Callback):
    '''Compares all weights across processes at the end of training.'''
    def on_train_end(self, trainer, module):
        mine = torch.cat([p.detach().flatten() for p in module.parameters()])
        everyone = trainer.strategy.all_gather(mine).reshape(-1, len(mine))
        trainer.equal = bool((everyone == everyone[0]).all()) and len(everyone) == devices

data = MorphoMNIST(limit=300, batch_size=25, cache_dir=cache)
quiet = dict(accelerator="cpu", devices=devices, logger=False, enable_checkpointing=False, enable_progress_bar=False,
             enable_model_summary=False)
if devices > 1:
    quiet["strategy"] = "ddp_find_unused_parameters_true"
measure = MedianAbsError(images=25)
trainer = pl.Trainer(**quiet, callbacks=[measure])
(metrics,) = trainer.validate(cfgen.load(run).module, datamodule=data, verbose=False)
pl.seed_everything(0)
trainer = pl.Trainer(**quiet, max_steps=2, callbacks=[Replicas()], limit_val_batches=0)
trainer.fit(cfgen.load(run).module.train(), datamodule=data)
if trainer.is_global_zero:
    measured = {k: v for k, v in metrics.items() if "median_abs_error" in k}
    print(json.dumps({"equal": trainer.equal, "steps": trainer.global_step, "metrics": measured}))
"""


@pytest.mark.slow
def test_two_processes_keep_equal_replicas_and_measure_like_one(tiny_run, digits_cache, workplace):
    (workplace / "two.py").write_text(TWO_PROCESSES)
    results = []
    for devices in ("1", "2"):
        command = [sys.executable, "two.py", devices, str(tiny_run), str(digits_cache)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        results.append(json.loads(done.stdout.strip().splitlines()[-1]))
    one, two = results
    assert two["equal"]
    assert one["steps"] == two["steps"] == 2
    assert len(one["metrics"]) == 16
    for key, value in one["metrics"].items():
        assert two["metrics"][key] == pytest.approx(value, rel=1e-4)


@pytest.mark.slow
def test_the_shipped_config_on_two_devices(tiny, workplace):
    command = [sys.executable, "-m", "cfgen.fit", "--config", "quickstart", *tiny, "--data.batch_size", "25"]
    command += ["--trainer.devices", "2", "--trainer.accelerator", "cpu", "--trainer.max_epochs", "2"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [p.name for p in (workplace / "runs/quickstart").iterdir()] == ["001"]
    assert torch.load(workplace / "runs/quickstart/001/last.ckpt", weights_only=True)["global_step"] == 8


@pytest.mark.slow
def test_under_torchrun_with_two_nodes(tiny, workplace):
    """Two nodes of one process each, on this machine: rank 0 alone writes."""
    port = 20000 + os.getpid() % 20000
    nodes = []
    for rank in (0, 1):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"]
        command += [
            "--node_rank",
            str(rank),
            "--master_addr",
            "127.0.0.1",
            "--master_port",
            str(port),
            "-m",
            "cfgen.fit",
        ]
        command += ["--config", "quickstart", *tiny, "--data.batch_size", "25", "--trainer.max_epochs", "2"]
        command += ["--trainer.accelerator", "cpu", "--trainer.devices", "1", "--trainer.num_nodes", "2"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
        nodes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    for node in nodes:
        output, _ = node.communicate(timeout=600)
        assert node.returncode == 0, output[-3000:]
    assert [p.name for p in (workplace / "runs/quickstart").iterdir()] == ["001"]
