"""Faults injected into the real commands, a few of each kind; `make torture` injects them for as long as asked."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.__main__ import table
from tests.torture.faults import FAULTS, chosen
from tests.torture.scenes import SCENES
from tests.torture.soak import Soaked, soak

ROOT = Path(__file__).parents[2]
TRIES = 24


@pytest.mark.slow
def test_nothing_is_lost_by_a_few_faults():
    """In a process of its own, which has no threads and can be forked.  The same faults every time."""
    words = [sys.executable, "-m", "tests.torture", "--tries", str(TRIES), "--seed", "0", "--minutes", "10"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 losses" in done.stdout


def test_every_command_meets_every_fault():
    """A round has each pair once, in an order of its own; a number always means the same try."""
    pairs = len(SCENES) * len(FAULTS)
    rounds = [[chosen(7, number) for number in range(start, start + pairs)] for start in (0, pairs)]
    for one in rounds:
        assert {(tried.scene, tried.fault) for tried in one} == {(s.name, f) for s in SCENES for f in FAULTS}
    assert [(tried.scene, tried.fault) for tried in rounds[0]] != [(tried.scene, tried.fault) for tried in rounds[1]]
    assert chosen(7, 3) == chosen(7, 3) != chosen(8, 3)


def test_the_table_counts_survivors():
    one, other = chosen(0, 0), chosen(0, 1)
    lines = table([(one, ""), (one, "another result"), (other, "")]).splitlines()
    assert lines[-1].endswith("| 2 / 3 |")
    row = next(line for line in lines if line.startswith(f"| {one.scene} |"))
    assert " 1 / 2 " in row


def test_files_and_answers_stay_as_they_are_and_memory_nearly(tmp_path):
    """In eight rounds caches still fill; an hour has no such excuse."""
    found = soak(tmp_path, seconds=0, least=8)
    assert found.same
    assert found.growth < 1.15, found.memory
    for files in (found.files, found.temporary):
        before, after = found.ends(files)
        assert after <= before, files


def test_a_leak_is_seen():
    steady, files = [500.0] * 40, [9] * 40
    growing = [9 + k // 10 for k in range(40)]
    assert Soaked(steady, files, files, True).flat
    assert Soaked([500.0 + k for k in range(10)] + [510.0] * 30, files, files, True).flat
    assert not Soaked([500.0 + k for k in range(40)], files, files, True).flat
    assert not Soaked(steady, growing, files, True).flat
    assert not Soaked(steady, files, growing, True).flat
