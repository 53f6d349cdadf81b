"""Fixtures of the app's tests: the small world, a client without a network, and a server on a port of its own."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from cfgen.app.server import create_app
from cfgen.app.serving import Server, bound
from tests.app import world


@pytest.fixture(scope="session")
def signs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs; never changed by a test, but for audits that are added."""
    return world.built(tmp_path_factory.mktemp("app"))


@pytest.fixture
def here(signs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(signs)
    return signs


@pytest.fixture
def studio(here):
    made = world.studio()
    yield made
    made.close()


@pytest.fixture
def client(studio) -> Iterator[TestClient]:
    app = create_app(studio, "testserver")
    with TestClient(app, headers=world.HEADERS, raise_server_exceptions=False) as client:
        yield client


class Live:
    """An app that a browser can open."""

    def __init__(self, studio) -> None:
        self.studio = studio
        listening = bound("127.0.0.1", 0, 0)
        self.port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        ready = threading.Event()
        config = uvicorn.Config(create_app(studio), log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        self.server = Server(config, ready.set)
        self.thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        self.thread.start()
        assert ready.wait(30)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture(scope="module")
def live(signs: Path) -> Iterator[Live]:
    before = os.getcwd()
    os.chdir(signs)
    server = Live(world.studio())
    yield server
    server.stop()
    os.chdir(before)


def waited_for(done, seconds: float = 60.0) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from tests.app.browsing import Browser  # here: selenium is needed by the tests in a browser alone

    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.tab.quit()


@pytest.fixture
def quiet(browser, request):
    """After a test: no request to another host, no error and no warning in the console."""
    browser.tab.get_log("browser"), browser.tab.get_log("performance")
    yield
    logged = [entry["message"] for entry in browser.tab.get_log("browser") if entry["level"] != "INFO"]
    allowed = getattr(request.node, "refused", 0)  # answers with an error code, which the browser logs
    assert len(logged) <= allowed, logged
    own = {request.getfixturevalue("live").address.removeprefix("http://")} if "live" in request.fixturenames else set()
    assert browser.asked_hosts() <= own
