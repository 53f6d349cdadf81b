"""Packed pictures: interrupted, damaged, shared by processes, and used again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

from datamodules.image_table import data as module
from datamodules.sources import packing
from datamodules.sources.picture_files import SPLITS
from tests.datamodules.image_folder import COUNT, ready
from tests.processes import Pool

ROOT = Path(__file__).parents[3]


KILLED = """
import os, sys, signal
from datamodules.image_table import data as module
from datamodules.sources import packing
packing.BLOCK, packing.cores = 4, lambda: 1
decode, calls = module.decoded_bytes, []
def decoded(data, where):
    calls.append(where)
    if len(calls) == 70:
        os.kill(os.getpid(), signal.SIGKILL)
    return decode(data, where)
module.decoded_bytes = decoded
table = module.ImageTable(sys.argv[1], cache_dir=sys.argv[2], image_size=16)
table.prepare_data()
"""


def test_killed_packing_goes_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(tmp_path)], cwd=ROOT, capture_output=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not list(tmp_path.glob("*.npy"))
    assert list(tmp_path.glob(".*.partial"))
    monkeypatch.setattr(packing, "BLOCK", 4)
    calls = counting(monkeypatch)
    data = ready(folder, tmp_path)
    assert 0 < len(calls) <= COUNT - 60
    monkeypatch.undo()
    fresh = ready(folder, tmp_path / "fresh", batch_size=8)
    assert all(torch.equal(data.images(split), fresh.images(split)) for split in SPLITS)
    assert not list(tmp_path.glob(".*.partial"))


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pictures that are decoded from now on."""
    decode, calls = module.decoded_bytes, []

    def decoded(data: bytes, where: str) -> Image.Image:
        calls.append(where)
        return decode(data, where)

    monkeypatch.setattr(module, "decoded_bytes", decoded)
    return calls


def test_second_use_reads_no_picture(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(folder, tmp_path)
    calls = counting(monkeypatch)
    data = ready(folder, tmp_path)
    assert not calls
    assert ready(folder, tmp_path, framing="pad").cache_file != data.cache_file
    assert len(calls) == COUNT


def test_damaged_pack_is_repaired(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = ready(folder, tmp_path).cache_file
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[len(spoiled) // 2] ^= 1
    time.sleep(0.01)
    path.write_bytes(spoiled)
    ready(folder, tmp_path)
    assert "damaged" in caplog.text
    assert path.read_bytes() == whole


def pack(folder: str, cache: str) -> int:
    data = ready(Path(folder), Path(cache))
    return int(sum(data.images(split).sum() for split in SPLITS))


@pytest.mark.xdist_group("two_processes")
def test_two_processes_at_once(folder: Path, tmp_path: Path, two_processes: Pool) -> None:
    """Both succeed, with the same images and one pack."""
    sums = two_processes.run(pack, str(folder), str(tmp_path))
    assert sums[0] == sums[1] == pack(str(folder), str(tmp_path / "alone"))
    assert len([path for path in tmp_path.glob("*.npy") if "hashes" not in path.name]) == 1
