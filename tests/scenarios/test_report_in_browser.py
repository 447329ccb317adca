"""Pages of `tacit report` in a browser: no errors, no requests, both themes, keys, printing, and speed."""

import shutil
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from tacit import load, run, sweep
from tests.browser import Browser
from tests.pages import command

pytestmark = pytest.mark.long

CRASH = 'fault=[{kind="crash", party="client/2", at="hamming.evaluate"}]'
ENOUGH = 4.5
"""The least contrast of text by WCAG."""

MOST_BYTES, MOST_SECONDS = 2_500_000, 2.0


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> dict[str, Path]:
    """Pages of a run with a loss, of training, of two runs, of a sweep, and of chaos, by name."""
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
    found["survival"] = folder / "survival.html"
    many = ["--over", "data.clients=6,8", "--over", "protocol.deadline=10s,1min", "--loss", "40%@setup.keys"]
    energy = [f"--set={change}" for change in (*free, "device.radio=4g", "device.processor=2")]
    command("predict", file, "--runs", "2", *many, *energy, "--html", found["survival"])
    return found


NAMES = ("run", "training", "several", "sweep", "chaos", "survival")


@pytest.mark.parametrize(("theme", "width"), [("light", 1400), ("dark", 400)])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_without_error_and_request(
    browser: Browser, pages: dict[str, Path], name: str, theme: str, width: int
) -> None:
    """Colours do not depend on the width, and places do not depend on the theme."""
    browser.open(pages[name], theme=theme, width=width)
    assert browser.logged() == []
    assert browser.requests() == [pages[name].absolute().as_uri()]
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    least, text = browser.contrasts()[0]
    assert least >= ENOUGH, f"{text!r} has a contrast of {least:.2f}"


def test_the_tables_of_survival_fit_into_a_window_of_a_laptop(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["survival"], width=1280)
    wide = "one => one.scrollWidth > one.clientWidth"
    assert browser.run(f"return [...document.querySelectorAll('.scroll')].filter({wide}).length") == 0
    columns = "return [...document.querySelectorAll('[aria-label=costs] thead th')].map(one => one.textContent)"
    assert {"bytes, mean", "energy, 95 %"} <= set(browser.run(columns))


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


def test_a_report_is_printed_in_full_in_black_on_white(browser: Browser, pages: dict[str, Path]) -> None:
    """Black on white in any theme, without controls, and with the parts that are folded on the screen."""
    browser.open(pages["run"], theme="dark")
    browser.prefer("dark", media="print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.querySelector('.top')).display") == "none"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
    assert browser.contrasts()[0][0] >= ENOUGH
    assert browser.printed().startswith(b"%PDF")


def rendered(pdf: bytes, folder: Path) -> tuple[list[Counter[tuple[int, int, int]]], list[list[str]]]:
    """The number of pixels of each colour on each page, and the lines of text of each page."""
    if not (shutil.which("pdftoppm") and shutil.which("pdftotext")):
        pytest.skip("pdftoppm and pdftotext are not installed (poppler-utils)")
    (folder / "page.pdf").write_bytes(pdf)
    subprocess.run(["pdftoppm", "-r", "96", "-png", "page.pdf", "page"], cwd=folder, check=True)
    subprocess.run(["pdftotext", "-layout", "page.pdf"], cwd=folder, check=True)
    colours = []
    for path in sorted(folder.glob("page-*.png")):
        with Image.open(path) as picture:
            counts = picture.convert("RGB").getcolors(1 << 24) or []
        colours.append(Counter({colour: count for count, colour in counts}))
    pages = (folder / "page.txt").read_text().rstrip("\f\n").split("\f")
    return colours, [[line for line in page.splitlines() if line.strip()] for page in pages]


def near(colours: Counter[tuple[int, int, int]], wanted: tuple[int, int, int]) -> int:
    """The number of pixels whose colour is `wanted`, up to the changes by scaling."""
    return sum(
        count for colour, count in colours.items() if max(abs(a - b) for a, b in zip(colour, wanted, strict=True)) <= 6
    )


BAR, BAND, CRASH_MARK, SHARE = (85, 103, 124), (246, 227, 210), (160, 26, 16), (233, 237, 242)


@pytest.mark.parametrize(("theme", "backgrounds"), [("light", False), ("dark", True)])
def test_a_printed_report_has_the_timeline_its_legend_and_whole_tables(
    browser: Browser, pages: dict[str, Path], tmp_path: Path, backgrounds: bool, theme: str
) -> None:
    browser.open(pages["run"], theme=theme)
    size = browser.run("return [document.querySelector('.tl-paper').naturalWidth, document.title]")
    assert size[0] >= 1000
    colours, texts = rendered(browser.printed(backgrounds=backgrounds), tmp_path)
    whole = sum(colours, Counter())
    assert near(whole, BAR) > 100 and near(whole, BAND) > 1500
    assert near(whole, CRASH_MARK) > 40 and near(whole, SHARE) > 300
    lines = [line for page in texts for line in page]
    assert sum(line.split()[:2] == ["step", "message"] for line in lines) >= 1
    (total,) = {line for line in lines if line.split()[0] == "total"}
    assert lines.count(total) == 1, "the sums stand below the table, and on no page above"
    for page in texts:
        heads = [place for place, line in enumerate(page) if line.split()[:2] == ["step", "message"]]
        assert all(len(page) - place > 2 for place in heads), page


def test_lost_and_retransmitted_messages_differ_in_lightness_and_dashes(
    browser: Browser, pages: dict[str, Path]
) -> None:
    """This serves people who cannot distinguish red from green (Viénot, Brettel, Mollon, 1999)."""
    for theme in ("light", "dark"):
        browser.open(pages["run"], theme=theme)
        names = browser.run(
            "const style = getComputedStyle(document.querySelector('.timeline'));"
            "const ctx = document.createElement('canvas').getContext('2d');"
            "return ['bad', 'again', 'paper'].map(name => { ctx.fillStyle = "
            "style.getPropertyValue(`--tl-${name}`).trim(); return ctx.fillStyle; })"
        )
        lost, again, paper = ([int(name[i : i + 2], 16) / 255 for i in (1, 3, 5)] for name in names)
        assert abs(lightness(lost) - lightness(again)) > 15
        assert min(abs(lightness(one) - lightness(paper)) for one in (lost, again)) > 8


def lightness(colour: list[float]) -> float:
    """L* of a colour as seen by deuteranopes."""
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour)
    seen = 0.29275 * r + 0.70725 * g, 0.29275 * r + 0.70725 * g, -0.02234 * r + 0.02234 * g + b
    light = 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]
    return 116 * light ** (1 / 3) - 16 if light > 0.008856 else 903.3 * light


@pytest.mark.parametrize("name", ["run", "training", "several", "sweep", "chaos", "large"])
def test_a_report_fits_the_width_of_a_telephone(
    browser: Browser, pages: dict[str, Path], large: Path, name: str, tmp_path: Path
) -> None:
    page = pages.get(name) or tmp_path / "page.html"
    if name == "large":
        command("report", large, "--out", page)
    browser.open(page, width=390, height=844)
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    browser.run("for (const one of document.querySelectorAll('.tl-legend span')) one.hidden = false")
    assert browser.run("return document.documentElement.scrollWidth") <= 390


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
    for _ in range(3):  # three tries, as other processes may use the cores
        browser.open(page)
        times.append(browser.seconds_to_open())
    seconds, size = min(times), page.stat().st_size
    with capsys.disabled():
        print(f"\n{messages:,} messages: a page of {size / 1e6:.2f} MB opens in {seconds:.2f} s")
    assert browser.logged() == []
    assert size <= MOST_BYTES and seconds < MOST_SECONDS
