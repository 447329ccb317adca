"""Runs inside an event loop that is already running: from a coroutine, and in a notebook's kernel, which shows
results."""

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tacit import Result, load, run
from tacit.sim.units import format_bytes
from tests.browser import Browser

jupyter_client = pytest.importorskip("jupyter_client")


@pytest.mark.parametrize("engine", ["inline", "pool:1"])
def test_a_run_within_a_coroutine_is_the_same_run(quick: Path, tmp_path: Path, engine: str) -> None:
    async def within() -> str:
        task = asyncio.current_task()
        result = run(load(quick), out=tmp_path / "within", engine=engine)
        assert asyncio.current_task() is task and asyncio.get_running_loop().is_running()
        await asyncio.sleep(0)
        assert result.outcome == "completed", result.reason
        return result.trace_hash

    assert asyncio.run(within()) == run(load(quick), out=tmp_path / "outside").trace_hash


def test_a_failing_run_within_a_coroutine_leaves_the_outer_loop_usable(
    quick: Path, tmp_path: Path, interrupter
) -> None:
    async def within() -> bool:
        with pytest.raises(KeyboardInterrupt):
            run(load(quick), out=tmp_path / "within", watch=interrupter(20))
        async with asyncio.timeout(60):
            return await asyncio.create_task(asyncio.sleep(0, True))

    assert asyncio.run(within())


class Cell:
    """Runs a cell in the kernel of `manager`; returns its output, or the name of the exception."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def __call__(self, code: str, interrupted_at: str = "") -> str:
        printed, raised, interrupts = [], [], int(bool(interrupted_at))

        def note(message: dict) -> None:
            nonlocal interrupts
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "stream":
                printed.append(content["text"])
                if interrupts and interrupted_at in content["text"]:
                    interrupts = 0
                    self.manager.interrupt_kernel()
            elif kind == "error":
                raised.append(content["ename"])

        self.client.execute_interactive(code, timeout=300, output_hook=note, stop_on_error=False)
        return raised[0] if raised else "".join(printed)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> Path:
    """A folder with a quick scenario and a folder named scenarios, like a user's project."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "scenarios").mkdir()
    (folder / "quick.toml").write_text(quick_text)
    return folder


@pytest.fixture(scope="module")
def cell(project: Path) -> Iterator[Cell]:
    """A function that runs a cell in a kernel, in the folder of the project."""
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.kernel_spec_manager.ensure_native_kernel = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        manager.start_kernel(cwd=str(project))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        yield Cell(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_the_python_interface_works_in_a_kernel(quick: Path, tmp_path: Path, cell: Cell) -> None:
    outside = run(load(quick), out=tmp_path / "outside").trace_hash
    cell("import asyncio; from tacit import chaos, load, run, sweep")
    assert cell("print(asyncio.get_running_loop().is_running())") == "True\n"
    for engine in ("inline", "pool:1"):
        one = f"result = run(load('quick.toml'), engine={engine!r}); print(result.outcome, result.trace_hash)"
        assert cell(one) == f"completed {outside}\n"
    swept = cell(
        "swept = sweep('quick.toml', {'protocol.k': [2, 4]}, jobs=2)\n"
        "print([(values, result.outcome) for values, result in swept])"
    )
    assert swept == "[({'protocol.k': 2}, 'completed'), ({'protocol.k': 4}, 'completed')]\n"
    found = cell(
        "found = chaos('quick.toml', schedules=2, singles=False)\n"
        "print(len(found.verdicts), found.broken, found.verdicts[0].outcome)"
    )
    assert found == "3 0 completed\n"
    assert cell("await asyncio.sleep(0, 'still here') and print('still here')") == "still here\n"
    shown = executed(cell, "result")
    assert Shown(shown["text/html"]).words.startswith("Four clients, quickly (seed 3)Completed")
    assert shown["text/plain"].startswith("<Result of four-clients-quickly, seed 3: completed, ")


def executed(cell: Cell, code: str) -> dict[str, Any]:
    """The output of a notebook with this cell only, executed in the kernel."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, km=cell.manager, timeout=300).execute()
    (output,) = notebook.cells[0].outputs
    return output.data


def test_a_kernel_is_interrupted_and_leaves_a_complete_folder(project: Path, cell: Cell) -> None:
    cell("from tacit import Watch, load, run")
    cell(
        "class Endless(Watch):\n"
        "    def __call__(self, event):\n"
        "        if event.kind == 'compute':\n"
        "            print('begun', flush=True)\n"
        "            while True: pass\n"
    )
    ended = cell("from pathlib import Path; run(load('quick.toml'), out=Path('broken'), watch=Endless())", "begun")
    assert ended == "KeyboardInterrupt"
    record = json.loads((project / "broken" / "result.json").read_text())
    assert (record["outcome"], record["reason"]) == ("interrupted", "interrupted by Ctrl-C")
    assert (project / "broken" / "labels.csv").is_file()
    assert cell("print(run(load('quick.toml')).outcome)") == "completed\n"


# --- how results are shown


class Shown(HTMLParser):
    """The visible words of a piece of HTML, figures by name, and all its elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words, self.values, self.elements = "", {}, []
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._open += [tag] if tag not in ("br", "input", "meta", "col") else []
        given = dict(attributes)
        if tag == "data" and given.get("data-name"):
            self.values[given["data-name"]] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.words += text


def shown(result: Result) -> Shown:
    html = result._repr_html_()
    assert html is not None and not re.search(r"""(src|href)=["']""", html)
    return Shown(html)


def test_a_result_shows_its_verdict_bytes_and_timeline(quick: Path, tmp_path: Path) -> None:
    result = run(load(quick, ["title=<Four> & more"]), out=tmp_path / "run")
    page = shown(result)
    assert page.words.startswith("<Four> & more (seed 3)Completed")
    assert "The result is equal to the plaintext oracle." in page.words and "Nobody was lost." in page.words
    assert page.values["accuracy"] == repr(result.accuracy) and page.values["bytes_total"] == str(result.bytes_total)
    assert f"all steps{result.message_count}{format_bytes(result.bytes_total)}" in page.words
    assert [about for tag, about in page.elements if tag == "section"] == [
        {"class": "timeline tl-compact", "aria-label": "Timeline"}
    ]
    assert repr(result) == (
        f"<Result of {result.scenario}, seed 3: completed, accuracy {result.accuracy:.4f}, "
        f"{format_bytes(result.bytes_total)}, virtual {result.virtual_seconds * 1e3:.0f} ms; {tmp_path / 'run'}>"
    )


def test_a_result_without_its_folder_shows_only_the_verdict(quick: Path, tmp_path: Path) -> None:
    result = run(load(quick), out=tmp_path / "run")
    whole = shown(result)
    shutil.rmtree(result.folder)
    for other in (None, load(quick, ["seed=4"])):
        if other is not None:
            run(other, out=tmp_path / "run")  # another run has replaced it
        page = shown(result)
        assert "Completed" in page.words and f"There is no record of this run in {result.folder}." in page.words
        assert page.values == whole.values
        assert not any(tag in ("section", "script", "table") for tag, _ in page.elements)


def test_a_result_shows_lost_clients_and_unmet_expectations(quick: Path, tmp_path: Path) -> None:
    fault = '[[fault]]\nparty = "client/2"\nat = "hamming.encode"\n'
    quick.write_text(quick.read_text().replace("[expect]", f"{fault}[expect]"))
    result = run(load(quick), out=tmp_path / "run")
    page = shown(result)
    assert "Not as expected: expect.lost: expected nobody, got client/2" in page.words
    assert "Lost: client/2." in page.words and "because client/2 crashed" in page.words
    assert "1 lost (client/2), 1 not as expected; " in repr(result)


_AS_NOTEBOOKS_DO = """
const place = document.body.appendChild(document.createElement('div'));
place.innerHTML = arguments[0];
for (const script of place.querySelectorAll('script')) {
  const again = document.createElement('script');
  for (const { name, value } of script.attributes) again.setAttribute(name, value);
  again.textContent = script.textContent;
  script.replaceWith(again);
}
"""


@pytest.mark.long
def test_two_results_in_one_page_have_both_timelines_drawn(quick: Path, tmp_path: Path, browser: Browser) -> None:
    fault = '[[fault]]\nparty = "client/2"\nat = "hamming.encode"\n'
    empty, lossy = tmp_path / "empty.html", tmp_path / "lossy.toml"
    empty.write_text('<!doctype html><link rel="icon" href="data:,"><body>')
    lossy.write_text(quick.read_text().replace("[expect]", f"{fault}[expect]"))
    results = [run(load(file), out=tmp_path / file.stem) for file in (quick, lossy)]
    browser.open(empty)
    for result in results:
        browser.run(_AS_NOTEBOOKS_DO, result._repr_html_())
    painted = browser.run(
        "return [...document.querySelectorAll('canvas')].map(one => new Set(new Uint32Array("
        "one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer)).size)"
    )
    assert sum(colours > 5 for colours in painted) == 2
    for theme in ("light", "dark"):
        browser.prefer(theme)
        (least, text), *_ = browser.contrasts(".tacit-result")
        assert least >= 4.5, text
    assert browser.logged() == [] and browser.requests() == [empty.absolute().as_uri()]
