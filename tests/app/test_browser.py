"""The pages in a real browser: what a person does, and that nothing is asked of another host and no error is logged."""

import json
import shutil
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.app import world
from tests.app.conftest import waited_for

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"),
    pytest.mark.xdist_group("browser"),  # one browser for all of them
]

CONTROLS = "select, input, button, a, img"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900"
)


class Browser:
    """A tab, and all that it asked for and logged."""

    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS.split():
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={folder / 'profile'}")
        options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.tab = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.tab.set_page_load_timeout(60)

    def at(self, selector):
        return self.tab.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.tab.find_elements(By.CSS_SELECTOR, selector)

    def until(self, selector, is_so):
        """Waits until an element is so; the page may replace it meanwhile."""

        def so():
            try:
                return is_so(self.at(selector))
            except Exception:
                return False

        waited_for(so)

    def control(self, name):
        """The control of an attribute."""
        for one in self.all(".control"):
            if one.find_element(By.CSS_SELECTOR, "label").text.startswith(name):
                return one.find_element(By.CSS_SELECTOR, "input, select")
        raise AssertionError(f"no control of {name}")

    def asked_hosts(self):
        found = set()
        for entry in self.tab.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                parts = urlsplit(message["params"]["request"]["url"])
                if parts.scheme in ("http", "https", "ws", "wss"):
                    found.add(parts.netloc)
        return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.tab.quit()


@pytest.fixture(autouse=True)
def quiet(browser, request):
    """After every test: no request to another host, no error and no warning in the console."""
    browser.tab.get_log("browser"), browser.tab.get_log("performance")
    yield
    logged = [entry["message"] for entry in browser.tab.get_log("browser") if entry["level"] != "INFO"]
    allowed = getattr(request.node, "refused", 0)  # answers with an error code, which the browser logs
    assert len(logged) <= allowed, logged
    own = {request.getfixturevalue("live").address.removeprefix("http://")} if "live" in request.fixturenames else set()
    assert browser.asked_hosts() <= own


def opened(browser, live):
    browser.tab.get(f"{live.address}/?model={world.MODEL}")
    browser.until("#counterfactual", lambda one: one.get_attribute("src"))


def test_dragging_a_slider_changes_picture_and_graph(browser, live):
    opened(browser, live)
    before = browser.at("#counterfactual").get_attribute("src")
    slider = browser.control("size")
    webdriver.ActionChains(browser.tab).drag_and_drop_by_offset(slider, 60, 0).perform()
    browser.until(".graph .set", lambda one: "size" in one.text and "→" in one.text)
    browser.until(".graph .moved", lambda one: "gloss" in one.text and "→" in one.text)
    assert browser.at("#counterfactual").get_attribute("src") != before
    alt = browser.at("#counterfactual").get_attribute("alt")
    shown = slider.find_element(By.XPATH, "./ancestor::div[contains(@class, 'control')]//output").text
    assert f"size {shown}" in alt
    assert "<b>wet" in alt  # a name is text
    assert not browser.all(".control b")
    # what causality adds: without the graph nothing follows, and the edge is cut
    browser.at("#follow").click()
    browser.until(".graph .scissors", lambda one: one.text == "✂")
    assert not browser.all(".graph .moved")
    browser.at("#follow").click()
    browser.until(".graph .moved", lambda one: True)


def test_everything_can_be_done_with_the_keyboard(browser, live):
    opened(browser, live)
    slider = browser.control("size")
    browser.tab.execute_script("arguments[0].focus()", slider)
    slider.send_keys(Keys.END)
    browser.until(".graph .set", lambda one: "5.00" in one.text)
    assert slider.get_attribute("aria-valuetext").startswith("5.00")
    undo = browser.at(".control.set .icon")
    undo.send_keys(Keys.ENTER)
    browser.until("#reset", lambda one: not one.is_enabled())
    browser.control("<b>wet").send_keys(Keys.SPACE)
    browser.until(".graph .set", lambda one: "<b>wet" in one.text)
    # the whole page, once nothing is replaced any more: every control says what it is
    browser.until("body", lambda _: all(one.accessible_name for one in browser.all(CONTROLS) if one.is_displayed()))


def test_the_classifier_and_the_strip(browser, live):
    opened(browser, live)
    browser.until("#answers", lambda one: one.text.count("0.") + one.text.count("1.") >= 3)
    Select(browser.at("#strip-of")).select_by_visible_text("size")
    waited_for(lambda: len(browser.all("#strip button")) == 9)
    browser.all("#strip button")[8].click()
    browser.until(".graph .set", lambda one: "5.00" in one.text)
    assert "--do size=5" in browser.at("#shell").text
    assert "cfgen.load" in browser.at("#python").text
    browser.until("#strip button:nth-child(9)", lambda one: one.get_attribute("aria-pressed") == "true")


def test_a_picture_of_ones_own(browser, live, tmp_path):
    opened(browser, live)
    (tmp_path / "mine.png").write_bytes(world.png(60, 40))
    browser.at("#file").send_keys(str(tmp_path / "mine.png"))
    browser.until("#own", lambda one: one.is_displayed())
    browser.at("#given-size").send_keys("2.5")
    browser.at("#given-gloss").send_keys("4")
    for name in ("colour", "<b>wet"):
        Select(browser.tab.find_element(By.ID, f"given-{name}")).select_by_index(1)
    before = browser.at("#original").get_attribute("src")
    browser.at("#own button.main").click()
    browser.until("#original", lambda one: one.get_attribute("src") != before)
    browser.until("#original", lambda one: "size 2.50" in one.get_attribute("alt"))


def test_a_file_that_is_no_picture(browser, live, tmp_path, request):
    opened(browser, live)
    (tmp_path / "broken.png").write_bytes(world.truncated_jpeg())
    browser.at("#file").send_keys(str(tmp_path / "broken.png"))
    browser.until("#message", lambda one: "broken.png" in one.text)
    request.node.refused = 1
    slider = browser.control("size")
    slider.send_keys(Keys.HOME)
    browser.until(".graph .set", lambda one: "1.00" in one.text)  # the page goes on


def test_a_small_audit_to_its_report(browser, live, here):
    browser.tab.get(f"{live.address}/audit?model={world.MODEL}")
    browser.until("#attribute option", lambda one: True)
    Select(browser.at("#attribute")).select_by_value("colour")
    assert "images)" in browser.at("#value").text
    browser.at("#add").click()
    browser.until("#interventions li", lambda one: "of 120 test images" in one.text)
    browser.at("#judged").click()
    browser.at("#start").click()
    browser.until(".job", lambda one: "✓ done" in one.text)
    browser.until("#earlier a", lambda one: "runs/signs, 001" in one.text)
    browser.at(".job a").click()
    browser.until("h2", lambda one: one.text == "What was found")
    width = browser.tab.execute_script("return getComputedStyle(document.querySelector('main')).maxWidth")
    assert width != "none"  # its style was let in by the policy
    shutil.rmtree(here / "runs/signs/001/audits")


def test_the_data_page(browser, live):
    browser.tab.get(f"{live.address}/data?model={world.MODEL}")
    browser.until("#splits", lambda one: "120" in one.text)
    assert browser.at("#sheet").get_attribute("alt")


def test_pages_fit_a_narrow_screen(browser, live):
    size = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.tab.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for path, there in (("/", "#counterfactual"), ("/audit", "#attribute option"), ("/data", "#splits div")):
            browser.tab.get(f"{live.address}{path}?model={world.MODEL}")
            browser.until(there, lambda one: True)
            assert browser.tab.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.tab.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_an_exported_page_works_from_the_disk(browser, here, tmp_path):
    import cfgen
    from cfgen.app.static_page import write_page

    page = write_page(cfgen.load(world.MODEL), tmp_path / "site", examples=2)
    browser.tab.get((page.folder / "index.html").as_uri())
    browser.until("#counterfactual", lambda one: one.get_attribute("src"))
    before = browser.at("#counterfactual").get_attribute("src")
    browser.control("size").send_keys(Keys.END)
    browser.until(".graph .moved", lambda one: "gloss" in one.text)
    assert browser.at("#counterfactual").get_attribute("src") != before
    browser.all("#examples button")[1].click()
    browser.until("#reset", lambda one: not one.is_enabled())
