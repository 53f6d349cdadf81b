"""How long commands take to answer, as multiples of `import torch`, in one run on one machine.

Each is timed several times in turns, so that a busy machine slows all alike; the fastest counts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

NAMES = ("fit", "data", "generate", "evaluate", "audit", "export")
COMMANDS = {
    "import torch": ["-c", "import torch"],
    "cfgen --help": ["-m", "cfgen", "--help"],
    **{f"cfgen {name} --help": ["-m", "cfgen", name, "--help"] for name in NAMES},
    "cfgen fit --confg (refused)": ["-m", "cfgen", "fit", "--confg", "quickstart"],
    "cfgen fit --trainer.max_epoch (refused)": ["-m", "cfgen", "fit", "--config", "quickstart", "--trainer.max_epoch", "3"],
    "cfgen audit --doo (refused)": ["-m", "cfgen", "audit", "--doo", "x"],
    "cfgen generate morphomnist-csali --do thickness=5": ["-m", "cfgen", "generate", "morphomnist-csali", "--do", "thickness=5"],
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="how often each is timed (default: 3)")
    options = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            for name, words in COMMANDS.items():
                started = time.perf_counter()
                subprocess.run(
                    [sys.executable, *words], cwd=folder, capture_output=True, env=os.environ | {"PYTHONPATH": root}
                )
                seconds[name].append(time.perf_counter() - started)
    torch = min(seconds["import torch"])
    for name, times in seconds.items():
        print(f"{name:52s} {min(times):6.2f} s {min(times) / torch:6.2f} x import torch")


if __name__ == "__main__":
    main()
