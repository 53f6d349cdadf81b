"""What a person takes away from the page What if, by its buttons: PNG files, a shell command and Python that make the same picture."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver.common.keys import Keys

from tests.app.browsing import IN_A_BROWSER, opened
from tests.app.conftest import waited_for
from tests.app.world import pixels_of

pytestmark = IN_A_BROWSER
ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def changed(browser, live):
    """The page after a thick digit that is not brighter was asked for, and its pixels."""
    permissions = {"origin": live.address, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.tab.execute_cdp_cmd("Browser.grantPermissions", permissions)
    opened(browser, live, "morphomnist-hvae")
    browser.all("#examples button")[3].click()
    browser.until("#counterfactual", lambda one: "label 3" in one.get_attribute("alt"))
    browser.at("#follow").click()
    browser.control("thickness").send_keys(Keys.END)
    browser.until("#shell", lambda one: "--hold intensity" in one.text and "--index 3" in one.text)
    yield {kind: pixels_of(browser.at(f"#{kind}").get_attribute("src")).numpy() for kind in KINDS}
    browser.at("#follow").click()


KINDS = ("original", "reconstruction", "counterfactual", "difference")


def copied(browser, kind):
    """What is in the clipboard after a press on the button."""
    browser.tab.execute_async_script("navigator.clipboard.writeText('').then(arguments[0])")
    browser.at(f"[data-copy={kind}]").click()
    browser.until("#status", lambda one: one.text == "Copied.")
    read = "navigator.clipboard.readText().then(arguments[0], error => arguments[0](String(error)))"
    text = browser.tab.execute_async_script(read)
    assert text == browser.at(f"#{kind}").text
    return text


def test_the_copied_shell_command_makes_the_same_picture(browser, changed, tmp_path):
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-euc", copied(browser, "shell")], cwd=tmp_path, env=environment, check=True, timeout=300)
    (drawn,) = (tmp_path / "counterfactual").glob("*do(*.png")
    assert np.array_equal(np.array(Image.open(drawn)), changed["counterfactual"])


def test_the_copied_python_makes_the_same_picture(browser, changed, tmp_path):
    words = [sys.executable, "-c", copied(browser, "python")]
    subprocess.run(words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, timeout=300)
    (drawn,) = (tmp_path / "counterfactual").glob("*do(*.png")
    assert np.array_equal(np.array(Image.open(drawn)), changed["counterfactual"])


def saved(browser, button, name):
    path = browser.downloads / name
    path.unlink(missing_ok=True)
    browser.at(button).click()
    waited_for(path.exists)
    waited_for(lambda: not list(browser.downloads.glob("*.crdownload")))
    return np.array(Image.open(path).convert("RGB"))


def test_the_counterfactual_is_saved_as_it_is(browser, changed):
    found = saved(browser, "#save-one", "counterfactual.png")
    assert np.array_equal(found[..., 0], changed["counterfactual"])


def test_all_four_pictures_are_saved_side_by_side(browser, changed):
    found = saved(browser, "#save-all", "what-if.png")
    assert found.shape == (324, 1104, 3)
    side, gap = 256, 16
    # of each pixel of a digit the middle of its square; beside the pictures there is white, below them their names
    middles = np.floor((np.arange(28) + 0.5) * side / 28).astype(int) + gap
    for number, kind in enumerate(KINDS):
        square = found[np.ix_(middles, middles + number * (side + gap))]
        wanted = changed[kind] if changed[kind].ndim == 3 else np.repeat(changed[kind][..., None], 3, axis=2)
        assert np.array_equal(square, wanted), kind
        assert (found[gap + side + 8 :, number * (side + gap) + gap :][:, :side] < 128).any(), kind
    assert (found[:gap] == 255).all()
