"""Chromium without a window, for tests of pages."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.hangs import HANGS


def started(profile: Path) -> Any:
    """A browser of selenium, to be quit; the test is skipped where there is none."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason='pages are tested by selenium: pip install -e ".[dev]"'
    )
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("pages are tested in Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1280,900",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    browser.set_script_timeout(HANGS)
    return browser


def wait_for(browser: Any, condition: str) -> Any:
    """Returns what an expression of JavaScript is when it holds; fails if it never does."""
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(browser, HANGS).until(lambda browser: browser.execute_script(f"return {condition}"), condition)
