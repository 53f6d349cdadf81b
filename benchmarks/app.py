"""How long a slider move of `cfgen app` takes to be answered, beside the bare library call, in one run.

The app runs in a process of its own, as a user starts it.  One user moves the thickness of a digit, or gives a face bangs and
takes them away; bare calls of the library (`AbductedImages.under`, one decoded image) and moves take turns, so that a busy
machine slows both alike.  Then several users move at once, each as soon as the last answer is there: every answer has to be to
the value that was asked, and all users should get as many.
"""

import argparse
import http.client
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cfgen
from cfgen.runs.generation import AbductedImages
from cfgen.runs.sources import known_images

MOVES = {"morphomnist-hvae": ("thickness", [2.0, 2.5, 3.0, 3.5, 4.0, 4.5]), "faces-hvae": ("Bangs", [0, 1])}


@contextmanager
def running_app() -> Iterator[int]:
    """The port of an app that was just started."""
    root = Path(__file__).parents[1]
    words = [sys.executable, "-m", "cfgen.app", "--port", "0", "--no_browser"]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(root)}
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"cfgen app: http://127\.0\.0\.1:(\d+)/", line):
                break
        else:
            raise SystemExit("the app did not start")
        try:
            yield int(found[1])
        finally:
            process.terminate()
            process.wait(30)


class User:
    """A tab that moves one control."""

    def __init__(self, port: int, name: str, model: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.name, self.model = name, model
        self.attribute, values = MOVES[model]
        self.values = itertools.cycle(values)

    def move(self) -> float:
        """Seconds until the answer to the next move is there, and is the answer to it."""
        value = next(self.values)
        body = json.dumps({"model": self.model, "image": 0, "do": {self.attribute: value}})
        started = time.perf_counter()
        self.connection.request("POST", "/api/answer", body, {"X-Client": self.name})
        answer = self.connection.getresponse()
        found = json.loads(answer.read())
        seconds = time.perf_counter() - started
        if answer.status != 200 or found["counterfactual_attributes"][self.attribute] != value:
            raise SystemExit(f"a wrong answer to {self.attribute}={value}: {str(found)[:300]}")
        return seconds


def alone(port: int, model: str, moves: int) -> tuple[list[float], list[float]]:
    """Seconds of bare calls and of moves, in turns."""
    loaded = cfgen.load(model)
    abducted = AbductedImages(loaded, known_images(loaded, [0]))
    user = User(port, "alone", model)
    values = itertools.cycle(MOVES[model][1])
    bare, answered = [], []
    for turn in range(moves + 3):
        started = time.perf_counter()
        abducted.under({user.attribute: next(values)})
        seconds = time.perf_counter() - started
        moved = user.move()
        if turn >= 3:  # the first ones load the model and warm up
            bare.append(seconds)
            answered.append(moved)
    return bare, answered


def together(port: int, model: str, users: int, seconds: float) -> list[list[float]]:
    """Seconds of each move of each user, all at once for so long."""
    found: list[list[float]] = [[] for _ in range(users)]
    begin = threading.Barrier(users)

    def moves(number: int) -> None:
        user = User(port, f"user-{number}", model)
        begin.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            found[number].append(user.move())

    threads = [threading.Thread(target=moves, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def numbers(seconds: list[float]) -> list[float]:
    """The first decile, which a busy machine disturbs least, and the median, in milliseconds."""
    return [1e3 * statistics.quantiles(seconds, n=10)[0], 1e3 * statistics.median(seconds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MOVES), choices=list(MOVES))
    parser.add_argument("--moves", type=int, default=150, help="moves of one user (default: 150)")
    parser.add_argument("--users", type=int, default=8, help="users at once (default: 8)")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long they move (default: 15)")
    options = parser.parse_args()
    with running_app() as port:
        for model in options.models:
            bare, answered = alone(port, model, options.moves)
            print(f"{model}, one user, {len(bare)} moves, in milliseconds: fastest tenth, median")
            rows = {"bare library call": numbers(bare), "answer of the app": numbers(answered)}
            rows["app minus library"] = [b - a for a, b in zip(*rows.values(), strict=True)]
            for name, (fast, usual) in rows.items():
                print(f"  {name}  {fast:7.1f} {usual:7.1f}")
            found = together(port, model, options.users, options.seconds)
            counts, times = [len(one) for one in found], sorted(itertools.chain(*found))
            print(
                f"{model}, {options.users} users at once for {options.seconds:g} s: {sum(counts)} moves, all answered rightly"
            )
            print(f"  answers of each user   {min(counts)} to {max(counts)}")
            print(
                f"  time to answer         {1e3 * statistics.median(times):.0f} ms median, "
                f"{1e3 * times[int(0.95 * len(times))]:.0f} ms for 95 %, {1e3 * times[-1]:.0f} ms longest",
                flush=True,
            )


if __name__ == "__main__":
    main()
