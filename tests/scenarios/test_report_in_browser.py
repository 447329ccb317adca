"""Pages of `tacit report` as a browser shows them: no error, no request, both themes, keys, paper, and how fast."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tacit import load, run, sweep
from tests.browser import Browser
from tests.pages import command

pytestmark = pytest.mark.long

CRASH = 'fault=[{kind="crash", party="client/2", at="hamming.evaluate"}]'
ENOUGH = 4.5
"""The least contrast of text, by WCAG."""

MOST_BYTES, MOST_SECONDS = 2_500_000, 2.0


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> dict[str, Path]:
    """A page of a run with a loss, of training, of two runs, of a sweep, and of chaos."""
    folder = tmp_path_factory.mktemp("pages")
    file = folder / "quick.toml"
    file.write_text(quick_text)
    free = ["expect={}", "protocol.deadline=10s"]
    one = run(load(file, free), out=folder / "one").folder
    other = run(load(file, [*free, CRASH, 'title="<script>alert(1)</script>"']), out=folder / "other").folder
    trained = ["protocol.name=fedavg", "training.rounds=3", "model.name=linear", "training.device=cpu", "expect={}"]
    training = run(load(file, trained), out=folder / "training").folder
    swept = folder / "swept"
    sweep(file, {"protocol.k": [2, 3, 4]}, seeds=2, changes=free, out=swept)
    command("chaos", file, "--quick", "--schedules", "1", "--jobs", "1", "--out", folder / "chaos")
    asked = {"run": [other], "training": [training], "several": [one, other], "sweep": [swept],
             "chaos": [folder / "chaos"]}  # fmt: skip
    found = {name: folder / f"{name}.html" for name in asked}
    for name, folders in asked.items():
        command("report", *folders, "--out", found[name])
    return found


NAMES = ("run", "training", "several", "sweep", "chaos")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_without_error_and_request(
    browser: Browser, pages: dict[str, Path], name: str, theme: str
) -> None:
    for width in (1400, 400):
        browser.open(pages[name], theme=theme, width=width)
        assert browser.logged() == []
        assert browser.requests() == [pages[name].absolute().as_uri()]
        assert browser.run("return document.documentElement.scrollWidth") <= width
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
        least, text = browser.contrasts()[0]
        assert least >= ENOUGH, f"{text!r} has a contrast of {least:.2f}"


def test_the_theme_can_be_changed_by_a_key(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["run"], theme="light")
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.run("document.getElementById('theme').focus()")
    browser.press("\ue007")
    dark = browser.run(paper)
    assert light != dark and browser.run("return document.documentElement.dataset.theme") == "dark"
    assert browser.contrasts()[0][0] >= ENOUGH
    browser.press(" ")
    assert browser.run(paper) == light
    browser.open(pages["run"], theme="dark")
    assert browser.run("return document.documentElement.dataset.theme") in ("light", None)


def test_keys_reach_every_control(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["run"], width=400)
    wanted = browser.run(
        "const found = [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]')]"
        ".filter(one => one.checkVisibility() && !one.disabled && one.tabIndex >= 0);"
        "found.forEach((one, place) => one.dataset.place = place); return found.length"
    )
    reached = set()
    for _ in range(2 * wanted + 10):
        browser.press("\ue004")
        reached.add(browser.run("return document.activeElement.dataset.place"))
    assert {str(place) for place in range(wanted)} <= reached
    assert browser.run("return [...document.querySelectorAll('.scroll')].some(one => one.tabIndex === 0)")


def test_it_can_be_printed(browser: Browser, pages: dict[str, Path]) -> None:
    """Black on white whatever the theme, without controls, and with what is folded up on the screen."""
    browser.open(pages["run"], theme="dark")
    browser.prefer("dark", media="print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.querySelector('.top')).display") == "none"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
    assert browser.contrasts()[0][0] >= ENOUGH
    assert browser.printed().startswith(b"%PDF")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> Path:
    """The folder of a run with more than 20,000 messages."""
    folder = tmp_path_factory.mktemp("large")
    file = folder / "quick.toml"
    file.write_text(quick_text)
    changes = [
        "protocol.name=fedavg", "data.clients=60", "data.limit=1200", "training.rounds=170", "model.name=linear",
        "training.device=cpu", "training.epochs=1", "training.evaluate_every=10", "expect={}",
    ]  # fmt: skip
    return run(load(file, changes), out=folder / "large").folder


def test_a_page_of_many_messages_is_small_and_opens_fast(
    browser: Browser, large: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(large / "run.sqlite")) as connection:
        (messages,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    assert messages >= 20_000
    command("report", large)
    page = large / "report.html"
    times = []
    for _ in range(3):  # another process may take the machine's cores for a while
        browser.open(page)
        times.append(browser.seconds_to_open())
    seconds, size = min(times), page.stat().st_size
    with capsys.disabled():
        print(f"\n{messages:,} messages: a page of {size / 1e6:.2f} MB opens in {seconds:.2f} s")
    assert browser.logged() == []
    assert size <= MOST_BYTES and seconds < MOST_SECONDS
