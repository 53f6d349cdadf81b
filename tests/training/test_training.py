"""Training as users do it: resume, seeds, data that must match, two processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from callbacks import MedianAbsError
from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.runs.model import load_mechanism
from datamodules import MorphoMNIST
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

ROOT = Path(__file__).parents[2]

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


def test_the_fid_that_is_monitored_must_be_measured():
    fid = {"class_path": "callbacks.FID", "init_args": {"features": "efficientnet_lite0"}}
    best = {"class_path": "callbacks.BestCheckpoint", "init_args": {"monitor": "val/fid_inception/generated"}}
    with pytest.raises(UserError, match="monitor val/fid_efficientnet_lite0/generated") as refusal:
        fit.fit(["--config", "faces_styleali", "--trainer.callbacks", json.dumps([fid, best])])
    assert refusal.value.argument == "trainer.callbacks"


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


def test_a_models_data_must_match(tiny, tiny_run):
    """Resuming with other data settings is refused: the ranges the model learned would be wrong."""
    options = ["--data.seed", "5", "--trainer.max_epochs", "3", "--ckpt_path", str(tiny_run / "last.ckpt")]
    with pytest.raises(UserError, match="the same data settings"):
        fit.fit(["--config", "quickstart", *tiny, *options])


GRID = {"class_path": "callbacks.ImageGrids", "init_args": {"rows": {"lable": [1]}, "columns": {}}}


@pytest.mark.parametrize(
    ("words", "nearest", "argument"),
    [
        (["--data.source", "minst"], "mnist", None),
        (["--data.edges", "[[thickness, intensty]]"], "intensity", None),
        (["--trainer.callbacks", json.dumps([GRID])], "label", "trainer.callbacks"),
        (["--model.generator", "moduated"], "modulated", "model.generator"),
    ],
)
def test_unknown_names_in_callbacks_data_and_model_are_refused(words, nearest, argument, tiny):
    with pytest.raises(UserError, match=f"Did you mean '{nearest}'") as refusal:
        fit.fit(["--config", "quickstart", "--model", "lightning_modules.CondALI", *tiny, *words])
    assert argument is None or refusal.value.argument == argument
    assert "Union" not in str(refusal.value)  # the parser's types are none of the user's business
    assert not Path("runs").exists()


def measured(devices: int, run: str, cache: str) -> dict[str, float]:
    """What validation logs; in each of several processes."""
    data = MorphoMNIST(limit=300, batch_size=25, cache_dir=cache)
    strategy = "ddp_find_unused_parameters_true" if devices > 1 else "auto"
    trainer = quiet_trainer(Path(), devices=devices, strategy=strategy, callbacks=[MedianAbsError(images=25)])
    (metrics,) = trainer.validate(load_mechanism(run), datamodule=data, verbose=False)
    return {key: value for key, value in metrics.items() if "median_abs_error" in key}


def trained(run: str, cache: str) -> tuple[int, dict[str, torch.Tensor]]:
    """The weights after two steps, on each of two processes."""
    data = MorphoMNIST(limit=300, batch_size=25, cache_dir=cache)
    pl.seed_everything(0)
    strategy = "ddp_find_unused_parameters_true"
    trainer = quiet_trainer(Path(), devices=2, strategy=strategy, max_steps=2, limit_val_batches=0)
    module = load_mechanism(run).train()
    trainer.fit(module, datamodule=data)
    return trainer.global_step, dict(module.named_parameters())


@pytest.mark.xdist_group("two_processes")
def test_two_processes_keep_equal_replicas(tiny_run, digits_cache, two_processes: Pool):
    (steps, one), (_, other) = two_processes.run(trained, str(tiny_run), str(digits_cache))
    assert steps == 2
    assert same(one, other)
    before = dict(load_mechanism(tiny_run).named_parameters())
    assert not same(one, before)


@pytest.mark.xdist_group("two_processes")
def test_two_processes_measure_like_one(tiny_run, digits_cache, two_processes: Pool):
    one = measured(1, str(tiny_run), str(digits_cache))
    two, other = two_processes.run(measured, 2, str(tiny_run), str(digits_cache))
    assert len(one) == 16
    assert two == pytest.approx(one, rel=1e-4, nan_ok=True)
    assert two == pytest.approx(other, rel=0, nan_ok=True)


@pytest.mark.slow
def test_the_shipped_config_on_two_devices(tiny, workplace):
    command = [
        sys.executable,
        "-m",
        "cfgen.fit",
        "--config",
        "quickstart",
        *[{"50": "25"}.get(word, word) for word in tiny],
    ]
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
        command += [
            "--config",
            "quickstart",
            *[{"50": "25"}.get(word, word) for word in tiny],
            "--trainer.max_epochs",
            "2",
        ]
        command += ["--trainer.accelerator", "cpu", "--trainer.devices", "1", "--trainer.num_nodes", "2"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
        nodes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    for node in nodes:
        output, _ = node.communicate(timeout=600)
        assert node.returncode == 0, output[-3000:]
    assert [p.name for p in (workplace / "runs/quickstart").iterdir()] == ["001"]
