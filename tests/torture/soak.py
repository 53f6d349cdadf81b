"""Hours in minutes: the same loaders, counterfactuals and audit again and again in one process, under watch.

    python -m tests.torture.soak --minutes 60

Private memory and open files have to be as many at the end as after the first rounds, and every answer the same to the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from cfgen.audit.library import audit
from cfgen.runs.generation import generate
from cfgen.runs.model import load_trained
from datamodules.base import AttributeDataModule
from lightning_modules import Classifier, CondALI
from tests.fakes import Painted, finished, fitted

__all__ = ["Soaked", "soak"]

SETTLING = 0.25  # of the rounds: allocators and caches fill
FLAT = 1.03


@dataclass(frozen=True)
class Soaked:
    """Private memory in MB and open files after each round, how many rounds, and whether all answers were the same."""

    memory: list[float]
    files: list[int]
    same: bool

    @property
    def settled(self) -> list[float]:
        return self.memory[int(SETTLING * len(self.memory)) :]

    @property
    def growth(self) -> float:
        """The last quarter's median memory over that of the first quarter after settling."""
        part = max(1, len(self.settled) // 4)
        return statistics.median(self.settled[-part:]) / statistics.median(self.settled[:part])

    @property
    def flat(self) -> bool:
        return self.growth <= FLAT and self.files[-1] <= self.files[int(SETTLING * len(self.files))]


def soak(folder: Path, seconds: float, least: int = 4) -> Soaked:
    """Loads, draws and audits for so long, at least so many rounds."""
    torch.manual_seed(0)
    data = Painted(rows=60)
    section = {"class_path": "tests.fakes.Painted", "init_args": {"rows": 60}}
    model = finished(fitted(CondALI, data, width=0.02, latent_dim=4), folder / "model", {"name": "it", "data": section})
    network = Classifier(data.image_shape, 2, width=0.05)
    memory, files, answers = [], [], set()
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(memory) < least:
        answers.add(one_round(model, network, data))
        memory.append(private_memory() / 1e6)
        files.append(len(os.listdir("/proc/self/fd")))
    return Soaked(memory, files, len(answers) == 1)


def one_round(folder: Path, classifier: Classifier, data: AttributeDataModule) -> str:
    """Everything that a server would do for a visitor, as a digest of the answers."""
    digest = hashlib.sha256()
    for loader in (data.val_dataloader(), data.test_dataloader()):
        for batch in loader:
            digest.update(batch.x.numpy().tobytes())
    model = load_trained(folder)
    drawn = generate(model, [{"Bangs": 1}], index=range(8))
    digest.update(drawn.counterfactuals["Bangs=1"].numpy().tobytes())
    x = data.images("test")[:8]
    columns = {name: column[:8] for name, column in data.columns("test").items()}
    made = model.counterfactual(x, columns, {"Bangs": 1})
    digest.update(made.images.numpy().tobytes())
    result = audit(model, classifier, do=["Bangs=1"], predictor=None, explain=[], label="yes")
    digest.update(result.audited[0].scores.values.numpy().tobytes())
    return digest.hexdigest()


def private_memory() -> int:
    text = Path("/proc/self/status").read_text()
    return sum(1024 * int(found) for found in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", text, re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = soak(Path(scratch), 60 * options.minutes)
    settled = found.settled
    print(
        f"{len(found.memory):,} rounds in {options.minutes:g} minutes; answers {'the same' if found.same else 'DIFFER'}"
    )
    print(
        f"private memory {settled[0]:.0f} MB after settling, {settled[-1]:.0f} MB at the end, highest {max(settled):.0f} MB; "
        f"growth {found.growth - 1:+.1%}"
    )
    print(f"open files {found.files[0]} at first, {found.files[-1]} at the end")
    return 0 if found.flat and found.same else 1


if __name__ == "__main__":
    sys.exit(main())
