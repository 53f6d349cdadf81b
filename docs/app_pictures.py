"""Takes the pictures of the app in the docs and the README by a headless Chromium (needs selenium and pdftoppm).

    cfgen fit --config faces_classifier --data.count 2000 --trainer.max_epochs 4
    for model in faces-hvae faces-modulated; do
        cfgen audit --model $model --classifier runs/faces_classifier --do Bangs=1 --do Young=0 --do Black_Hair=1,Pale_Skin=1 \\
            --count 300 --predictor none
    done
    cfgen study new morphomnist-hvae --do thickness=5 --do label=7 --out studies/digits
    cfgen app faces-hvae --no_browser &
    python docs/app_pictures.py http://127.0.0.1:8642

Only drawn faces and digits are shown.
"""

import base64
import io
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

HERE = Path(__file__).parent
FLAGS = "--headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1"


class Camera:
    """A tab of a certain width, in light or dark colours."""

    def __init__(self, address: str) -> None:
        options = webdriver.ChromeOptions()
        for flag in FLAGS.split():
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or ""
        service = Service(shutil.which("chromedriver"))  # named, so that selenium does not look for one in the network
        self.address, self.tab = address.rstrip("/"), webdriver.Chrome(options=options, service=service)

    def set(self, width: int, height: int, dark: bool) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.tab.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tab.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def all(self, selector: str) -> list[WebElement]:
        return self.tab.find_elements(By.CSS_SELECTOR, selector)

    def at(self, selector: str) -> WebElement:
        return self.tab.find_element(By.CSS_SELECTOR, selector)

    def until(self, is_so: Callable[[], object], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if is_so():
                    return
            except WebDriverException:  # not there yet
                pass
            time.sleep(0.1)
        raise SystemExit("the page did not get there in time")

    def save(self, name: str, height: int | None = None) -> None:
        """The page from its top, down to a height or to its end."""
        self.tab.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
        self.tab.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 2, "y": 2})  # nothing hovers
        time.sleep(0.4)  # switches glide
        width, end = self.tab.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(end, height or end), "scale": 1}
        found = self.tab.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        picture = Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB")
        picture.quantize(256, dither=Image.Dither.NONE).save(HERE / name, optimize=True)


def what_if(camera: Camera) -> None:
    """A face that is no longer young: glasses and gray hair follow, and the classifier's answer turns."""
    camera.tab.get(f"{camera.address}/?model=faces-hvae")
    camera.until(lambda: camera.at("#counterfactual").get_attribute("src"))
    camera.all("#examples button")[6].click()
    camera.until(lambda: camera.all("#examples button")[6].get_attribute("aria-pressed") == "true")
    (control,) = (one for one in camera.all(".control") if one.find_element(By.TAG_NAME, "label").text == "Young")
    control.find_element(By.TAG_NAME, "input").click()
    camera.until(lambda: len(camera.all(".graph .moved")) == 2)
    Select(camera.at("#strip-of")).select_by_value("Young")
    camera.until(lambda: camera.at("#strip button[aria-pressed=true]"))
    camera.tab.execute_script("document.querySelector('.side').scrollTop = 0")


def audit(camera: Camera) -> None:
    """A new audit, composed and not started."""
    camera.tab.get(f"{camera.address}/audit?model=faces-hvae")
    camera.until(lambda: camera.at("#start").is_enabled() and len(camera.all("#earlier a")) >= 2)
    attribute, add = Select(camera.at("#do select")), camera.at("#do button")
    for number, name in enumerate(("Bangs", "Pale_Skin"), 1):
        attribute.select_by_value(name)
        add.click()
        camera.until(lambda number=number: len(camera.all("#interventions li")) == number)
    camera.at("details summary").click()
    Select(camera.at("#among select")).select_by_value("Young")
    camera.at("#among button").click()
    camera.until(lambda: camera.all("#cohorts li"))


def compare(camera: Camera) -> None:
    for number in (0, 1):
        camera.all("#earlier input")[number].click()
    camera.at("#compare").click()
    camera.until(lambda: "side by side" in camera.at("h1").text)


def data(camera: Camera) -> None:
    camera.tab.get(f"{camera.address}/data?model=faces-hvae")
    camera.until(lambda: camera.all("#splits div"))


def studies(camera: Camera) -> None:
    camera.tab.get(f"{camera.address}/study/")


def question(camera: Camera) -> None:
    """The first question of a study, for a participant who has just agreed."""
    camera.tab.get(f"{camera.address}/study/digits/")
    camera.tab.execute_script("localStorage.clear()")
    camera.tab.get(f"{camera.address}/study/digits/#p=0123456789abcdef")
    camera.tab.refresh()
    camera.until(lambda: camera.at("#agree").is_displayed())
    camera.at("#agree").click()
    camera.at("#begin").click()
    camera.until(lambda: camera.at("#start").is_enabled())
    camera.at("#start").click()
    camera.until(lambda: camera.at("#left").is_displayed())


def main() -> None:
    camera = Camera(sys.argv[1])
    try:
        for ending, dark in (("", False), ("_dark", True)):
            camera.set(1280, 1400, dark)
            what_if(camera)
            camera.save(f"app_whatif{ending}.png", 1400)
            audit(camera)
            camera.save(f"app_audit{ending}.png")
            compare(camera)
            camera.save(f"app_compare{ending}.png", 660)
            data(camera)
            camera.save(f"app_data{ending}.png", 1680)
            camera.set(1280, 560, dark)
            studies(camera)
            camera.save(f"app_study{ending}.png")
            camera.set(720, 640, dark)
            question(camera)
            camera.save(f"study{ending}.png")
        camera.set(1280, 1400, dark=False)
        what_if(camera)
        paper = camera.tab.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
        words = ["pdftoppm", "-r", "80", "-png", "-singlefile", "-", str(HERE / "app_whatif_print")]
        subprocess.run(words, input=base64.b64decode(paper["data"]), check=True)  # its first page
        camera.set(360, 740, dark=False)
        what_if(camera)
        camera.save("app_whatif_360.png")
    finally:
        camera.tab.quit()


if __name__ == "__main__":
    main()
