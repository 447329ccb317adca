"""The timeline in a browser: its content compared with the record, and its use by mouse, wheel and keys."""

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tacit import load, run
from tacit.scenarios.seeing.timeline import fragment
from tests.browser import Browser

pytestmark = pytest.mark.long

PAGE = """<!doctype html>
<html lang="en"{theme}><head><meta charset="utf-8"><title>A timeline</title></head><body>{parts}</body></html>
"""

PICTURE = "document.querySelector('.timeline').timeline.picture"
TIP = "return document.querySelector('.tl-shown')?.innerText || ''"
ALL = "[...document.querySelectorAll('.timeline button, .timeline select, .timeline input, .tl-view')]"

PATIENCE = 10.0
"""Real seconds within which the browser draws."""


@pytest.fixture
def page(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes fragments as a page."""

    def write(*parts: str, theme: str = "") -> Path:
        path = tmp_path / "page.html"
        path.write_text(PAGE.format(theme=f' data-theme="{theme}"' if theme else "", parts="\n".join(parts)))
        return path

    return write


@pytest.fixture
def opened(browser: Browser, page: Callable[..., Path], faulty: Path) -> Browser:
    """A browser with the timeline of the run with faults."""
    browser.open(page(fragment(faulty)))
    return browser


def span(browser: Browser) -> tuple[float, float]:
    """The virtual seconds that the timeline shows, once it is drawn."""
    browser.driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )
    begin, end = browser.run("const {from, to} = document.querySelector('.timeline').dataset; return [from, to]")
    return float(begin), float(end)


def length(shown: tuple[float, float]) -> float:
    return shown[1] - shown[0]


def middle(browser: Browser) -> tuple[float, float]:
    x, y = browser.run(
        "const box = document.querySelector('.tl-view').getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top + box.height - 20]"
    )
    return float(x), float(y)


def click(browser: Browser, label: str) -> None:
    browser.run(f"{ALL}.find(one => one.textContent === arguments[0]).click()", label)


def choose(browser: Browser, name: str, value: str) -> None:
    """Select an option of the filter."""
    browser.run(
        "const select = [...document.querySelectorAll('.timeline label')]"
        ".find(one => one.textContent.startsWith(arguments[0])).querySelector('select');"
        "select.value = [...select.options].find(one => one.textContent === arguments[1]).value;"
        "select.dispatchEvent(new Event('change'))",
        name,
        value,
    )


def test_the_timeline_makes_no_requests_and_logs_no_errors(
    browser: Browser, page: Callable[..., Path], faulty: Path
) -> None:
    path = page(fragment(faulty), fragment(faulty, compact=True), fragment(faulty))
    for theme in ("light", "dark"):
        browser.open(path, theme=theme)
        span(browser)
        assert browser.logged() == []
        assert browser.requests() == [path.absolute().as_uri()]
        assert browser.run("return document.querySelectorAll('.timeline[data-ready] canvas').length") == 6
    added = browser.run(
        "const empty = document.createElement('iframe'); document.body.append(empty);"
        "return Object.keys(window).filter(name => !(name in empty.contentWindow) && !/cdc_/.test(name))"
    )
    assert set(added) <= {"0", "ret_nodes"}  # the frame itself, and names that the driver adds


def test_a_notebook_can_insert_the_timeline_after_loading(
    browser: Browser, page: Callable[..., Path], faulty: Path
) -> None:
    browser.open(page("<div></div>", fragment(faulty, compact=True)))
    browser.run(
        "const div = document.querySelector('div'); div.innerHTML = arguments[0];"
        "for (const old of div.querySelectorAll('script')) { const made = document.createElement('script');"
        "made.type = old.type; made.text = old.text; old.replaceWith(made) }",
        fragment(faulty, compact=True),
    )
    span(browser)
    assert browser.logged() == []
    assert browser.run("return document.querySelectorAll('.timeline[data-from] canvas').length") == 4
    assert browser.run("return document.querySelector('.timeline').offsetHeight") < 450


def test_the_mouse_shows_the_bytes_of_the_record(opened: Browser, faulty: Path) -> None:
    with closing(sqlite3.connect(faulty / "run.sqlite")) as connection:
        query = "SELECT message, type, sender, receiver, payload, sealing, envelope, hops, bytes FROM messages"
        known = {row[0]: row[1:] for row in connection.execute(query)}
    seen = 0
    for number, (type_, sender, receiver, payload, sealing, envelope, hops, size) in known.items():
        opened.point(*opened.run("return document.querySelector('.timeline').timeline.place(arguments[0])", number))
        title, *lines = opened.run(TIP).split("\n") or [""]
        if not lines or lines[-1] != f"message {number}":
            continue  # something else is drawn over the message
        seen += 1
        assert (title, lines[0]) == (type_, f"{sender} → {receiver}")
        copy = payload + sealing + envelope
        assert f"{copy:,} bytes: {payload:,} payload, {sealing:,} sealing, {envelope:,} envelope" in lines
        assert f"over {hops} hop{'s' * (hops > 1)}, {size:,} bytes in all" in lines
    assert seen >= 20


def test_a_click_pins_the_tooltip(opened: Browser) -> None:
    opened.run("document.querySelector('.tl-view').focus()")
    opened.press("n")
    first = opened.run(TIP)
    assert first
    opened.press("\ue007")  # Enter
    opened.point(5, 5)
    opened.point(*middle(opened))
    assert opened.run(TIP) == first
    assert opened.run("return document.querySelector('.tl-pinned') !== null")
    opened.press("\ue00c")  # Escape
    assert opened.run(TIP) == ""


def test_a_click_pins_the_tooltip_of_the_mark_below_the_mouse(opened: Browser) -> None:
    place = (
        "const p = {0}, box = document.querySelector('canvas').getBoundingClientRect(); const [x, y] = p.place({1});"
    )
    script = place.format(PICTURE, "{kind: 'mark', i: 0}") + "return [box.left + x, box.top + y]"
    opened.point(*opened.run(script), click=True)
    assert "client/2" in opened.run(TIP)
    opened.point(*middle(opened))
    assert "client/2" in opened.run(TIP)
    opened.point(*middle(opened), click=True)
    assert "client/2" not in opened.run(TIP)


def test_the_wheel_and_the_mouse_zoom_and_pan(opened: Browser) -> None:
    whole = span(opened)
    x, y = middle(opened)
    opened.wheel(x, y, -400)
    zoomed = span(opened)
    assert length(zoomed) < length(whole) / 2
    opened.drag((x, y), (x - 200, y))
    moved = span(opened)
    assert moved[0] > zoomed[0] and moved[1] > zoomed[1]
    for _ in range(8):
        opened.wheel(x, y, 400)
    assert span(opened) == whole


def test_keys_zoom_pan_and_show_the_whole_timeline(opened: Browser) -> None:
    whole = span(opened)
    opened.run("document.querySelector('.tl-view').focus()")
    opened.press("+", "+")
    zoomed = span(opened)
    assert length(zoomed) < length(whole)
    opened.press("\ue014")  # right
    assert span(opened)[0] > zoomed[0]
    opened.press("\ue012")
    assert span(opened)[0] == pytest.approx(zoomed[0], abs=1e-4)
    opened.press("-")
    assert length(span(opened)) > length(zoomed)
    opened.press("0")
    assert span(opened) == whole


def test_two_fingers_zoom_the_timeline(opened: Browser) -> None:
    whole = span(opened)
    x, y = middle(opened)
    touch: Callable[[str, list[dict[str, float]]], Any] = lambda kind, points: opened.driver.execute_cdp_cmd(  # noqa: E731
        "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
    )
    touch("touchStart", [{"x": x - 20, "y": y, "id": 1}, {"x": x + 20, "y": y, "id": 2}])
    for far in (60, 120, 200):
        touch("touchMove", [{"x": x - far, "y": y, "id": 1}, {"x": x + far, "y": y, "id": 2}])
    touch("touchEnd", [])
    assert length(span(opened)) < length(whole) / 2


def test_idle_time_is_folded_until_the_button_unfolds_the_gaps(opened: Browser) -> None:
    where = f"const p = {PICTURE}, [a, b] = p.data.folds[0]; return (p.x(b) - p.x(a)) / (p.width - p.left)"
    span(opened)
    folded = opened.run(where)
    click(opened, "Unfold idle time")
    span(opened)
    assert folded < 0.05 < opened.run(where)
    click(opened, "Unfold idle time")
    span(opened)
    assert opened.run(where) == folded


def test_the_filters_hide_messages_of_other_types_parties_and_steps(opened: Browser, faulty: Path) -> None:
    drawn = "return Number(document.querySelector('.timeline').dataset.drawn)"
    span(opened)
    with closing(sqlite3.connect(faulty / "run.sqlite")) as connection:
        (whole,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        (joins,) = connection.execute("SELECT count(*) FROM messages WHERE type = 'Join'").fetchone()
        (ends,) = connection.execute(
            "SELECT count(*) FROM messages WHERE type = 'Join' AND 'client/1' IN (sender, receiver)"
        ).fetchone()
    assert opened.run(drawn) == whole
    choose(opened, "type", "Join")
    span(opened)
    assert opened.run(drawn) == joins > ends > 0
    choose(opened, "party", "client/1")
    span(opened)
    assert opened.run(drawn) == ends
    choose(opened, "type", "every type")
    choose(opened, "step", "setup.keys")
    span(opened)
    assert 0 < opened.run(drawn) < whole


def test_tab_reaches_every_control(opened: Browser) -> None:
    wanted = opened.run(f"return {ALL}.filter(one => !one.hidden).length")
    reached = set()
    for _ in range(wanted + 2):
        opened.press("\ue004")
        reached.add(opened.run(f"return {ALL}.indexOf(document.activeElement)"))
    assert len(reached - {-1}) == wanted >= 8
    name = "one.getAttribute('aria-label') || one.textContent || one.closest('label')?.textContent"
    names = opened.run(f"return {ALL}.map(one => {name})")
    assert all(names)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_of_the_timeline_have_enough_contrast(
    browser: Browser, page: Callable[..., Path], faulty: Path, theme: str
) -> None:
    for path in (page(fragment(faulty)), page(fragment(faulty), theme=theme)):
        browser.open(path, theme=theme)
        span(browser)
        browser.run("document.querySelector('.tl-view').focus()")
        browser.press("n")
        found = browser.contrasts(".timeline")
        assert found[0][0] >= 4.5, found[0]
        assert len(found) > 40
        # the texts of the canvas: on the background, faults, jobs and the bands of rounds and steps
        pairs = (("ink", "paper"), ("muted", "paper"), ("muted", "band"), ("paper", "bar"), ("ink", "phase"))
        colours = browser.run(
            "const style = getComputedStyle(document.querySelector('.timeline')), found = {};"
            "for (const name of arguments[0]) found[name] = style.getPropertyValue(`--tl-${name}`).trim();"
            "return found",
            sorted({name for pair in pairs for name in pair}),
        )
        for ink, paper in pairs:
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_timeline_is_redrawn_when_the_theme_changes(
    browser: Browser, page: Callable[..., Path], faulty: Path
) -> None:
    corner = "return [...document.querySelector('canvas').getContext('2d').getImageData(2, 2, 1, 1).data.slice(0, 3)]"
    browser.open(page(fragment(faulty), theme="light"), theme="dark")
    span(browser)
    assert browser.run(corner) == [255, 255, 255]
    browser.run("document.documentElement.dataset.theme = 'dark'")
    span(browser)
    assert max(browser.run(corner)) < 60


def test_the_timeline_is_printed_in_light_colours(browser: Browser, page: Callable[..., Path], faulty: Path) -> None:
    browser.open(page(fragment(faulty)), theme="dark")
    span(browser)
    browser.run(
        "window.seen = []; addEventListener('beforeprint', () => { const paper = document.querySelector('.tl-paper');"
        "const c = document.createElement('canvas').getContext('2d'); c.drawImage(paper, 0, 0);"
        "seen.push(paper.naturalWidth, ...c.getImageData(2, 2, 1, 1).data.slice(0, 3)) })"
    )
    assert browser.printed().startswith(b"%PDF")
    assert browser.run("return seen") == [2100, 255, 255, 255]


@pytest.mark.parametrize("run_of", ["faulty", "many"])
def test_labels_do_not_overlap(
    browser: Browser, page: Callable[..., Path], run_of: str, request: pytest.FixtureRequest
) -> None:
    browser.open(page(fragment(request.getfixturevalue(run_of))), width=800, height=600)
    span(browser)
    browser.run(
        f"const p = {PICTURE}, write = p.ctx.fillText; window.written = [];"
        "CanvasRenderingContext2D.prototype.fillText = function (text, x, y) { const w = this.measureText(text).width;"
        "const left = { left: 0, right: w, center: w / 2 }[this.textAlign] ?? 0;"
        "window.written.push([x - left, y, w, text]);"
        "return write.call(this, text, x, y) }; p.draw(document.querySelector('canvas').getContext('2d'), p.look)"
    )
    written = browser.run("return window.written")
    assert len(written) > 12
    for i, (x, y, wide, text) in enumerate(written):
        for x2, y2, wide2, text2 in written[:i]:
            assert abs(y - y2) > 9 or x2 >= x + wide or x >= x2 + wide2, (text, text2)


MANY = """
title = "A hundred clients train in a hundred rounds"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 100
labeled = 1.0
[protocol]
name = "fedavg"
deadline = "30s"
[network]
latency = "lognormal:40ms,0.4"
[model]
name = "linear"
[training]
rounds = 100
epochs = 1
learning_rate = 0.5
device = "cpu"
[[fault]]
kind = "crash"
party = "client/3"
at = "train.update"
occurrence = 20
back_after = "3s"
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with about 20,000 messages."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "many.toml").write_text(MANY)
    return run(load(folder / "many.toml"), out=folder / "out").folder


def test_twenty_thousand_messages_open_in_two_seconds(browser: Browser, page: Callable[..., Path], many: Path) -> None:
    html = fragment(many)
    assert len(html.encode()) < 1_500_000
    assert int(re.findall(r": ([\d,]+) messages", html)[0].replace(",", "")) > 20_000
    begun = time.process_time()
    fragment(many)
    print(f"a page of {len(html) / 1e3:,.0f} kB, made in {time.process_time() - begun:.1f} s of the processor's time")
    browser.open(page(html))
    seconds = browser.seconds_to_open()
    print(f"opened in {seconds:.2f} s; at most 2 s where nothing else is running")
    assert seconds < PATIENCE
    # Too many to draw each message.
    assert browser.run("return document.querySelector('.timeline').dataset.drawn") == "0"
    x, y = middle(browser)
    for _ in range(6):
        browser.wheel(x, y, -400)
        span(browser)
    assert int(browser.run("return document.querySelector('.timeline').dataset.drawn")) > 0
