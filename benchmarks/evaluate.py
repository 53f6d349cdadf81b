"""What `cfgen evaluate` costs: images decoded for each image scored, and the time of all metrics.

    python benchmarks/evaluate.py --classifier runs/morphomnist_classifier --predictor runs/morphomnist_predictor
    python benchmarks/evaluate.py --before ../cfgen-before     and the same with an older checkout, as ratios

Each version runs in processes of its own, one after the other, on the same images, after a warm-up on a few of them; the best of
`--repeat` runs counts.  Importing and starting up are left out.  Data of `--embedded` needs no download: 500 test digits.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
WARM_UP = 20  # images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="morphomnist-csali")
    parser.add_argument("--count", type=int, default=2000, help="test images")
    parser.add_argument("--classifier", type=Path)
    parser.add_argument("--predictor", type=Path)
    parser.add_argument("--embedded", action="store_true", help="score on the digits that come with cfgen")
    parser.add_argument("--before", type=Path, help="a checkout of an older version, to compare with")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    words = ["--embedded"] if options.embedded else []
    for name in ("classifier", "predictor"):
        if getattr(options, name):
            words += [f"--{name}", str(getattr(options, name).resolve())]
    versions = {"now": HERE} | ({"before": options.before.resolve()} if options.before else {})
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    for _ in range(options.repeat):
        for name, folder in versions.items():
            runs[name].append(child(folder, options.model, options.count, words))
    best = {name: min(found, key=lambda run: run["seconds"]) for name, found in runs.items()}
    for name, run in best.items():
        print(f"{name:7s} {run['decoded']:6.1f} images decoded for each of {options.count:,}, {run['seconds']:6.1f} s")
    if options.before:
        decoded, seconds = (best["before"][key] / best["now"][key] for key in ("decoded", "seconds"))
        print(f"ratios  {decoded:.2f} times fewer decoded, {seconds:.2f} times faster")


def child(folder: Path, model: str, count: int, words: list[str]) -> dict[str, float]:
    """One run of a version, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, __file__, "--child", model, str(count), *words]
        environment = os.environ | {"PYTHONPATH": str(folder)}
        done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{folder}: {done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def measure(model: str, count: int, words: list[str]) -> None:
    """Runs the command of whichever version is importable here, and prints what it cost."""
    command: Any = importlib.import_module("cfgen.evaluate")
    if "--embedded" in words:
        words = [word for word in words if word != "--embedded"]
        digits: Any = importlib.import_module("datamodules").MorphoMNIST
        importlib.import_module("cfgen.evaluation.subject").__dict__["run_data"] = lambda *source: digits()
    decoded = count_decoded()
    new = (Path(command.__file__).parent / "evaluation" / "options.py").is_file()
    for images in (WARM_UP, count):
        decoded["rows"] = 0
        started = time.perf_counter()
        if command.main([model, "--count" if new else "--images", str(images), *words]):
            raise SystemExit(2)
        seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "decoded": decoded["rows"] / count}))


def count_decoded() -> dict[str, int]:
    """Counts the images that any mechanism decodes, of a mechanism within another once."""
    modules: Any = importlib.import_module("lightning_modules")
    counted, lock, inside = {"rows": 0}, threading.Lock(), threading.local()

    def counting(decode: Any) -> Any:
        def run(self: Any, z: Any, a: Any) -> Any:
            if getattr(inside, "call", False):
                return decode(self, z, a)
            with lock:
                counted["rows"] += len(a)
            inside.call = True
            try:
                return decode(self, z, a)
            finally:
                inside.call = False

        return run

    for kind in (getattr(modules, name) for name in modules.__all__):
        if "decode" in vars(kind):
            kind.decode = counting(kind.decode)  # type: ignore[attr-defined]
    return counted


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        measure(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    else:
        main()
