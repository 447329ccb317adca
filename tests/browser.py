"""A headless Chromium for tests of pages; the fixture `browser` of tests/conftest.py starts it."""

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromedriver")

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip

_DRAG = ("mousePressed", "mouseMoved", "mouseMoved", "mouseReleased")

_CONTRAST = r"""
const numbers = text => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
const over = ([r, g, b, a = 1], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
const light = colour => {
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const [r, g, b] = colour.slice(0, 3).map(v => linear(v / 255));
  return .2126 * r + .7152 * g + .0722 * b;
};
const behind = element => {
  const layers = [];
  for (let one = element; one; one = one.parentElement) layers.push(numbers(getComputedStyle(one).backgroundColor));
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
};
const found = [];
for (const element of document.querySelectorAll(arguments[0] + ' *')) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const style = getComputedStyle(element);
  if (!own || ['SCRIPT', 'STYLE', 'TITLE'].includes(element.tagName) || !element.getClientRects().length) continue;
  const paper = behind(element), ink = over(numbers(element instanceof SVGElement ? style.fill : style.color), paper);
  const [low, high] = [light(ink), light(paper)].sort((one, other) => one - other);
  found.push([(high + .05) / (low + .05), element.textContent.trim().slice(0, 60)]);
}
return found;
"""
"""The contrast of each displayed text, as WCAG defines it, from the styles of the text and of its background."""


class Browser:
    """One window. `driver` is Selenium's, for everything else."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._requested: list[str] = []

    def open(self, path: Path, *, theme: str = "light", width: int = 1400, height: int = 900) -> None:
        """Open a file, with `theme` (light or dark) as the reader's preference."""
        self.driver.get("about:blank")
        self._requests()
        self.logged()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.prefer(theme)
        self._requested = []
        self.driver.get(path.absolute().as_uri())

    def prefer(self, theme: str, media: str = "") -> None:
        """Change the reader's preferred theme, or the medium to ``print``, without reloading the page."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """The return value of a script; its `arguments` are available under that name."""
        return self.driver.execute_script(script, *arguments)

    def logged(self) -> list[str]:
        """The messages of the console, and uncaught errors, since the last call."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that the page has requested since it was opened, its own first, without data URLs."""
        self._requested += self._requests()
        return self._requested

    def _requests(self) -> list[str]:
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("data:", "blob:", "about:"))]

    def seconds_to_open(self) -> float:
        """The seconds from the beginning of loading the page to the end of its `load` event."""
        return float(self.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")) / 1000

    def contrasts(self, selector: str = "body") -> list[tuple[float, str]]:
        """The contrast of each text shown within `selector`, the least first."""
        return sorted((float(ratio), str(text)) for ratio, text in self.run(_CONTRAST, selector))

    def press(self, *keys: str) -> None:
        """Press keys, one after another, on the focused element."""
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver, duration=0)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the mouse to a place of the window, and click there if `click`."""
        for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
            self._mouse(kind, x, y, clickCount=int(kind != "mouseMoved"))

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse's button at one place of the window, and release it at another."""
        middle = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
        places = (begin, middle, end, end)
        for kind, (x, y) in zip(_DRAG, places, strict=True):
            self._mouse(kind, x, y, buttons=1, clickCount=1)

    def wheel(self, x: float, y: float, turn: float) -> None:
        """Turn the wheel over a place of the window; a `turn` below 0 is away from the user."""
        self._mouse("mouseWheel", x, y, deltaX=0, deltaY=turn)

    def _mouse(self, kind: str, x: float, y: float, **more: float) -> None:
        button = {} if kind in ("mouseMoved", "mouseWheel") and not more.get("buttons") else {"button": "left"}
        event = {"type": kind, "x": x, "y": y, **button, **more}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def picture(self, path: Path) -> None:
        """Write the content of the window as PNG."""
        self.driver.save_screenshot(str(path))

    def printed(self, *, backgrounds: bool = True) -> bytes:
        """The page as printed, as PDF. Without `backgrounds` the browser leaves backgrounds out, as by default."""
        return base64.b64decode(
            self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": backgrounds})["data"]
        )


@contextmanager
def started() -> Iterator[Browser]:
    """Yield a browser with an empty profile. Raises StartError if a program is missing."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        raise StartError(f"not on this machine: {' and '.join(missing)}: on Debian, apt install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}", "--window-size=1400,900"):
            options.add_argument(flag)
        # naming the driver keeps Selenium from looking for one on the network
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield Browser(driver)
        finally:
            driver.quit()


class StartError(RuntimeError):
    """The name of a missing program, in a message."""


def needed() -> Iterator[Browser]:
    """Yield a browser. Without one the test is skipped, or fails if the environment says CI."""
    try:
        with started() as browser:
            yield browser
    except (StartError, ImportError) as problem:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(str(problem))
