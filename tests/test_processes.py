"""Several processes: the pool that tests share, and commands that end well, run after run."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from cfgen.errors import LostProcess
from cfgen.processes import Processes, lost_process
from tests.processes import Failed, Pool

ROOT = Path(__file__).parents[1]
RUNS = int(os.environ.get("CFGEN_FIFTY", "5"))  # 50 for the full show, two minutes

COMMAND = """
import sys
import torch
import torch.distributed as dist
from cfgen.command_line import run_command

def work():
    dist.init_process_group("gloo")
    values = torch.full((1000,), float(dist.get_rank()))
    for _ in range(5):
        dist.all_reduce(values)
        dist.all_gather([torch.empty(1000) for _ in range(2)], values)
        dist.broadcast(values, 0)
    assert values[0] == 16

sys.exit(run_command(work))
"""


def answers_of_two(script: Path) -> list[tuple[int, str]]:
    """Exit code and stderr of each of two processes that run a script as one group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=os.environ | group | {"RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [process.communicate(timeout=120)[1] for process in running]
    return [(process.returncode, text) for process, text in zip(running, told, strict=True)]


@pytest.mark.slow
def test_fifty_runs_in_a_row_end_well(tmp_path):
    """Left to the interpreter's exit, a group of gloo may abort a process after all its work is done."""
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    for number in range(RUNS):
        answers = answers_of_two(script)
        assert [code for code, _ in answers] == [0, 0], (number, answers)


LOSING = """
import os, signal, sys, time
import torch
from cfgen.command_line import run_command
from cfgen.errors import LostProcess
from cfgen.processes import Processes, lost_process

def work():
    processes = Processes("cpu", 2)
    processes.launch()
    processes.sum(torch.ones(3))
    if processes.rank == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    processes.sum(torch.ones(3))

sys.exit(run_command(work))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "code"), [(0, -9), (1, 1)])
def test_a_process_that_dies_ends_the_other_with_a_line_that_names_it(rank, code, tmp_path):
    (tmp_path / "command.py").write_text(LOSING)
    with (tmp_path / "said.txt").open("w") as said:
        command = [sys.executable, str(tmp_path / "command.py"), str(rank)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, stderr=said, stdout=said, timeout=180, check=False)
    end = time.monotonic() + 60
    while (
        "error: " not in (text := (tmp_path / "said.txt").read_text()) and time.monotonic() < end
    ):  # by the one that is left
        time.sleep(0.1)
    assert done.returncode == code
    (line,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: process {rank} of this run (pid ")
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 60000ms for recv operation", "does not answer"),
        ("Application timeout caused pair closure", "does not answer"),
        ("Socket Timeout", "does not answer"),
        ("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242", "has ended"),
    ],
)
def test_what_gloo_says_of_a_lost_process_is_said_in_words(message, says):
    lost = lost_process(RuntimeError(message))
    assert isinstance(lost, LostProcess)
    assert says in str(lost)


def test_no_other_process_is_blamed_for_a_loader_that_is_too_slow():
    assert lost_process(RuntimeError("DataLoader timed out after 5 seconds")) is None


def ranks() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def share_and_sum() -> tuple[list[int], float]:
    processes = Processes("cpu", 2)
    processes.launch()
    processes.launch()  # they run already
    mine = torch.zeros(5)
    mine[processes.rank :: processes.count] = 1.0 + processes.rank
    return list(processes.share), processes.sum(mine).tolist()


def fail_on(rank: int) -> float:
    if dist.get_rank() == rank:
        raise ValueError(f"rank {rank} has had enough")
    return 1.0


def fail_while_others_wait() -> None:
    if dist.get_rank() == 1:
        raise ValueError("nobody is coming")
    dist.barrier()


def die_on(rank: int) -> None:
    if dist.get_rank() == rank:
        os._exit(3)


@pytest.mark.xdist_group("two_processes")
def test_work_is_shared_and_summed(two_processes: Pool):
    assert two_processes.run(ranks) == [(0, 2), (1, 2)]
    values = [1.0, 2.0, 1.0, 2.0, 1.0]
    assert two_processes.run(share_and_sum) == [([0, 2], values), ([1, 2], values)]


@pytest.mark.xdist_group("two_processes")
def test_a_failure_comes_back_with_its_traceback_and_the_pool_goes_on(two_processes: Pool):
    members = list(two_processes.members)
    with pytest.raises(Failed, match=r"rank 1: Traceback[\s\S]*in fail_on[\s\S]*rank 1 has had enough"):
        two_processes.run(fail_on, 1)
    assert two_processes.run(ranks) == [(0, 2), (1, 2)]
    assert not members or two_processes.members == members


@pytest.mark.slow
def test_a_pool_that_cannot_answer_is_replaced():
    pool = Pool(2)
    with pytest.raises(Failed, match=r"rank 0: no answer in time[\s\S]*nobody is coming"):
        pool.run(fail_while_others_wait)
    assert pool.members == []
    with pytest.raises(Failed, match="rank 1: ended with exit code 3"):
        pool.run(die_on, 1)
    assert pool.run(ranks) == [(0, 2), (1, 2)]
    assert pool.stop() == [0, 0]


def test_one_process_needs_nothing_started():
    processes = Processes()
    processes.launch()
    assert processes.first
    assert processes.share == (0, 1)
    values = torch.ones(3)
    assert processes.sum(values) is values
    assert not dist.is_initialized()
