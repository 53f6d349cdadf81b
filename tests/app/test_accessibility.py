"""What a screen reader is told, by the browser's own accessibility tree: names of controls, texts for pictures, live regions."""

import itertools
import shutil

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

import cfgen
from cfgen.app.static_page import write_page
from cfgen.audit import write_report
from cfgen.study.making import new_study
from tests.app import world
from tests.app.browsing import IN_A_BROWSER, opened
from tests.app.conftest import waited_for

pytestmark = IN_A_BROWSER
NAMED = {
    "button", "link", "checkbox", "switch", "slider", "combobox", "spinbutton", "textbox", "meter", "progressbar",
    "img", "image", "region", "navigation", "form",
}  # fmt: skip


class Tree:
    """The nodes of the page that a screen reader gets to know."""

    def __init__(self, browser):
        nodes = browser.tab.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        self.nodes = [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                **{one["name"]: one["value"].get("value") for one in node.get("properties", [])},
            }
            for node in nodes
            if not node["ignored"]
        ]

    def of(self, *roles):
        return [node for node in self.nodes if node["role"] in roles]

    def check(self):
        """The laws of every page."""
        assert [node for node in self.of(*NAMED) if not node["name"].strip()] == []
        assert len(self.of("main")) == 1
        levels = [node["level"] for node in self.of("heading")]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))  # none is skipped
        names = [node["name"] for node in self.of("button", "slider", "switch", "combobox", "checkbox")]
        assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)

    def lives(self):
        """How many regions tell of changes by themselves, by how urgently."""
        found = [node.get("live") for node in self.nodes if node.get("live") not in (None, "off")]
        return {kind: found.count(kind) for kind in set(found)}


def test_what_if(browser, live):
    opened(browser, live)
    slider = browser.control("size")
    slider.send_keys(Keys.END)
    browser.until(".graph .moved", lambda one: True)
    waited_for(lambda: len(browser.all("#strip button")) == 9)
    tree = Tree(browser)
    tree.check()
    pictures = [node["name"] for node in tree.of("img", "image")]
    for kind in ("original", "reconstruction", "counterfactual"):
        (text,) = [name for name in pictures if name.startswith(f"{kind}: ") and "gloss" in name][:1]
        assert all(attribute in text for attribute in ("size", "gloss", "colour", world.WET))
    (graph,) = [name for name in pictures if name.startswith("Causal graph.")]
    assert "size causes gloss" in graph
    assert "Follows: gloss from" in graph
    assert {node["name"].split()[0] for node in tree.of("slider")} == {"size", "gloss"}
    # the value of each control is an output; the place in the queue and what the classifier says are told too
    assert tree.lives()["polite"] >= len(world.ATTRIBUTES) + 2


def test_an_error_is_told_at_once(browser, live, tmp_path, request):
    opened(browser, live)
    (tmp_path / "broken.png").write_bytes(world.truncated_jpeg())
    browser.at("#file").send_keys(str(tmp_path / "broken.png"))
    browser.until("#message", lambda one: one.is_displayed())
    request.node.refused = 1
    assert Tree(browser).lives()["assertive"] == 1


def test_a_picture_of_ones_own(browser, live, tmp_path):
    opened(browser, live)
    (tmp_path / "mine.png").write_bytes(world.png())
    browser.at("#file").send_keys(str(tmp_path / "mine.png"))
    browser.until("#own", lambda one: one.is_displayed())
    tree = Tree(browser)
    assert [node for node in tree.of(*NAMED) if not node["name"].strip()] == []
    assert len(tree.of("spinbutton")) == 2


def test_audit_and_two_audits_side_by_side(browser, live, here):
    for number in (1, 2):
        made = cfgen.load(world.MODEL).audit(world.CLASSIFIER, do=["colour=green"], count=40, predictor=None)
        write_report(made, here / f"runs/signs/001/audits/{number:03d}")
    browser.tab.get(f"{live.address}/audit?model={world.MODEL}")
    browser.until("#start", lambda one: one.is_enabled())
    Select(browser.at("#do select")).select_by_value("colour")
    browser.at("#do button").click()
    browser.until("#interventions li", lambda one: True)
    for summary in browser.all("details summary"):
        summary.click()
    tree = Tree(browser)
    assert [node for node in tree.of(*NAMED) if not node["name"].strip()] == []
    assert tree.lives()["polite"] >= 3  # the status, interventions and what is joined to them
    for number in (0, 1):
        browser.all("#earlier input")[number].click()
    browser.at("#compare").click()
    browser.until("h1", lambda one: "side by side" in one.text)
    Tree(browser).check()
    shutil.rmtree(here / "runs/signs/001/audits")


def test_data(browser, live):
    browser.tab.get(f"{live.address}/data?model={world.MODEL}")
    browser.until("#splits", lambda one: "120" in one.text)
    tree = Tree(browser)
    tree.check()
    assert {"polite"} <= set(tree.lives())
    assert len(tree.of("columnheader")) >= 4


@pytest.mark.parametrize("there", [True, False])
def test_studies(browser, live, here, there):
    if there:
        new_study(cfgen.load("morphomnist-hvae"), [{"thickness": 5.0}], seed=3).save(here / "studies/digits")
    browser.tab.get(f"{live.address}/study/")
    browser.until("h2", lambda one: True)
    Tree(browser).check()
    if there:
        browser.at(".button.main").click()
        browser.until("#agree", lambda one: one.is_displayed())
        Tree(browser).check()
        browser.at("#agree").click()
        browser.at("#begin").click()
        browser.until("#start", lambda one: one.is_enabled())
        assert Tree(browser).lives()["polite"] >= 1
        browser.at("#start").click()
        browser.until("#left", lambda one: one.is_displayed())
        tree = Tree(browser)
        tree.check()
        assert {"Left picture", "Right picture"} <= {node["name"] for node in tree.of("img", "image")}
        shutil.rmtree(here / "studies")


def test_an_exported_page(browser, here, tmp_path):
    page = write_page(cfgen.load(world.MODEL), tmp_path / "site", examples=2)
    browser.tab.get((page.folder / "index.html").as_uri())
    browser.until("#counterfactual", lambda one: one.get_attribute("src"))
    Tree(browser).check()
