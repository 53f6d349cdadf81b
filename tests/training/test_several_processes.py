"""Runs on two processes: killed, stopped, hung and restarted, as users and machines do it."""

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("CFGEN_KILLS", "2"))  # 20 for the full show, ten minutes
CONFIG = """
model: {class_path: tests.training.small.SmallModel, init_args: {sleep: 0.05}}
data: {class_path: tests.training.small.SmallData, init_args: {rows: 160}}
trainer:
  accelerator: cpu
  devices: 2
  max_epochs: 3
  log_every_n_steps: 1
  enable_progress_bar: false
  enable_model_summary: false
  callbacks:
    - {class_path: callbacks.BestCheckpoint, init_args: {monitor: val/loss}}
    - {class_path: callbacks.Autosave, init_args: {minutes: 0.005}}
"""
STEPS = 3 * 20  # 160 rows in batches of 4, half of them on each process

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("small.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> str:
    """The run that was never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "small.yaml").write_text(CONFIG)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WANDB_MODE": "disabled"}
    command = [sys.executable, "-m", "cfgen.fit", "--config", "small.yaml"]
    subprocess.run(command, cwd=folder, env=environment, timeout=300, check=True)
    return str(folder / "runs/small/001")


class Running:
    """A `cfgen fit` on two processes, with what it says."""

    def __init__(self, words: list[str], launcher: list[str] | None = None) -> None:
        self.said = Path("said.txt")
        self.file = self.said.open("w")
        command = [sys.executable, *(launcher or []), "-m", "cfgen.fit", *words]
        self.process = subprocess.Popen(command, stdout=self.file, stderr=self.file)

    def wait_for(self, pattern: str, timeout: float = 240) -> None:
        end = time.monotonic() + timeout
        while not re.search(pattern, self.said.read_text()):
            assert time.monotonic() < end, self.said.read_text()
            assert self.process.poll() is None, self.said.read_text()
            time.sleep(0.05)

    def wait_for_file(self, pattern: str, timeout: float = 240) -> None:
        end = time.monotonic() + timeout
        while not list(Path().glob(pattern)):
            assert time.monotonic() < end, self.said.read_text()
            assert self.process.poll() is None, self.said.read_text()
            time.sleep(0.02)

    def pid(self, rank: int) -> int | None:
        """The process of a rank: Lightning's first is the command itself, torchrun's all are its children."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in map(int, found):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"LOCAL_RANK={rank}".encode() in environment:
                return pid
        return self.process.pid if rank == 0 else None

    def end(self, timeout: float = 240) -> tuple[int, str]:
        """The exit code and all that was said, once every process has ended."""
        code = self.process.wait(timeout)
        self.file.close()
        return code, self.said.read_text()


def fitted(words: list[str]) -> None:
    code, said = Running(words).end()
    assert code == 0, said


def weights(folder: str) -> dict[str, torch.Tensor]:
    checkpoint = torch.load(Path(folder) / "last.ckpt", weights_only=True)
    assert checkpoint["global_step"] == STEPS
    return checkpoint["state_dict"]


def same(one: str, other: str) -> bool:
    a, b = weights(one), weights(other)
    return (
        all(torch.equal(value, b[name]) for name, value in a.items())
        and Path(one, "metrics.csv").read_text() == Path(other, "metrics.csv").read_text()
    )


def go_on(said: str, otherwise: list[str]) -> list[str]:
    """The words of the command that was named, or the same ones where nothing was saved."""
    named = re.findall(r"`cfgen fit ([^`]+)`", said)
    assert len(named) == 1 or "the same command starts it anew" in said, said
    return shlex.split(named[0]) if named else otherwise


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or ") Z" in Path(f"/proc/{pid}/stat").read_text()


def steps_logged(folder: str) -> int:
    """How many batches a run has been trained on, by what it has logged."""
    path = Path(folder, "metrics.csv")
    return path.read_text().count("train/loss,") if path.exists() else 0


def test_two_processes_killed_at_random_moments_end_like_the_whole_run(whole, capsys):
    """A run in which one of them is killed by kill -9, again and again, from its first batch to its last; each time it goes
    on by the command that was named."""
    moments, folder = random.Random(17), "runs/small/001"
    words, table = ["--config", "small.yaml"], []
    for number, step in enumerate(sorted(moments.randrange(STEPS) for _ in range(KILLS))):
        run, rank = Running(words), number % 2
        run.wait_for("run folder")
        while steps_logged(folder) < step:
            assert run.process.poll() is None, run.said.read_text()
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.1))  # in the middle of a batch, of a checkpoint, of a validation
        pids = [run.pid(0), run.pid(1)]
        reached = steps_logged(folder)
        os.kill(pids[rank], signal.SIGKILL)
        killed = time.monotonic()
        code, _ = run.end()
        while not all(pid is None or gone(pid) for pid in pids):
            assert time.monotonic() - killed < 120, "a process is left"  # it may have just begun to import torch
            time.sleep(0.05)
        said, took = run.said.read_text(), time.monotonic() - killed
        assert code == (-9 if rank == 0 else 1), said
        assert "Traceback" not in said
        assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1, said
        saved = Path(folder, "last.ckpt")
        kept = torch.load(saved, weights_only=True)["global_step"] if saved.exists() else 0
        words = go_on(said, ["--ckpt_path", folder])
        table.append(
            f"{number + 1:3d}  rank {rank}  at step {reached:2d}  kept {kept:2d}  exit {code:2d}  in {took:4.1f} s"
        )
    fitted(words)
    assert same(folder, whole)
    with capsys.disabled():
        print("", *table, "equal to the whole run", sep="\n")


@pytest.mark.parametrize(("number", "code", "rank"), [(signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 0)])
def test_a_signal_to_either_process_stops_both_and_loses_nothing(number, code, rank, whole):
    run = Running(["--config", "small.yaml"])
    run.wait_for_file("runs/small/001/last.ckpt")
    pids = [run.pid(0), run.pid(1)]
    os.kill(pids[rank], number)
    ended, said = run.end()
    assert ended == code, said
    assert "Traceback" not in said
    assert said.count("interrupted. ") == 1
    assert all(gone(pid) for pid in pids)
    fitted(go_on(said, []))
    assert same("runs/small/001", whole)


def test_a_process_that_hangs_is_noticed():
    run = Running(["--config", "small.yaml", "--timeout_minutes", "1"])  # starting counts too
    run.wait_for_file("runs/small/001/last.ckpt")
    hung = run.pid(1)
    os.kill(hung, signal.SIGSTOP)
    code, said = run.end(timeout=150)
    assert code == 1, said
    assert "does not answer" in said
    assert "Traceback" not in said
    assert gone(hung)
    assert go_on(said, []) == ["--ckpt_path", "runs/small/001"]


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_restarts_a_killed_process_and_the_run_goes_on(rank, whole):
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--max-restarts", "3", "--standalone"]
    run = Running(["--config", "small.yaml"], launcher)
    run.wait_for_file("runs/small/001/last.ckpt")
    os.kill(run.pid(rank), signal.SIGKILL)
    code, said = run.end()
    assert code == 0, said
    assert "runs/small/001 was interrupted: going on with it" in said
    assert [path.name for path in Path("runs/small").iterdir()] == ["001"]
    assert same("runs/small/001", whole)
