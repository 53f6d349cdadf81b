"""Hours in minutes: the same loaders, counterfactuals, audits and visits to the app again and again in one process, under watch.

    python -m tests.torture.soak --minutes 60

Private memory, open files and temporary files have to be as many at the end as after the first rounds, and every answer the same
to the bit.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from cfgen.audit import audit
from cfgen.classifiers import ExternalClassifier
from cfgen.runs.generation import generate
from cfgen.runs.model import load_trained
from datamodules.base import AttributeDataModule
from lightning_modules import Classifier, CondALI
from tests.fakes import Painted, finished, fitted
from tests.torture.visitors import visited

__all__ = ["Soaked", "soak"]

SETTLING = 0.25  # of the rounds: allocators and caches fill
FLAT = 1.03


@dataclass(frozen=True)
class Soaked:
    """Private memory in MB, open files and temporary files after each round, and whether all answers were the same."""

    memory: list[float]
    files: list[int]
    temporary: list[int]
    same: bool

    @property
    def flat(self) -> bool:
        more = [self.ends(some)[1] > self.ends(some)[0] for some in (self.files, self.temporary)]
        return self.growth <= FLAT and not any(more)

    @property
    def growth(self) -> float:
        first, last = self.ends(self.memory)
        return last / first

    @staticmethod
    def ends(values: Sequence[float]) -> tuple[float, float]:
        """The median of the first quarter after settling, and of the last one."""
        settled = values[int(SETTLING * len(values)) :]
        part = max(1, len(settled) // 4)
        return statistics.median(settled[:part]), statistics.median(settled[-part:])

    def __str__(self) -> str:
        (before, after), files, temporary = map(self.ends, (self.memory, self.files, self.temporary))
        return (
            f"answers {'the same' if self.same else 'DIFFER'}\n"
            f"private memory {before:.0f} MB after settling, {after:.0f} MB at the end, highest {max(self.memory):.0f} MB; "
            f"growth {self.growth - 1:+.1%}\n"
            f"open files {files[0]:g} after settling, {files[1]:g} at the end\n"
            f"temporary files {temporary[0]:g} after settling, {temporary[1]:g} at the end"
        )


def soak(folder: Path, seconds: float, least: int = 4) -> Soaked:
    """Loads, draws, audits and visits for so long, at least so many rounds."""
    torch.manual_seed(0)
    data = Painted(rows=60)
    section = {"class_path": "tests.fakes.Painted", "init_args": {"rows": 60}}
    model = finished(fitted(CondALI, data, width=0.02, latent_dim=4), folder / "model", {"name": "it", "data": section})
    network = Classifier(data.image_shape, 2, width=0.05)
    found = Soaked([], [], [], True)
    answers = set()
    with temporary_files_in(folder / "temporary") as temporary, visited(folder / "app") as visitors:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(found.memory) < least:
            answers.add((one_round(model, network, data), visitors.round()))
            found.memory.append(private_memory() / 1e6)
            found.files.append(len(os.listdir("/proc/self/fd")))
            found.temporary.append(sum(len(files) for _, _, files in os.walk(temporary)))
    return Soaked(found.memory, found.files, found.temporary, len(answers) == 1)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[Path]:
    """A place of our own for temporary files, in which nobody else's are counted."""
    folder.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before


def one_round(folder: Path, classifier: Classifier, data: AttributeDataModule) -> str:
    """What a notebook does, as a digest of the answers."""
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
    result = audit(model, ExternalClassifier(classifier, label="yes"), do=["Bangs=1"], predictor=None, explain=[])
    for raw in result.answers.tables[result.first.classifier].values():
        digest.update(raw.tobytes())
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
    print(f"{len(found.memory):,} rounds in {options.minutes:g} minutes; {found}")
    return 0 if found.flat and found.same else 1


if __name__ == "__main__":
    sys.exit(main())
