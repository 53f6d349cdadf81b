"""Files and folders are whole or absent, whoever dies, is interrupted, runs out of room or writes at the same time."""

import errno
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from cfgen.__main__ import main
from cfgen.errors import UserError
from cfgen.io import parts, writing
from cfgen.io.writing import new_folder, new_numbered_folder, write_atomically, write_files, write_new
from cfgen.runs import export as exporting
from cfgen.runs.generation import generate
from cfgen.runs.model import load_trained
from cfgen.runs.verification import verify
from tests.breakage.tiny import WORDS, everything

FILES = {"a": b"first", "b": "second", "c": b"third"}


def full_disk(file=None):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def in_a_child(work, end=signal.SIGKILL):
    """Runs `work` in a process of its own, which is killed when it says that it is ready; returns once it is dead."""
    child = child_at(work)
    os.kill(child, end)
    os.waitpid(child, 0)


def child_at(work):
    """The pid of a process that has run `work` up to where that calls `ready`, and stays there."""
    reading, writing_end = os.pipe()
    child = os.fork()
    if not child:

        def ready(*arguments):
            os.write(writing_end, b".")
            time.sleep(60)

        try:
            work(ready)
        finally:
            os._exit(1)
    os.close(writing_end)
    assert os.read(reading, 1) == b"."
    os.close(reading)
    return child


def all_at_once(work, count=8):
    """What `work(number)` returned or raised in threads that start together."""
    barrier, found = threading.Barrier(count), [None] * count

    def one(number):
        barrier.wait()
        try:
            found[number] = work(number)
        except UserError as error:
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def half_a_file(folder, ready):
    write_atomically(folder / "last.ckpt", lambda file: (file.write(b"half"), file.flush(), ready()))


def half_a_folder(folder, ready):
    with new_folder(folder / "made") as new:
        (new.place / "grid.png").write_bytes(b"half")
        ready()


@pytest.mark.parametrize(("half", "name"), [(half_a_file, "last.ckpt"), (half_a_folder, "made")])
def test_what_a_killed_writer_left_is_removed_by_the_next_and_a_living_ones_is_not(tmp_path, half, name):
    folder = tmp_path / "results"
    folder.mkdir()

    def hidden():
        return {path.name for path in folder.iterdir() if path.name.endswith(".part")}

    in_a_child(lambda ready: half(folder, ready))
    left = hidden()
    assert len(left) == 1
    assert {path.name for path in folder.iterdir()} == left  # nothing has the name
    living = child_at(lambda ready: half(folder, ready))
    try:
        assert len(hidden() & left) == 0  # the dead one's is gone
        if name == "made":
            with pytest.raises(UserError, match="another process"), new_folder(folder / name):
                raise AssertionError("it is being written")
        else:
            write_atomically(folder / name, lambda file: file.write(b"whole"))
            assert (folder / name).read_bytes() == b"whole"
        assert len(hidden()) == 1  # the living one's
    finally:
        os.kill(living, signal.SIGKILL)
        os.waitpid(living, 0)
    if name == "made":
        with new_folder(folder / name) as new:
            new.write(FILES)
        assert everything(folder / name) == {"a": b"first", "b": b"second", "c": b"third"}
    else:
        write_atomically(folder / name, lambda file: file.write(b"again"))
    assert not hidden()


def interrupt():
    raise KeyboardInterrupt


def failing_folder(path, failure):
    with new_folder(path) as new:
        new.write(FILES)
        failure()


@pytest.mark.parametrize("failure", [interrupt, full_disk])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, failure):
    folder = tmp_path / "results"
    write_files(folder, {"a": "old", "b": "old"})

    def fail(file):
        file.write(b"half")
        failure()

    with pytest.raises((KeyboardInterrupt, OSError)) as raised:
        write_atomically(folder / "a", fail)
    if isinstance(raised.value, OSError):
        assert raised.value.filename == str(folder / "a")  # not the hidden name
    with pytest.raises((KeyboardInterrupt, OSError)):
        failing_folder(tmp_path / "deep" / "made", failure)
    # a disk that is full before the last of several files: none of them is changed
    synced = iter([None, None])
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: real(file) if next(synced, full_disk) is None else full_disk())
    with pytest.raises(OSError, match="No space"):
        write_files(folder, {"a": "new", "b": "new", "c": "new"})
    with pytest.raises(UserError, match=r"cannot write \S+/made: No space.*make room") as refusal:
        failing_folder(tmp_path / "made", lambda: None)
    assert refusal.value.argument == "out"
    assert everything(folder) == {"a": b"old", "b": b"old"}
    assert {path.name for path in tmp_path.iterdir()} <= {"results", "here", "cache"}


def test_of_writers_at_once_one_wins_and_the_others_are_refused(tmp_path):
    def write(number):
        with new_folder(tmp_path / "made") as new:
            new.write({f"{name}-{number}": str(number) for name in "abc"} | {"same": str(number)})
        return number

    found = all_at_once(write)
    (winner,) = [number for number in found if isinstance(number, int)]
    assert all(isinstance(error, UserError) and error.argument == "out" for error in found if error != winner)
    assert everything(tmp_path / "made") == {
        name: str(winner).encode() for name in [*(f"{name}-{winner}" for name in "abc"), "same"]
    }
    assert not list(tmp_path.glob(".*"))


def test_numbered_folders_and_files_at_once_are_all_there(tmp_path):
    def folder(number):
        with new_numbered_folder(tmp_path / "audits") as new:
            new.write({"report": str(number)})
        return new.path

    paths = all_at_once(folder)
    assert sorted(path.name for path in paths) == [f"{number:03d}" for number in range(1, 9)]
    assert [path.joinpath("report").read_text() for path in paths] == [str(number) for number in range(8)]
    assert sum(all_at_once(lambda number: write_new(tmp_path / "one.png", bytes([number]) * 100_000))) == 1
    assert len(set((tmp_path / "one.png").read_bytes())) == 1
    assert not list(tmp_path.rglob(".*"))


def test_a_file_system_without_links_has_new_files_too(tmp_path, monkeypatch):
    def no_links(*paths):
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert write_new(tmp_path / "x.png", b"one")
    assert not write_new(tmp_path / "x.png", b"two")
    assert (tmp_path / "x.png").read_bytes() == b"one"


def test_without_locks_nobody_is_taken_for_dead(tmp_path, monkeypatch):
    in_a_child(lambda ready: half_a_file(tmp_path, ready))
    monkeypatch.setattr(parts, "fcntl", None)
    write_atomically(tmp_path / "last.ckpt", lambda file: file.write(b"whole"))
    assert len(list(tmp_path.glob(".*.part"))) == 1


@pytest.mark.parametrize("taken", [".", "run", "run/config.yaml", "link"])
def test_what_is_there_is_never_written_into(here, taken):
    (here / "link").symlink_to(here / "nowhere")
    before = everything(here)
    with pytest.raises(UserError, match="exists already"), new_folder(taken):
        raise AssertionError("it is taken")
    assert everything(here) == before
    (here / "empty").mkdir()  # is as good as none
    with new_folder("empty") as new:
        new.write(FILES)
    assert len(everything(here / "empty")) == 3


def test_two_generates_to_one_folder_do_not_mix(here):
    made = generate(load_trained("run"), [{"Bangs": 1}], index=range(4))
    found = all_at_once(lambda number: made.save("made"), 4)
    assert sum(isinstance(one, Path) for one in found) == 1
    assert len(list((here / "made").iterdir())) == 2 + 4 * 3
    grid = made.grid()
    assert sum(all_at_once(lambda number: write_new(Path("counterfactuals.png"), grid), 4)) == 1


def test_two_exports_to_one_folder_and_one_that_was_killed(here):
    model = load_trained("run")
    in_a_child(lambda ready: killed_export(model, ready))
    assert [path.name for path in here.iterdir() if path.name.startswith(".made.")]
    assert not (here / "made").exists()
    found = all_at_once(lambda number: exporting.export(model, "made"), 3)
    assert sum(isinstance(one, exporting.Exported) for one in found) == 1
    assert verify("made").passed
    assert not list(here.rglob(".*"))


def killed_export(model, ready):
    exporting.write_checksums = ready  # of the child alone
    exporting.export(model, "made")


@pytest.mark.parametrize("command", ["generate", "export", "audit", "compare"])
def test_the_same_command_works_once_there_is_room(here, monkeypatch, capsys, command):
    """A full disk is one line that says where and what to do; the results are those of a disk with room."""
    before = everything(here)
    with monkeypatch.context() as patch:
        patch.setattr(writing, "_fill", lambda *given: full_disk())
        assert main(WORDS[command].split()) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "No space left on device; make room there" in lines[0]
    assert ".part" not in lines[0]
    assert everything(here) == before
    assert main(WORDS[command].split()) == 0
    new = everything(here).keys() - before.keys()
    assert new
    assert not [name for name in new if name.endswith(".part")]
