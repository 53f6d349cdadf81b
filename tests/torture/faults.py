"""One try: a command in a copy of the template, a fault at a random point, and the laws that have to hold afterwards."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.torture.children import Ended, Harm, processes_of, start
from tests.torture.scenes import SCENES, STUDY, Outcome, Scene, copied, interrupted, leftovers, prepare

__all__ = ["FAULTS", "Reference", "Try", "attempt", "chosen", "references"]

KILLS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
FAULTS = [*KILLS, "disk full", "read-only", "bits flipped", "memory", "second copy"]
LEAST, MOST = 1 << 20, 80 << 20  # bytes more that a starved process may have
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV)
GONE = 2.0  # seconds within which the processes of an ended command are gone


@dataclass(frozen=True)
class Reference:
    """A command left in peace: what it leaves and prints, how long it takes, and how often it changes a file."""

    outcome: Outcome
    out: str
    seconds: float
    changes: int
    size: int


@dataclass(frozen=True)
class Try:
    """A scene and a fault; everything else follows from the seed and the number."""

    number: int
    seed: int
    scene: str
    fault: str


class Loss(Exception):
    """A law that does not hold."""


def chosen(seed: int, number: int) -> Try:
    """The try of that number: scenes and faults in turn, in an order that the seed shuffles anew each round."""
    pairs = [(scene.name, fault) for scene in SCENES for fault in FAULTS]
    random.Random(f"{seed}/{number // len(pairs)}").shuffle(pairs)
    return Try(number, seed, *pairs[number % len(pairs)])


def references(base: Path) -> dict[str, Reference]:
    """Makes the template in `base` and runs every command once."""
    template = base / "template"
    in_process(lambda: prepare(template))
    for words in (
        ["export", "model", "exported", "--examples", "0"],
        ["fit", "--config", "it.yaml", "--trainer.max_epochs=1"],
        [*STUDY, "study"],
    ):
        done = start(words, template, base / "logs" / "prepare").wait()
        if done.code:
            raise SystemExit(f"cfgen {' '.join(words)} failed:\n{done.error}")
    interrupted(template)
    found = {}
    for scene in SCENES:
        folder = base / "reference"
        with work_folder(folder):
            copied(template, scene, folder)
            before = size_of(folder)
            done = start(scene.words, folder, base / "logs" / "reference").wait()
            if done.code:
                raise SystemExit(f"cfgen {' '.join(scene.words)} failed by itself:\n{done.error}")
            outcome = scene.outcome(folder, done.out)
            assert outcome, scene.name
            found[scene.name] = Reference(outcome, done.out, done.seconds, done.changes, size_of(folder) - before)
            if scene.cache:
                shutil.copytree(folder / scene.cache, base / "caches" / scene.name)
    assert found["fit"].outcome == found["fit, resumed"].outcome, "a resumed run differs from an uninterrupted one"
    return found


def in_process(work: Callable[[], None]) -> None:
    """In a forked process, which may start threads: this one may not."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("the template could not be made")


def size_of(folder: Path) -> int:
    """Bytes that the files of a folder take on a disk of pages."""
    return sum(-(-path.stat().st_size // 4096) * 4096 + 4096 for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def work_folder(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A disk of that size at the folder, which is another afterwards."""
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@cache
def can_mount() -> bool:
    """Whether this process may make disks of its own, as root may outside of most containers."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder), 4096):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def attempt(one: Try, base: Path, reference: Reference) -> str | None:
    """Does a try; returns what is lost, in a line, or nothing; None where the fault cannot be made here."""
    if one.fault == "read-only" and not can_mount() and os.geteuid() == 0:
        return None  # modes do not hinder root
    scene = next(scene for scene in SCENES if scene.name == one.scene)
    if one.fault == "bits flipped" and not scene.damageable:
        return None  # it reads nothing that has a checksum
    chance = random.Random(f"{one.seed}/{one.number}/{one.scene}/{one.fault}")
    folder, logs = base / f"try-{one.number}", base / "logs" / str(one.number)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(work_folder(folder))
            template = base / "template"
            if one.fault in ("disk full", "read-only") and can_mount():
                room = size_of(template) + 65536 + int(chance.random() * (reference.size + 4096))
                room = room if one.fault == "disk full" else 1 << 30
                stack.enter_context(small_disk(folder, room))
            copied(template, scene, folder)
            Tried(one, scene, chance, folder, logs, base, reference).run()
    except Loss as loss:
        return str(loss)
    shutil.rmtree(logs, ignore_errors=True)
    return ""


class Tried:
    """A try at work."""

    def __init__(
        self, one: Try, scene: Scene, chance: random.Random, folder: Path, logs: Path, base: Path, reference: Reference
    ) -> None:
        self.one, self.scene, self.chance, self.folder, self.logs = one, scene, chance, folder, logs
        self.base, self.reference = base, reference
        self.kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def run(self) -> None:
        fault = self.one.fault
        if fault in KILLS:
            self.killed(KILLS[fault])
        elif fault == "second copy":
            self.twice()
        elif fault == "bits flipped":
            self.flipped()
        else:
            getattr(self, {"disk full": "full_disk", "read-only": "read_only", "memory": "starved"}[fault])()
        self.goes_on()

    def killed(self, number: int) -> None:
        """At a change of a file, or at any moment."""
        if self.chance.random() < 0.5:
            at = self.chance.randint(1, max(1, self.reference.changes))
            done = start(self.scene.words, self.folder, self.logs / "1", Harm(number, at)).wait()
        else:
            child = start(self.scene.words, self.folder, self.logs / "1")
            time.sleep(self.chance.random() * self.reference.seconds)
            child.kill(number)
            done = child.wait()
        # at the very start and end of a process the system takes SIGTERM itself; a shell shows both as 143
        codes = {signal.SIGKILL: {-number}, signal.SIGTERM: {-number, 128 + number}, signal.SIGINT: {128 + number}}
        self.ended(done, {0, *codes[signal.Signals(number)]}, tidy=number != signal.SIGKILL)

    def full_disk(self) -> None:
        if not can_mount():  # a file that cannot grow is the next best thing
            largest = int(self.chance.random() * 65536)
            done = start(self.scene.words, self.folder, self.logs / "1", Harm(largest=largest)).wait()
            self.ended(done, {0, 2})
            return
        self.ended(start(self.scene.words, self.folder, self.logs / "1").wait(), {0, 2})
        mount("-o", "remount,size=1g", str(self.folder))

    def read_only(self) -> None:
        """The whole disk where that can be, else all folders."""
        folders = [self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())]

        def allow(writing: bool) -> None:
            if can_mount():
                mount("-o", f"remount,{'rw' if writing else 'ro'}", str(self.folder))
                return
            for path in folders:
                path.chmod(0o755 if writing else 0o555)

        allow(False)
        try:
            self.ended(start(self.scene.words, self.folder, self.logs / "1").wait(), {2} if self.scene.writes else {0})
        finally:
            allow(True)

    def starved(self) -> None:
        more = self.chance.randint(LEAST, MOST)
        done = start(self.scene.words, self.folder, self.logs / "1", Harm(memory=more)).wait()
        # a library in C++ that gets no memory may abort or crash, which nobody can catch: what is written is whole even then
        self.ended(done, {0, 2, *CRASHES}, tidy=done.code not in CRASHES)

    def flipped(self) -> None:
        """One bit of a file that the command reads: it is refused, or made again, or does not matter."""
        if self.scene.cache:
            shutil.copytree(self.base / "caches" / self.scene.name, self.folder / self.scene.cache)
        files = sorted(path for one in self.scene.damageable for path in self.folder.glob(one) if path.is_file())
        path = self.chance.choice(files)
        whole = path.read_bytes()
        data = bytearray(whole)
        data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        path.write_bytes(data)
        done = start(self.scene.words, self.folder, self.logs / "1").wait()
        self.kept.pop(path, None)
        self.ended(done, {0, 2})
        if done.code == 0:
            self.right(done.out, f"with a bit of {path.relative_to(self.folder)} flipped")
        if not self.scene.cache:  # a cache is made again, anything else is not the command's to mend
            path.write_bytes(whole)

    def twice(self) -> None:
        first = start(self.scene.words, self.folder, self.logs / "1")
        time.sleep(self.chance.random() * 0.2 * self.reference.seconds)
        second = start(self.scene.words, self.folder, self.logs / "2")
        ends = [first.wait(), second.wait()]
        for end in ends:
            self.ended(end, {0, 2}, tidy=False)
        if 0 not in [end.code for end in ends]:
            raise Loss(f"both copies are refused: {ends[0].error.strip()[-150:]}")
        self.right(next(end.out for end in ends if end.code == 0), "of two copies")

    def ended(self, done: Ended, codes: set[int], tidy: bool = True) -> None:
        """The laws of an end, whatever the reason."""
        if done.code is None:
            raise Loss("hangs")
        if "Traceback" in done.error:
            raise Loss(f"a traceback, exit code {done.code}: {done.error.strip().splitlines()[-1][:150]}")
        if done.code not in codes:
            raise Loss(f"exit code {done.code}: {done.error.strip()[-150:]}")
        if done.code == 2 and len(done.error.strip().splitlines()[-1:]) != 1:
            raise Loss("exit code 2 without a word")
        self.nothing_lost()
        if tidy and (left := leftovers(self.folder)):
            raise Loss(f"left behind: {', '.join(left)}")

    def nothing_lost(self) -> None:
        """What was there is as it was, unless it is the command's to write."""
        for path, content in self.kept.items():
            name = str(path.relative_to(self.folder))
            if any(fnmatch.fnmatch(name, pattern) for pattern in self.scene.rewrites):
                continue
            if not path.is_file() or path.read_bytes() != content:
                raise Loss(f"{name} is lost or changed")

    def right(self, out: str, when: str) -> None:
        outcome = self.scene.outcome(self.folder, out)
        expected = self.reference.outcome
        if outcome != expected:
            differing = [name for name in expected | outcome if expected.get(name) != outcome.get(name)]
            raise Loss(f"another result {when}: {', '.join(differing)[:150]}")

    def goes_on(self) -> None:
        """The same command ends with the undisturbed result, and leaves nothing else."""
        words = self.scene.going_on(self.folder)
        done = start(words, self.folder, self.logs / "again").wait()
        # refused rightly where it was finished already
        finished = done.code == 2 and self.scene.outcome(self.folder, done.out) == self.reference.outcome
        self.ended(done, {2} if finished else {0})
        self.right(done.out, "afterwards")
        for log in self.logs.iterdir():
            self.no_process(log)

    def no_process(self, log: Path) -> None:
        session = int((log / "session").read_text())
        end = time.monotonic() + GONE
        while left := processes_of(session):
            if time.monotonic() > end:
                raise Loss(f"processes remain: {left}")
            time.sleep(0.05)
