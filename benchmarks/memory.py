"""Peak memory of `cfgen audit`, `cfgen evaluate` and the loaders by the number of images: it should stay flat.

    python -m benchmarks.memory                                    1,000, 5,000 and 20,000 images; minutes
    python -m benchmarks.memory --what loaders --counts 1000 5000

Each is a process of its own, watched from outside.  What counts is private memory (`RssAnon` of /proc): the images are packed
into a file and mapped, as those of CelebA and of synthetic faces are, and pages of a file that the system can drop at any time
are not the program's.  Images are random, models small and untrained: neither changes what is kept of an image.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
WHAT = ("audit", "evaluate", "loaders")


def peak_of(what: str, count: int, folder: Path) -> float:
    """The most private memory of one run, in MB."""
    environment = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1", "CFGEN_DATA": ""}
    command = [sys.executable, "-m", "benchmarks.memory", "--child", what, "--counts", str(count)]
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
        peak = 0
        while process.poll() is None:
            peak = max(peak, private_memory(process.pid))
            time.sleep(0.005)
    if process.returncode:
        raise SystemExit(f"{what} of {count:,} images failed:\n{log.read_text()}")
    return peak / 1e6


def private_memory(pid: int) -> int:
    """The bytes of a process that no file stands behind; 0 of one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(1024 * int(found) for found in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", text, re.MULTILINE))


def prepare(count: int, folder: Path) -> None:
    """A run of a model and one of a classifier, in `folder`, whose data has so many images; packs these."""
    import torch

    from benchmarks.packed_faces import PackedFaces
    from lightning_modules import Classifier, CondALI
    from tests.fakes import finished, fitted

    torch.manual_seed(0)
    data = PackedFaces(count=count, cache_dir=str(folder / "cache"))
    section = {
        "class_path": "benchmarks.packed_faces.PackedFaces",
        "init_args": {"count": count, "cache_dir": str(folder / "cache")},
    }
    config = {"name": "model", "data": section}
    model = fitted(CondALI, data, width=0.05, latent_dim=32)
    finished(model, folder / "model" / "001", config)
    finished(Classifier(data.image_shape, 2, width=0.05), folder / "classifier" / "001", config)


def child(what: str, count: int) -> None:
    """The work that is watched, in the working directory."""
    if what == "loaders":
        import torch

        from benchmarks.packed_faces import PackedFaces

        data = PackedFaces(count=count, cache_dir="cache")
        data.setup()
        for _ in range(2):
            for batch in data.test_dataloader():
                assert torch.isfinite(data.on_after_batch_transfer(batch, 0).x).all()
        return
    from cfgen.__main__ import main

    words = {
        "audit": ["audit", "--model", "model", "--classifier", "classifier", "--predictor", "none", "--do", "Bangs=1",
                  "--do", "Young=0", "--subgroups", "Smiling", "--out", f"audit-{count}", "--trusted"],
        "evaluate": ["evaluate", "model", "--metrics", "cycles,minimality,reversibility", "--predictor", "none", "--trusted"],
    }[what]  # fmt: skip
    if code := main(words):
        sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 5000, 20000])
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT)
    parser.add_argument("--child", choices=WHAT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.counts[0])
        return
    peaks: dict[str, list[float]] = {what: [] for what in options.what}
    with tempfile.TemporaryDirectory() as scratch:
        for count in options.counts:
            folder = Path(scratch) / str(count)
            folder.mkdir()
            prepare(count, folder)
            for what in options.what:
                peaks[what].append(peak_of(what, count, folder))
                print(f"{what:9s} {count:7,} images {peaks[what][-1]:8.1f} MB", flush=True)
    print("\n| private memory, MB | " + " | ".join(f"{count:,} images" for count in options.counts) + " | growth |")
    print("|---" * (2 + len(options.counts)) + "|")
    for what, found in peaks.items():
        growth = max(found) / min(found) - 1
        print(f"| {what} | " + " | ".join(f"{peak:.0f}" for peak in found) + f" | {growth:.1%} |")


if __name__ == "__main__":
    main()
