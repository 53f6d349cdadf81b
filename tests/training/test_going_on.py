"""Runs that are cut off and go on: wherever it happens, the end is that of the run that never stopped, to the bit."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.runs.folders import writing
from cfgen.training.run import train
from tests.training.small import BATCHES, PowerCut

ROOT = Path(__file__).parents[2]
EVERY_BATCH = "{class_path: callbacks.Autosave, init_args: {minutes: 1.0e-9}}"
BEST = "{class_path: callbacks.BestCheckpoint, init_args: {monitor: val/loss}}"
CONFIG = """
model: {class_path: tests.training.small.SmallModel}
data: {class_path: tests.training.small.SmallData}
trainer:
  accelerator: cpu
  max_epochs: 2
  log_every_n_steps: 1
  enable_progress_bar: false
  enable_model_summary: false
  callbacks: [%s]
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    Path("small.yaml").write_text(CONFIG % f"{BEST}, {EVERY_BATCH}")
    return tmp_path


def config_with(cut: str, name: str = "cut.yaml", callbacks: str = f"{BEST}, {EVERY_BATCH}") -> str:
    cut = f"{{class_path: tests.training.small.Cut, init_args: {{{cut}}}}}"
    Path(name).write_text(CONFIG % f"{callbacks}, {cut}")
    return name


def last(folder: str) -> dict:
    return torch.load(Path(folder) / "last.ckpt", weights_only=True)


def same(one: str, other: str) -> bool:
    """Whether two runs ended alike: weights, optimisers, schedules, counters and what was logged."""
    a, b = last(one), last(other)
    assert a["state_dict"].keys() == b["state_dict"].keys()
    moments = [[s["exp_avg"] for o in x["optimizer_states"] for s in o["state"].values()] for x in (a, b)]
    return (
        all(torch.equal(value, b["state_dict"][name]) for name, value in a["state_dict"].items())
        and all(torch.equal(m, n) for m, n in zip(*moments, strict=True))
        and a["lr_schedulers"] == b["lr_schedulers"]
        and a["global_step"] == b["global_step"]
        and Path(one, "metrics.csv").read_text() == Path(other, "metrics.csv").read_text()
        and Path(one, "finished.json").read_text() == Path(other, "finished.json").read_text()
    )


def on_from(said: str) -> list[str]:
    """The words of the command that a message names."""
    (command,) = re.findall(r"`cfgen fit ([^`]+)`", said)
    return shlex.split(command)


LONGER = {
    "epochs": {},
    "steps": {"trainer.max_epochs": -1, "trainer.max_steps": 2 * BATCHES},
    "validated within epochs": {"trainer.val_check_interval": 0.5},
    "validated seldom": {"trainer.check_val_every_n_epoch": 2},
}


@pytest.mark.parametrize("how", LONGER)
def test_a_run_killed_in_any_batch_ends_like_the_whole_one(how):
    """Nothing is saved when it happens: it goes on from what was saved before, in the middle of an epoch."""
    train("small.yaml", name="whole", **LONGER[how])
    cuts = [0, 3, 5, BATCHES - 1, BATCHES, 2 * BATCHES - 1] if how == "epochs" else [5, BATCHES]
    for number, batch in enumerate(cuts, 1):
        Path("cut").unlink(missing_ok=True)
        with pytest.raises(PowerCut):
            train(config_with(f"batch: {batch}"), **LONGER[how])
        folder = f"runs/cut/{number:03d}"
        assert not Path(folder, "last.ckpt").exists() or last(folder)["global_step"] == batch
        run = train(ckpt_path=folder)
        assert (str(run.folder), run.epochs, run.steps) == (folder, 2, 2 * BATCHES)
        assert same(folder, "runs/whole/001"), batch


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_a_signal_loses_nothing_and_says_how_to_go_on(name, code, capsys):
    callbacks = BEST  # no autosave for ten minutes: the signal itself saves
    Path("small.yaml").write_text(CONFIG % callbacks)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert fit.main(["--config", "small.yaml", "--name", "whole"]) == 0
    assert fit.main(["--config", config_with(f"batch: 12, signal: {name}", callbacks=callbacks)]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert last("runs/cut/001")["global_step"] == 13  # the batch in which it came is trained to its end
    assert not Path("runs/cut/001/finished.json").exists()
    (said,) = [line for line in out.splitlines() if line.startswith("interrupted")]
    assert on_from(said) == ["--ckpt_path", "runs/cut/001"]
    assert fit.main(on_from(said)) == 0
    assert same("runs/cut/001", "runs/whole/001")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize(
    "hook", ["setup", "on_fit_start", "on_sanity_check_start", "on_train_start", "on_train_batch_start"]
)
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_before_the_first_checkpoint_too_somebody_is_told(hook, name, code, capsys):
    callbacks = "" if hook == "on_train_batch_start" else BEST
    words = ["--config", config_with(f"hook: {hook}, signal: {name}", callbacks=callbacks or BEST)]
    words += ["--trainer.max_epochs", "1"]
    assert fit.main(words) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    (said,) = [line for line in out.splitlines() if line.startswith("interrupted")]
    if hook == "on_train_batch_start":  # the batch was trained to its end
        assert on_from(said) == ["--ckpt_path", "runs/cut/001"]
    else:
        assert said.endswith("the same command starts it anew")
    assert fit.main(words) == 0
    assert Path("runs/cut/002/finished.json").is_file()
    assert fit.main(["--ckpt_path", "runs/cut/001"]) == 0  # and so does its folder
    assert same("runs/cut/001", "runs/cut/002")


def test_a_real_recipe_goes_on_in_the_middle_of_an_epoch(tiny):
    """Two optimisers, moving averages, schedules: the quickstart."""
    words = ["--config", "quickstart", *tiny, "--trainer.max_epochs", "1", "--trainer.limit_val_batches", "0"]
    words += ["--trainer.callbacks", "callbacks.BestCheckpoint", "--model.lr_decay", "true"]
    words += ["--trainer.log_every_n_steps", "1"]
    assert fit.main([*words, "--name", "whole"]) == 0
    cut = ["--trainer.callbacks+", "tests.training.small.Cut", "--trainer.callbacks.batch", "2"]
    assert fit.main([*words, *cut, "--name", "cut", "--trainer.callbacks.signal", "SIGTERM"]) == 143
    assert last("runs/cut/001")["global_step"] == 3
    assert fit.main(["--ckpt_path", "runs/cut/001"]) == 0
    assert same("runs/cut/001", "runs/whole/001")


@pytest.fixture
def half() -> Path:
    """A run that was cut off in the middle of its first epoch."""
    assert fit.main(["--config", config_with("batch: 4, signal: SIGTERM")]) == 143
    return Path("runs/cut/001")


def test_copied_moved_and_renamed_runs_go_on_in_place(half, capsys):
    """Breakage 3: the advice for one run trained another, or failed."""
    before = (half / "last.ckpt").read_bytes()
    shutil.copytree(half, "runs/Renamed/001")
    shutil.copytree(half, "elsewhere/it's moved/007")
    for folder in ("runs/Renamed/001", "elsewhere/it's moved/007"):
        assert fit.main(["--config", f"{folder}/config.yaml", "--ckpt_path", "last"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: --ckpt_path: ")
        assert on_from(error) == ["--ckpt_path", folder]
        assert fit.main(on_from(error)) == 0
        assert last(folder)["global_step"] == 2 * BATCHES
        assert (half / "last.ckpt").read_bytes() == before
    assert fit.main(["--config", str(half / "config.yaml"), "--ckpt_path", "last"]) == 0  # names that very run
    assert same(str(half), "runs/Renamed/001")
    assert sorted(path.name for path in Path("runs").glob("*/*")) == ["001", "001"]


def test_a_moved_run_keeps_its_best(workplace):
    """The callback remembers a path; in another folder it would take the next model for the best."""
    train("small.yaml")
    shutil.move("runs/small/001", "moved")
    best = Path("moved/best.ckpt").read_bytes()
    train(ckpt_path="moved", **{"trainer.max_epochs": 3})
    key = next(key for key in last("moved")["callbacks"] if key.startswith("BestCheckpoint"))
    state = last("moved")["callbacks"][key]
    losses = [
        float(line.split(",")[3]) for line in Path("moved/metrics.csv").read_text().splitlines() if "val/loss" in line
    ]
    assert len(losses) == 3
    assert state["best_model_score"].item() == pytest.approx(min(losses))
    assert state["best_model_path"] == "moved/best.ckpt"
    assert (Path("moved/best.ckpt").read_bytes() == best) == (losses[2] > min(losses[:2]))


def test_the_runs_own_settings_win_and_a_value_beside_it_stays(half):
    """A change is part of the run from then on: the command that goes on needs nothing else."""
    Path("cut").unlink()
    cut = '[{"class_path": "tests.training.small.Cut", "init_args": {"batch": 25, "signal": "SIGTERM"}}]'
    assert fit.main(["--ckpt_path", str(half), "--trainer.max_epochs", "4", "--trainer.callbacks+", cut]) == 143
    assert yaml.safe_load((half / "config.yaml").read_text())["trainer"]["max_epochs"] == 4
    assert fit.main(["--ckpt_path", str(half)]) == 0
    assert last(str(half))["global_step"] == 4 * BATCHES
    (half / "last.ckpt").unlink()
    assert fit.main(["--config", "small.yaml", "--name", "other", "--trainer.max_epochs", "4"]) == 0
    assert fit.main(["--ckpt_path", str(half)]) == 0  # from the start, in its folder
    assert same(str(half), "runs/other/001")


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--model.width", "2"], "model.width"),
        (["--data.rows", "80"], "data.rows"),
        (["--seed_everything", "5"], "seed_everything"),
        (["--config", "small.yaml"], "config"),
        (["--name", "other"], "name"),
        (["--runs_dir", "others"], "runs_dir"),
        (["--trainer.max_epoch", "3"], "trainer.max_epoch"),
    ],
)
def test_what_cannot_change_is_refused(half, words, argument, capsys):
    before = {path.name: path.read_bytes() for path in half.iterdir()}
    with pytest.raises(UserError) as refusal:
        fit.fit(["--ckpt_path", str(half), *words])
    assert refusal.value.argument == argument
    assert {path.name: path.read_bytes() for path in half.iterdir()} == before
    assert len(list(Path("runs").glob("*/*"))) == 1


def test_where_the_data_lies_may_change(half):
    Path("cut").unlink()
    assert fit.main(["--ckpt_path", str(half), "--data.data_dir", "there", "--model.width", "1.0"]) == 0


def test_the_middle_of_an_epoch_needs_as_many_processes(half):
    """Each has seen its own part of the epoch, and has random numbers of its own."""
    checkpoint = last(str(half))
    random = checkpoint["loops"]["fit_loop"]["epoch_loop.state_dict"]["random"]
    assert len(random) == 1
    random.append(random[0])
    torch.save(checkpoint, half / "last.ckpt")
    with pytest.raises(UserError) as refusal:
        fit.fit(["--ckpt_path", str(half)])
    assert refusal.value.argument == "trainer.devices"


@pytest.mark.parametrize("folder", ["empty", "runs/cut"])
def test_a_folder_that_is_no_run_is_refused(half, folder):
    Path("empty").mkdir()
    with pytest.raises(UserError) as refusal:
        fit.fit(["--ckpt_path", folder])
    assert refusal.value.argument == "ckpt_path"
    assert ("runs/cut/001" in str(refusal.value)) == (folder == "runs/cut")


def test_last_does_not_go_on_with_another_model(half):
    with pytest.raises(UserError) as refusal:
        fit.fit(["--config", "small.yaml", "--name", "cut", "--model.width", "3", "--ckpt_path", "last"])
    assert refusal.value.argument == "model.width"


def test_one_writer_at_a_time(half, capsys):
    """Breakage 8: both trained, and both said that all went well."""
    before = (half / "last.ckpt").read_bytes()
    with writing(half, {}):
        for words in (["--ckpt_path", str(half)], ["--config", "cut.yaml", "--ckpt_path", "last"]):
            capsys.readouterr()
            assert fit.main(words) == 2
            error = capsys.readouterr().err
            assert error.startswith("error: --ckpt_path: ")
            assert f"process {os.getpid()} on {socket.gethostname()} since " in error
        assert (half / "last.ckpt").read_bytes() == before
        from cfgen.checkpoints import best_checkpoint

        assert best_checkpoint(half) == half / "last.ckpt"  # who only reads is not held up
    assert fit.main(["--ckpt_path", str(half)]) == 0


HOLD = """
import os, signal, sys
from pathlib import Path
from cfgen.runs.folders import writing
with writing(Path(sys.argv[1]), {}):
    for name in (".last.ckpt.0123456789abcdef.part", ".config.yaml.0123456789abcdef.part"):
        (Path(sys.argv[1]) / name).write_bytes(b"half")
    (Path(sys.argv[1]) / ".metrics.json.0123456789abcdef.part").write_bytes(b"another command's, perhaps at work")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_dead_writer_holds_nobody_up_and_is_cleaned_up_after(half):
    """Breakage 16: what a killed writer left half written stayed for ever."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", HOLD, str(half)], env=environment, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(half.glob(".*.part"))) == 3
    with (half / "metrics.csv").open("a") as file:
        file.write("0,9,train/lo")  # it was killed in the middle of a line
    assert fit.main(["--ckpt_path", str(half)]) == 0
    assert not list(half.glob(".*.part"))
    assert fit.main(["--config", "small.yaml", "--name", "whole"]) == 0
    assert same(str(half), "runs/whole/001")
