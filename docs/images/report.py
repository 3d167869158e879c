"""Take the picture of a report for the documentation, with Chromium: `make images`, or pass another folder."""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import solvent

HERE = Path(__file__).parent
#: Size of the picture, in pixels of the page.
WIDTH, HEIGHT = 1120, 1490
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip


def picture(page: Path, profile: str) -> bytes:
    """Return the first part of a page, without its sections on the problem and the header's links, as PNG."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for option in (*OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.as_uri())
        while driver.execute_script("return document.documentElement.dataset.ready") != "yes":
            time.sleep(0.1)
        driver.execute_script("document.getElementById('problem').remove()")
        time.sleep(1)
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        return base64.b64decode(shot["data"])
    finally:
        driver.quit()


def main(folder: Path) -> None:
    """Write the picture of the van's report."""
    with tempfile.TemporaryDirectory() as work:
        page = Path(work) / "van.html"
        solvent.solve(solvent.examples.load("delivery-van")).report(page)
        (folder / "van-report.png").write_bytes(picture(page, str(Path(work) / "profile")))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
