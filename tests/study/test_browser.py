"""A whole study, sat in a real browser: from a file, and from a server; with a reload in the middle."""

import json
import os
import shutil
import threading
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("selenium", reason="needs selenium")
pytest.importorskip("uvicorn", reason="needs cfgen[app]")
import uvicorn
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from starlette.applications import Starlette
from starlette.routing import Mount

from cfgen.study.analysis import analyse
from cfgen.study.design import Study
from cfgen.study.web import routes

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-dev-shm-usage --window-size=360,740"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path_factory.getbasetemp())})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(DRIVER))
    # a window is 500 pixels wide at least; a telephone is not
    narrow = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    made.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    made.downloads = tmp_path_factory.getbasetemp()
    yield made
    made.quit()


@pytest.fixture(autouse=True)
def quiet(tab):
    """After every test: nothing in the console, and no request but to this machine."""
    tab.get_log("browser"), tab.get_log("performance")
    yield
    assert [entry["message"] for entry in tab.get_log("browser") if entry["level"] != "INFO"] == []
    asked = (json.loads(entry["message"])["message"] for entry in tab.get_log("performance"))
    urls = [one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"]
    assert {urlsplit(url).hostname for url in urls if url.startswith(("http", "ws"))} <= {"127.0.0.1"}


def waited_for(so, seconds=40.0):
    end = time.monotonic() + seconds
    while not (found := so()):
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.03)
    return found


def at(tab, selector):
    """An element, once it can be seen and used."""

    def usable():
        found = tab.find_elements(By.CSS_SELECTOR, selector)
        return found[0] if found and found[0].is_displayed() and found[0].is_enabled() else None

    return waited_for(usable)


def seen(tab):
    """The step that the page shows, and the number of answers that it keeps."""
    return tab.execute_script(
        "return [[...document.querySelectorAll('section')].find(one => !one.hidden)?.id, lines.filter(Boolean).length, waiting]"
    )


def begin(tab):
    at(tab, "#agree").click()
    at(tab, "#begin").click()
    at(tab, "#start").click()


def answer(tab, until):
    """Answers by arrow keys, left and right in turn, and goes through practice, until so many answers are kept."""
    while (step := seen(tab))[1] < until:
        if step[0] == "begin-main":
            at(tab, "#go-on").click()
        elif step[0] == "trial" and step[2]:
            assert [one.get_attribute("alt") for one in tab.find_elements(By.CSS_SELECTOR, ".pair img")] == [
                "Left picture",
                "Right picture",
            ]
            time.sleep(0.35)
            tab.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_LEFT if step[1] % 2 else Keys.ARROW_RIGHT)
            waited_for(lambda step=step: seen(tab)[1] > step[1])
        elif step[0] == "trial":
            following = tab.find_elements(By.CSS_SELECTOR, "#next")
            if following[0].is_displayed():
                assert tab.find_element(By.ID, "feedback").text[0] in "✓✗"
                following[0].click()


def test_from_a_file(tab, folder):
    study = Study.read(folder)
    every = len(study.sheets[0])
    tab.get((folder / "page" / "index.html").as_uri())
    begin(tab)
    answer(tab, 5)
    link = tab.current_url
    tab.refresh()
    at(tab, "#start").click()
    assert seen(tab)[1] == 5
    assert tab.current_url == link
    assert tab.execute_script("return document.documentElement.scrollWidth") <= 360
    answer(tab, every)
    at(tab, "#download").click()
    person = link.partition("#p=")[2]
    path = tab.downloads / f"answers-{person}.jsonl"
    waited_for(path.exists)
    (participant,) = analyse(folder, [path]).participants
    assert participant["participant"] == person
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["answer"] for line in lines] == [("right", "left")[number % 2] for number in range(every)]
    mail = at(tab, "#send a").get_attribute("href")
    assert mail.startswith("mailto:study@example.org?")
    assert path.name in mail


def test_from_a_server(tab, folder):
    study = Study.read(folder)
    every = len(study.sheets[0])
    app = Starlette(routes=[Mount("/study", routes=routes(folder.parent))])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    waited_for(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        tab.get(f"http://127.0.0.1:{port}/study/stripes/")
        begin(tab)
        answer(tab, 6)
        link = tab.current_url
        kept = folder / "answers" / f"{link.partition('#p=')[2]}.jsonl"
        waited_for(lambda: kept.exists() and len(kept.read_text().splitlines()) == 6)
        tab.execute_script("localStorage.clear()")  # another device: the link alone is enough
        tab.get("about:blank")
        tab.get(link)
        at(tab, "#start").click()
        assert seen(tab)[1] == 6
        answer(tab, every)
        waited_for(lambda: "have been saved" in tab.find_element(By.ID, "finished-text").text)
        assert os.listdir(folder / "answers") == [kept.name]
        found = analyse(folder)
        assert found.unreadable == []
        assert found.excluded.get("not finished") is None
    finally:
        server.should_exit = True
        thread.join(20)
