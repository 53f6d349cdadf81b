"""Faults injected into the real commands, for as long as asked; `make torture MINUTES=60`.

    python -m tests.torture --minutes 60 --seed 0 --jobs 2
    python -m tests.torture --seed 0 --only 17        repeats one try, and keeps what it printed

Every try copies a small template, runs a command, lets a fault happen at a random point and checks the laws in docs/torture.md.
The table has a row for each command and a column for each fault: tries that survived / tries.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.torture.children import import_everything
from tests.torture.faults import FAULTS, Reference, Try, attempt, chosen, references
from tests.torture.scenes import SCENES

__all__ = ["main", "table", "tortured"]


def tortured(
    base: Path, found: dict[str, Reference], numbers: range | list[int], seed: int, jobs: int, until: float
) -> list[tuple[Try, str]]:
    """Does tries in so many processes at once until the time is over; each with what was lost."""
    readers = {}
    for job in range(jobs):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as file:
                for number in numbers[job::jobs]:
                    if time.time() > until:
                        break
                    one = chosen(seed, number)
                    lost: str | None
                    try:
                        lost = attempt(one, base, found[one.scene])
                    except Exception as error:  # a fault of the harness is told too
                        lost = f"the harness failed: {type(error).__name__}: {error}"
                    if lost is not None:
                        file.write(json.dumps([number, lost]) + "\n")
                        file.flush()
            os._exit(0)
        os.close(writing)
        readers[reading] = b""
    results = []
    while readers:
        for reading in select.select(list(readers), [], [])[0]:
            data = os.read(reading, 65536)
            if not data:
                os.close(reading)
                del readers[reading]
                os.wait()
                continue
            *lines, readers[reading] = (readers[reading] + data).split(b"\n")
            for line in lines:
                number, lost = json.loads(line)
                results.append((chosen(seed, number), lost))
                if lost:
                    one = results[-1][0]
                    print(f"LOST  --only {number}: {one.scene}, {one.fault}: {lost}", flush=True)
    return results


def table(results: list[tuple[Try, str]]) -> str:
    """Survived / tries, as Markdown."""
    tries = Counter((one.scene, one.fault) for one, _ in results)
    survived = Counter((one.scene, one.fault) for one, lost in results if not lost)
    lines = ["| command | " + " | ".join(FAULTS) + " | all |", "|---" * (2 + len(FAULTS)) + "|"]
    for name in [*(scene.name for scene in SCENES), "all"]:
        cells = []
        for fault in [*FAULTS, "all"]:
            here = [(s, f) for s, f in tries if name in (s, "all") and fault in (f, "all")]
            cells.append(f"{sum(survived[key] for key in here)} / {sum(tries[key] for key in here)}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--tries", type=int, default=1_000_000, help="at most so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", type=int, nargs="+", help="numbers of tries")
    options = parser.parse_args()
    os.environ.pop("CFGEN_DEBUG", None)  # it shows tracebacks, which users do not see
    import_everything()
    base = Path(tempfile.mkdtemp(prefix="torture-"))
    started = time.time()
    found = references(base)
    print(f"undisturbed: {', '.join(f'{name} {one.seconds:.1f} s' for name, one in found.items())}", flush=True)
    numbers = options.only or range(options.tries)
    results = tortured(base, found, numbers, options.seed, options.jobs, started + 60 * options.minutes)
    losses = [(one, lost) for one, lost in results if lost]
    print(
        f"\n{table(results)}\n\n{len(results):,} faults in {(time.time() - started) / 60:.0f} minutes, {len(losses)} losses"
    )
    for one, lost in losses:
        print(f"- `--seed {one.seed} --only {one.number}` ({one.scene}, {one.fault}): {lost}")
    if losses:
        print(f"what they printed is in {base / 'logs'}")
    else:
        shutil.rmtree(base)
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
