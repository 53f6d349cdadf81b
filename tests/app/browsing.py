"""A real browser for the app's tests, and all that it asked for and logged."""

import json
import shutil
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.app import world
from tests.app.conftest import waited_for

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
IN_A_BROWSER = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"),
    pytest.mark.xdist_group("browser"),  # one browser for all of them
    pytest.mark.usefixtures("quiet"),
]
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
        self.downloads = folder
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


def opened(browser, live, model=world.MODEL):
    """The page What if with a picture."""
    browser.tab.get(f"{live.address}/?model={model}")
    browser.until("#counterfactual", lambda one: one.get_attribute("src"))
