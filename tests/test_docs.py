"""Tests of the site: pages generated from the code, and blocks that are run by its build or by the long tests."""

import builtins
import importlib
import json
import os
import re
import runpy
import symtable
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from PIL import Image

import tacit
from tacit.benchmarks.attacks.table import ATTACKS
from tacit.parties import server
from tacit.protocols.declaration import messages_in
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.schema.keys import keys
from tests import warm
from tests.test_readme import blocks

DOCS = Path(__file__).parents[1] / "docs"
RUNS = runpy.run_path(str(DOCS / "page_runs.py"))
PAGES = {path: RUNS["blocks"](path.read_text(encoding="utf-8")) for path in sorted(DOCS.rglob("*.md"))}
EXECUTED = [path for path in PAGES if RUNS["EXECUTED"] in path.read_text(encoding="utf-8")]
README = [block.text.strip() for block in blocks()]
"""The blocks of the README, which its own tests run."""

ELSEWHERE = (
    *("flower.md", "ray.md", "deploying.md", "privacy.md"),
    *(path.relative_to(DOCS).as_posix() for path in (DOCS / "privacy").glob("*.md")),
)
"""Pages whose commands are run by other tests."""

SHOWN = (
    *("data.md", "prediction.md", "results.md", "validation.md", "performance.md", "devices.md", "architecture.md"),
    *(path.relative_to(DOCS).as_posix() for path in (DOCS / "results").glob("*.md")),
)
"""Pages of results and reference, whose commands take long or fetch data."""


def test_the_table_of_keys_has_every_key() -> None:
    page = runpy.run_path(str(DOCS / "scenario_keys.py"))["page"]()
    names = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert {key.name.rpartition(".")[2] for key in keys()} <= set(names)


def test_the_claims_of_the_results_page_follow_from_the_tables() -> None:
    results = runpy.run_path(str(DOCS / "results.py"))
    page, tables = (DOCS / "results.md").read_text(encoding="utf-8"), results["pages"]()
    assert all(results["marked"](text) == text for text in tables.values()), "run: python docs/results.py"
    assert results["claims"](tables) in page, "run: python docs/results.py"
    anchors: dict[str, set[str]] = {}
    for path, text in {"results.md": page, **tables}.items():
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors[path] = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    for path, text in {"results.md": page, **tables}.items():
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
            goal = os.path.normpath(Path(path).parent / target) if target else path
            if path.startswith("howto/") and goal not in anchors:
                continue  # a guide, whose links the build of the site checks
            assert anchor in anchors[goal], f"{path}: {target}#{anchor}"


def test_orders_are_summarised_by_the_number_of_their_cells() -> None:
    stands = runpy.run_path(str(DOCS / "results.py"))["stands"]
    beyond = "- A above B: in every row, beyond the spread in 2; in x: +1.00 [+0.10, +1.90]; y: +2.00 [+1.00, +3.00]."
    means = (
        "- in: A above in: B: in every row, beyond the spread in none; by the means alone in x: +1.00 [-0.10, +2.10]."
    )
    part = (
        "- A above B: in 1 of 2 columns, beyond the spread in 1; in x: +1.00 [+0.10, +1.90]; not in y: -1.0, without."
    )
    none = "- A above B: in 0 of 1 rows; not in x: -1.00 [-2.00, +0.50]."
    assert stands([beyond]) == "reproduced in 2 of 2; beyond the spread in 2"
    assert stands([beyond, means]) == "reproduced in 3 of 3; beyond the spread in 2"
    assert stands([means]) == "reproduced in 1 of 1; beyond the spread in none"
    assert stands([beyond, part]) == "reproduced in 3 of 4; beyond the spread in 3"
    assert stands([part, none, means]) == "reproduced in 2 of 4; beyond the spread in 1"
    assert stands([none]) == "not reproduced (0 of 1)"
    assert stands(["- A above B: in every row."]) == "reproduced in every cell (means of an earlier code)"
    assert (
        stands(["- A above B: in 0 of 2 rows; not in x: 1.00 against 2.00."])
        == "not reproduced (means of an earlier code)"
    )


def test_the_pages_on_privacy_list_the_declared_options_and_attacks() -> None:
    made = runpy.run_path(str(DOCS / "privacy.py"))
    pages = made["pages"]()
    assert DOCS / "privacy" / "attacks.md" in pages
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/privacy.py"
    letters = {one["attack"] for one in json.loads((DOCS / "attacks.json").read_text(encoding="utf-8"))["findings"]}
    assert {letter for option in made["OPTIONS"] for letter in option.attacks} <= letters <= set(ATTACKS)


def test_the_page_on_secure_sums_has_the_rows_of_its_file() -> None:
    pytest.importorskip("matplotlib")
    made = runpy.run_path(str(DOCS / "sums.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run: python docs/sums.py"


def test_the_picture_of_dropouts_has_a_curve_for_each_way_to_add_noise() -> None:
    made = runpy.run_path(str(DOCS / "dropouts.py"))
    for column, *_ in made["PANELS"]:
        found = made["curves"](column)
        # The way that ends at epsilon has no result where the second sum is not opened.
        assert len(found) == 4 and [len(points) for points in found.values()].count(5) == 3


def test_the_page_on_performance_has_every_part_and_the_sums_of_the_formulas() -> None:
    made = runpy.run_path(str(DOCS / "performance.py"))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in made["PAGES"])
    assert sorted(re.findall(r"^<!-- measured: (.+) -->$", pages, re.MULTILINE)) == sorted(made["PARTS"])
    for name in made["PARTS"]:
        text = made["block"](name)
        assert "|" in text, f"run: python docs/performance.py {name!r}"
        assert (name in made["STEADY"]) != text.startswith("Measured on "), name
    assert made["block"]("sums") == made["made"]("sums"), "run: python docs/performance.py sums"
    assert "a twelfth of the bytes of `secure` for 1,000 clients" in (DOCS / "privacy.md").read_text(encoding="utf-8")
    assert round(float(made["block"]("sums").rsplit("|", 2)[1])) in (12, 13)


@pytest.mark.long
def test_figures_of_the_page_on_performance_that_hold_everywhere_are_found_again() -> None:
    made = runpy.run_path(str(DOCS / "performance.py"))
    for name in made["STEADY"]:
        assert made["block"](name) == made["made"](name), f"run: python docs/performance.py {name}"


def test_the_page_on_survival_has_the_rows_of_its_files() -> None:
    made = runpy.run_path(str(DOCS / "survival.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run: python docs/survival.py"


def texts(picture: Path) -> str:
    """The texts in an SVG."""
    elements = ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}text")
    return "\n".join((element.text or "").replace("\N{NO-BREAK SPACE}", " ") for element in elements)


def test_the_picture_of_the_readme_shows_a_run(tmp_path: Path) -> None:
    quick = ("protocol.hamming=plaintext", "data.limit=120", "engine=inline")
    changes = [word for text in quick for word in ("--set", text)]
    out = tmp_path / "run.svg"
    command = [sys.executable, str(DOCS / "picture.py"), "xclp-digits", "--out", str(out), *changes]
    done = warm.run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = texts(out)
    for wanted in ("$ tacit run xclp-digits", "completed", "equal to the plaintext oracle", "client/3", "total"):
        assert wanted in shown
    assert "@font-face" not in out.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["run.svg"]


def test_every_page_with_commands_is_executed() -> None:
    named = {
        path
        for path, blocks in PAGES.items()
        if blocks and path.relative_to(DOCS).as_posix() not in (*ELSEWHERE, *SHOWN)
    }
    assert named == {path for path in EXECUTED if PAGES[path]}


def test_every_program_on_an_executed_page_defines_the_names_that_it_uses() -> None:
    programs = [
        (path.name, block.text)
        for path in EXECUTED
        for block in PAGES[path]
        if block.language == "python" and block.mark != "elsewhere"
    ]
    assert programs
    unbound = [(name, found) for name, text in programs if (found := _unbound(text))]
    assert not unbound, "such a block is an excerpt: mark it ```py"


def _unbound(text: str) -> set[str]:
    """The names that the classes, functions and statements of a program read, and that it binds nowhere."""
    top = symtable.symtable(text, "example.py", "exec")
    tables, read = [top], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        read |= {one.get_name() for one in table.get_symbols() if one.is_global() and one.is_referenced()}
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    return read - bound - set(vars(builtins)) - {"__name__", "__file__"}


def test_every_protocol_has_a_page_of_mathematics() -> None:
    named = runpy.run_path(str(DOCS / "protocol_pages.py"))["named"]
    assert {path.stem for path in (DOCS / "mathematics").glob("*.md")} == {named(name) for name in PROTOCOLS}


def test_the_page_of_every_protocol_lists_the_messages_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    made = importlib.import_module("protocol_pages")
    for name in PROTOCOLS:
        listed = {line.split("|")[2].strip(" `") for line in made.messages(name).splitlines() if line.startswith("| ")}
        assert len(listed) > 3 and listed.issuperset(made.types(name)), name
    for name in ("xclp", "fedavg"):
        sent = {row.type for row in byte_rows(tacit.run(made.small(name), out=tmp_path / name).folder)}
        listed = made.messages(name)
        of_every_protocol = {kind.__name__ for kind in messages_in(server)}
        assert all(f"`{kind}`" in listed for kind in sent - of_every_protocol), name


def test_the_picture_of_the_report_names_its_run_and_is_renewed_with_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make docs` renews it if the main job has another trace."""
    monkeypatch.syspath_prepend(str(DOCS))
    made, site = importlib.import_module("report_picture"), importlib.import_module("build_site")
    assert re.fullmatch("[0-9a-f]{64}", made.trace_of(DOCS / "report.png"))
    kept, other = tmp_path / "kept.png", tmp_path / "other.png"
    for path, trace, colour in ((kept, "aa", "red"), (other, "bb", "blue")):
        Image.new("RGB", (2, 2), colour).save(path, pnginfo=made.noted(trace))
    before = kept.read_bytes()
    site.renew(kept, kept)
    assert kept.read_bytes() == before
    site.renew(kept, other)
    assert kept.read_bytes() == other.read_bytes()


def test_a_block_that_fails_ends_the_build(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n<!-- executed -->\n\n```sh\necho seen && false\n```\n", encoding="utf-8")
    runner = RUNS["Runner"](tmp_path / "runs", tmp_path / "source", draft=False)
    with pytest.raises(SystemExit, match="seen"):
        runner.executed(page)


@pytest.mark.parametrize(("language", "text", "code", "output"), [
    ("sh", "cd examples && tacit outline --help | head -n 1 && cd .. && tacit run nowhere", 2, "nowhere"),
    ("sh", "tacit --version > version; read -r name number < version; echo $name", 0, "tacit"),
    ("python", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ("python", "import sys\nprint(sys.argv, __name__)\nsys.exit(3)", 3, "['example.py'] __main__"),
])  # fmt: skip
def test_a_block_starts_warm_and_ends_like_a_cold_one(
    language: str, text: str, code: int, output: str, tmp_path: Path
) -> None:
    done = RUNS["run_block"](RUNS["Block"]("", language, text), RUNS["prepared"](tmp_path / "page"))
    assert done.returncode == code and output in done.stdout, done.stdout


def test_the_output_of_a_block_is_below_the_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    quiet = "<!-- quiet -->\n```sh\necho hidden\n```"
    page.write_text(f"<!-- executed -->\n\n```sh\necho $((6 * 7))\n```\n\n{quiet}\n", encoding="utf-8")
    made = RUNS["Runner"](tmp_path / "runs", tmp_path / "source", draft=False).executed(page)
    assert "```{code-block} text\n:class: output\n\n42\n```" in made
    assert made.count("hidden") == 1


SMALLER = {
    "tacit sweep presence": ("training.rounds=4", "training.epochs=1"),
    "tacit sweep value-bits": ("training.rounds=2",),
}
"""Tables that show the effect of many rounds, with the changes with which the test makes them."""


def shortened(text: str) -> str:
    """The commands of a block with at most two seeds, and with fewer rounds and epochs for long tables."""
    text = re.sub(r"--seeds ([3-9]|\d\d+)\b", "--seeds 2", text)
    for command, changes in SMALLER.items():
        text = text.replace(f"{command} ", " ".join((command, *(f"--set {one}" for one in changes), "")))
    return text


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in EXECUTED if any(block.mark == "long" for block in PAGES[path])],
                         ids=lambda path: path.stem)  # fmt: skip
def test_the_long_blocks_of_a_page_succeed(path: Path, tmp_path: Path) -> None:
    folder = RUNS["prepared"](tmp_path / "page")
    for block in (block for block in PAGES[path] if block.mark == "long" and block.text.strip() not in README):
        done = RUNS["run_block"](block._replace(text=shortened(block.text)), folder, warm.LEARNING)
        assert done.returncode == 0, f"{block.text}\n{done.stdout}"


ROOT = DOCS.parent
TEXTS = [path for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")) if path.is_file()]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_of_a_text_leads_to_an_existing_file(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"(?<!`)\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text)
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_notebooks_equal_their_pages_and_install_tacit_by_name() -> None:
    made = runpy.run_path(str(DOCS / "notebook_files.py"))
    pages = sorted((DOCS / "notebooks").glob("*.md"))
    assert [path.stem for path in pages] == sorted(path.stem for path in (DOCS / "notebooks").glob("*.ipynb"))
    for path in pages:
        text, kept = path.read_text(encoding="utf-8"), path.with_suffix(".ipynb").read_text(encoding="utf-8")
        assert kept == made["notebook"](text), "run: python docs/build_site.py --files"
        cells = nbformat.reads(kept, as_version=4).cells
        assert cells[0].source.startswith("# ")
        assert re.search(r'%pip install --quiet "tacit-fl(\[plots\])?"', cells[1].source)
        codes = [cell.source for cell in cells if cell.cell_type == "code"]
        page = made["page"](text, path.stem)
        assert codes == [re.sub(r"^:tags:.*\n", "", code).strip() for code in made["CELL"].findall(page)]


def test_notebook_pages_link_to_colab_and_binder_if_the_repository_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = runpy.run_path(str(DOCS / "notebook_files.py"))
    scope = made["page"].__globals__
    monkeypatch.setitem(scope, "repository", lambda: "")
    assert "Upload notebook" in made["page"]("# Title\n\nText\n", "xclp")
    monkeypatch.setitem(scope, "repository", lambda: "https://github.com/owner/name")
    page = made["page"]("# Title\n\nText\n", "xclp")
    file = "docs/notebooks/xclp.ipynb"
    assert f"https://colab.research.google.com/github/owner/name/blob/main/{file})" in page
    assert "https://mybinder.org/v2/gh/owner/name/main?labpath=docs%2Fnotebooks%2Fxclp.ipynb)" in page


def test_excerpts_of_files_on_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    site = importlib.import_module("build_site")
    shown = []
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        shown += re.findall(r"^<!-- file: (\S+) -->\n```", text, re.MULTILINE)
        assert site.with_files(text) == text, "run: python docs/build_site.py --files"
    assert "examples/secure_mean.py" in shown


def test_a_link_to_a_code_file_leads_to_the_page_generated_from_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    site = importlib.import_module("build_site")
    text = "[keys](../../scenarios/schema/scenario.py) [all](../mathematics) [this](folder.md#x)\n\n"
    text += "<!-- picture: a.svg A -->\n"
    site.Copy(tmp_path).put("howto/page.md", text, DOCS / "howto" / "page.md")
    made = "[keys](../scenario-keys.md) [all](../protocols/index.md) [this](folder.md#x)\n\n![A](a.svg)\n"
    assert (tmp_path / "howto" / "page.md").read_text(encoding="utf-8") == made
