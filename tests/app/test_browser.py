"""The pages in a real browser: what a person does, and that nothing is asked of another host and no error is logged."""

import shutil

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.app import world
from tests.app.browsing import IN_A_BROWSER, opened
from tests.app.conftest import waited_for

pytestmark = IN_A_BROWSER


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


def audit_page(browser, live):
    browser.tab.get(f"{live.address}/audit?model={world.MODEL}")
    browser.until("#start", lambda one: one.is_enabled())


def test_a_small_audit_to_its_report(browser, live, here):
    audit_page(browser, live)
    Select(browser.at("#do select")).select_by_value("colour")
    assert "images)" in browser.at("#do .values select").text
    browser.at("#do button").click()
    browser.until("#interventions li", lambda one: "of 120 test images" in one.text)
    browser.at("#judged").click()
    browser.at("#start").click()
    browser.until(".job", lambda one: "✓ done" in one.text)
    browser.until("#earlier a", lambda one: "runs/signs, 001" in one.text)
    browser.at(".job a").click()
    browser.until("h2", lambda one: one.text == "Results")
    width = browser.tab.execute_script("return getComputedStyle(document.querySelector('main')).maxWidth")
    assert width != "none"  # its style was let in by the policy
    shutil.rmtree(here / "runs/signs/001/audits")


def test_interventions_are_composed_as_the_command_line_takes_them(browser, live, here):
    """Each way to change a continuous attribute, several at the same time, and images that are looked at alone."""
    audit_page(browser, live)
    add, join = browser.all("#do button")
    way = Select(browser.all("#do select")[1])
    typed = {"set": ["2.5"], "shift": ["-1"], "deviations": ["0.5"], "contrast": ["2", "4"]}
    for name, numbers in typed.items():
        way.select_by_value(name)
        for field, number in zip(browser.all("#do .values input"), numbers, strict=True):
            assert field.accessible_name
            field.clear()
            field.send_keys(number)
        assert join.is_enabled() == (name == "set")
        before = len(browser.all("#interventions li"))
        add.click()
        waited_for(lambda before=before: len(browser.all("#interventions li")) == before + 1)
    way.select_by_value("set")
    join.click()
    Select(browser.at("#do select")).select_by_value("colour")
    add.click()
    waited_for(lambda: len(browser.all("#interventions li")) == 5)
    named = [one.text for one in browser.all("#interventions b")]
    assert named[:4] == ["do(size=2.5)", "do(size=+-1)", "do(size=+0.5sd)", "do(size=2:4)"]
    assert named[4].startswith("do(size=3, colour=")
    browser.all("details summary")[0].click()
    browser.at("#among button").click()
    browser.until("#cohorts li", lambda one: "colour=green" in one.text)
    browser.at("#subgroups").click()
    browser.at("#judged").click()
    browser.at("#start").click()
    browser.until(".job", lambda one: "also among colour=green; and in every subgroup" in one.text)
    browser.until(".job", lambda one: "✓ done" in one.text)
    report = (here / "runs/signs/001/audits/001/report.html").read_text()
    for text in ("size=2.5", "size=+-1", "size=+0.5sd", "size=2:4", "colour=green"):
        assert text in report
    shutil.rmtree(here / "runs/signs/001/audits")


def test_a_value_that_is_missing_or_out_of_range_is_said(browser, live, request):
    audit_page(browser, live)
    before = len(live.studio.audits.jobs)
    field = browser.at("#do .values input")
    field.clear()
    browser.at("#start").click()
    browser.until("#message", lambda one: "value is missing" in one.text)
    field.send_keys("99")
    browser.at("#do button").click()
    browser.until("#message", lambda one: "99" in one.text)
    request.node.refused = 1
    assert not browser.all("#interventions li")
    assert len(live.studio.audits.jobs) == before


def test_the_data_page(browser, live):
    browser.tab.get(f"{live.address}/data?model={world.MODEL}")
    browser.until("#splits", lambda one: "120" in one.text)
    assert browser.at("#sheet").get_attribute("alt")


def test_pages_fit_a_narrow_screen(browser, live):
    size = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.tab.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for path, there in (
            ("/", "#counterfactual"),
            ("/audit", "#do option"),
            ("/data", "#splits div"),
            ("/study/", "h2"),
        ):
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
