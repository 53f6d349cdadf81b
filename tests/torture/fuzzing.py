"""Damaged inputs for every parser: never anything but an answer or a `UserError`, never long, never much memory.

    python -m tests.torture.fuzzing --count 10000 --seed 0

runs that many in all, each parser in a process of its own, and prints how many each parser was given and what was found.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

from cfgen.errors import LONGEST, UserError

__all__ = ["MOST_MEMORY", "MOST_SECONDS", "examine", "taken"]

MOST_SECONDS = 10  # of CPU for one input: a busy machine is no hang
MOST_MEMORY = 600_000_000  # bytes more than before
ROOM = 4_000_000_000  # bytes of addresses: what asks for more fails instead of taking the machine


class Hang(Exception):
    """An input that takes too long."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Inside, too much time, too many addresses or too much memory is an exception."""

    def ring(*_: object) -> None:
        raise Hang(f"more than {MOST_SECONDS} seconds")

    old = signal.signal(signal.SIGVTALRM, ring)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + ROOM, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    # a library in C that does not come back hears no exception: the process ends, and says where it was
    faulthandler.dump_traceback_later(30 * MOST_SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, old)
    more = memory("VmHWM") - before
    if more > MOST_MEMORY:
        raise MemoryError(f"{more / 1e6:.0f} MB more than before")


def memory(line: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition(f"{line}:")[2].split()[0])


def taken(take: Callable[[Any, Any], object], material: Any, value: Any) -> bool:
    """Whether a parser takes an input; False where it refuses it as it should."""
    with limited(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            take(material, value)
        except UserError as refusal:
            if len(str(refusal)) > LONGEST:
                raise ValueError(f"a message of {len(str(refusal))} characters") from refusal
            return False
    return True


def examine(name: str, material: Any, count: int, seed: int | None = None, shrink: bool = True) -> tuple[int, int]:
    """Gives a parser `count` damaged inputs; how many it was given, and how many of these it took.

    Without a seed they are the same every time.  What is found is raised; with `shrink`, of the smallest input that hypothesis
    comes to, which can take minutes.
    """
    from tests.torture.parsers import PARSERS

    parser = PARSERS[name]
    numbers = [0, 0]

    def once(value: Any) -> None:
        numbers[0] += 1
        numbers[1] += taken(parser.take, material, value)

    quiet = settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
    )
    test = quiet(given(parser.inputs(material))(once))
    (test if seed is None else with_seed(seed)(test))()
    return numbers[0], numbers[1]


def in_child(work: Callable[[], str]) -> str:
    """What `work` returns, in a forked process: a decoder that crashes ends that process alone."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            text = work()
        except BaseException:
            text = "FOUND\n" + traceback.format_exc()
        with os.fdopen(writing, "w", errors="backslashreplace") as file:
            file.write(text)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return text or f"FOUND\nthe process ended with {os.waitstatus_to_exitcode(status)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=int(os.environ.get("CFGEN_FUZZ", "10000")), help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="names of parsers")
    parser.add_argument("--shrink", action="store_true", help="look for the smallest input of what is found")
    options = parser.parse_args(arguments)
    from tests.torture.material import Material
    from tests.torture.parsers import PARSERS

    names = options.only or list(PARSERS)
    each = -(-options.count // len(names))
    total, findings = 0, {}
    print(f"{'parser':22s} {'inputs':>7s} {'taken':>7s} {'refused':>8s} {'seconds':>8s}")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        material = Material(Path(scratch) / "material")
        for name in names:

            def work(name: str = name) -> str:
                given, took = examine(name, material, each, options.seed, options.shrink)
                return f"{given} {took}"

            started = time.time()
            text = in_child(work)
            seconds = time.time() - started
            if text.startswith("FOUND"):
                findings[name] = text
                print(
                    f"{name:22s} {'':7s} {'':7s} {'':8s} {seconds:8.1f}  {text.strip().splitlines()[-1][:150]}",
                    flush=True,
                )
                continue
            inputs, took = map(int, text.split())
            total += inputs
            print(f"{name:22s} {inputs:7,} {took:7,} {inputs - took:8,} {seconds:8.1f}", flush=True)
    print(f"{total:,} inputs, {len(findings)} findings")
    for name, text in findings.items():
        print(f"\n--- {name}\n{text[:4000]}\n...\n{text[-1500:]}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
