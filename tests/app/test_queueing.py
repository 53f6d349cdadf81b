"""The queue of the app: fair, the newest counts, nothing is lost."""

import threading

import pytest

from cfgen.app import queueing
from cfgen.app.queueing import Busy, FairWorker, Superseded
from cfgen.errors import UserError


@pytest.fixture
def worker():
    made = FairWorker("test")
    yield made
    made.close()


@pytest.fixture
def gate(worker):
    """Keeps the worker at a first job until it is opened."""
    opened, begun = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert opened.wait(30)

    worker.submit("first", "hold", hold)
    assert begun.wait(30)
    return opened


def test_clients_take_turns_however_many_jobs_each_has(worker, gate):
    done = []
    futures = [
        worker.submit(client, f"job {k}", lambda client=client, k=k: done.append((client, k)))
        for client, count in (("many", 4), ("two", 2), ("one", 1))
        for k in range(count)
    ]
    assert [worker.position(client) for client in ("many", "two", "one", "nobody")] == [1, 2, 3, None]
    gate.set()
    for future in futures:
        future.result(30)
    assert done == [("many", 0), ("two", 0), ("one", 0), ("many", 1), ("two", 1), ("many", 2), ("many", 3)]


def test_the_newest_of_a_kind_takes_the_place_of_the_older(worker, gate):
    done = []
    old = worker.submit("me", "answer", lambda: done.append("old"))
    other = worker.submit("me", "strip", lambda: done.append("strip"))
    worker.submit("you", "answer", lambda: done.append("yours"))
    new = worker.submit("me", "answer", lambda: done.append("new"))
    with pytest.raises(Superseded):
        old.result(30)
    gate.set()
    new.result(30), other.result(30)
    assert done == ["new", "yours", "strip"]


def test_what_fails_is_told_and_the_worker_goes_on(worker, capfd):
    for error in (UserError("no"), ValueError("inside"), KeyboardInterrupt()):

        def fails(error=error):
            raise error

        with pytest.raises(type(error)):
            worker.submit("me", "fails", fails).result(30)
    assert worker.submit("me", "sum", lambda: 2).result(30) == 2
    written = capfd.readouterr().err
    assert "ValueError: inside" in written  # for whoever runs the app
    assert "UserError" not in written  # bad input is the user's


def test_the_line_is_limited_and_closing_answers_everybody(worker, gate, monkeypatch):
    monkeypatch.setattr(queueing, "MOST_WAITING", 3)
    waiting = [worker.submit(f"client {k}", "answer", lambda: None) for k in range(3)]
    with pytest.raises(Busy):
        worker.submit("one more", "answer", lambda: None)
    assert worker.position("one more") is None
    worker.submit("client 0", "answer", lambda: None)  # takes the place of its own
    worker.close()
    for future in waiting[1:]:
        with pytest.raises(Busy):
            future.result(30)
    with pytest.raises(Busy):
        worker.submit("late", "answer", lambda: None)
    gate.set()


def test_somebody_can_wait_until_nothing_is_left_to_do(worker, gate):
    future = worker.submit("me", "answer", lambda: None)
    worker.wait_until_idle(0.01)
    assert not future.done()
    gate.set()
    worker.wait_until_idle(30)
    assert future.done()
