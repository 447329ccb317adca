"""Builds the site: copies the pages of docs/, makes what the code says, runs the examples, and lets Sphinx write HTML.

python docs/build_site.py           into build/site/html, which git ignores; open index.html there
python docs/build_site.py --draft   without runs and notebooks: for a look at the text
python docs/build_site.py --files   writes the files that pages show into these pages, and notebooks; builds nothing

Nothing is fetched from any network. A warning, or a command that fails, is an error. Needs the extra `docs`.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import architecture
import notebook_files
import page_runs
import picture
import protocol_pages
import reference_pages
import report_picture
import run_format
import scenario_keys

from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.report import report
from tacit.scenarios.running.folder import read_result

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUT = ROOT / "build" / "site"

TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages that stand in the root of the tree."""

STRAGGLERS = "scenarios/library/federated/training-stragglers.toml"

LINK = re.compile(r"(?<!`)\]\(([^)\s#]+)(#[^)\s]*)?\)")
FILE = re.compile(r"^<!-- file: (\S+) -->\n+(`{3,})\w+\n.*?^\2$", re.MULTILINE | re.DOTALL)
"""A file of the tree that a page shows, with its content as a block of code; `python docs/build_site.py --files`
renews it."""

PICTURE = re.compile(r"^<!-- picture: (\S+) (.+) -->$", re.MULTILINE)
"""A picture that the build makes, with what it shows."""

MADE = {
    "docs/mathematics": "protocols/index.md",
    "protocols/parts.py": "reference/messages.md",
    "scenarios/running/record_format.py": "run-format.md",
    "scenarios/schema/scenario.py": "scenario-keys.md",
    "tacit/__init__.py": "reference/interface.md",
}
"""The pages that are made of the code: where a page of the tree links to what they are made of."""

LANGUAGES = {".py": "py", ".toml": "toml", ".c": "c", ".md": "markdown", ".js": "javascript", ".csv": "text"}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Build the site.")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder, which is emptied first")
    parser.add_argument("--draft", action="store_true", help="without runs and notebooks")
    parser.add_argument("--files", action="store_true", help="write the files that pages show, and notebooks, and end")
    return parser.parse_args()


class Copy:
    """The pages on their way into `source`: links to files of the tree lead to pages that show these."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.shown: dict[str, Path] = {}

    def put(self, name: str, text: str, origin: Path) -> None:
        """Write the page `name`, whose links are relative to the folder of `origin`."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        linked = LINK.sub(lambda found: self._link(found, path, origin), text)
        shown = FILE.sub(lambda found: fenced(ROOT / found[1]), linked)
        path.write_text(PICTURE.sub(r"![\2](\1)", shown), encoding="utf-8")

    def _link(self, found: re.Match[str], page: Path, origin: Path) -> str:
        target, anchor = found[1], found[2] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        file = Path(os.path.normpath(origin.parent / target))
        if (made := MADE.get(os.path.relpath(file, ROOT))) is not None:
            place = self.source / made
        elif file.is_relative_to(DOCS) or not file.exists():
            place = self.source / (file.relative_to(DOCS) if file.is_relative_to(DOCS) else file.name)
        elif file.name in TOP and file.parent == ROOT:
            place = self.source / file.name.lower()
        else:
            place = self.source / "files" / f"{file.relative_to(ROOT).as_posix().replace('/', '-')}.md"
            self.shown[place.name] = file
        return f"]({os.path.relpath(place, page.parent)}{anchor})"

    def show_files(self) -> None:
        """Write a page for each file of the tree that a page links to."""
        for name, file in sorted(self.shown.items()):
            held = sorted(one for one in file.rglob("*") if one.is_file()) if file.is_dir() else [file]
            parts = ["---\norphan: true\n---", f"# {file.relative_to(ROOT)}"]
            for one in (one for one in held if one.suffix in LANGUAGES and "__pycache__" not in one.parts):
                head = [f"## {one.relative_to(file)}"] if file.is_dir() else []
                parts += [*head, fenced(one)]
            target = self.source / "files" / name
            target.parent.mkdir(exist_ok=True)
            target.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def fenced(file: Path) -> str:
    """The text of a file as a block of code."""
    text = file.read_text(encoding="utf-8").rstrip()
    fence = "``````" if "```" in text else "```"
    return f"{fence}{LANGUAGES[file.suffix]}\n{text}\n{fence}"


def with_files(text: str) -> str:
    """The text of a page with the files that it shows as they are now."""
    marks = re.compile(rf"{FILE.pattern}|^<!-- file: (\S+) -->$", re.MULTILINE | re.DOTALL)
    return marks.sub(lambda found: f"<!-- file: {(name := found[1] or found[3])} -->\n{fenced(ROOT / name)}", text)


def renew_files() -> None:
    """Write the files that pages show into these pages, and the notebooks of pages beside them."""
    notebook_files.renew()
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        if (renewed := with_files(text)) != text:
            path.write_text(renewed, encoding="utf-8")


def copy_pages(copy: Copy, runner: page_runs.Runner, meanwhile: Callable[[], None]) -> None:
    """Copy what is written by hand; commands on pages that are executed are followed by what they print. `meanwhile` is
    called while they run."""
    for name in TOP:
        if (ROOT / name).exists():
            copy.put(name.lower(), (ROOT / name).read_text(encoding="utf-8"), ROOT / name)
    for path in (*DOCS.glob("*.svg"), *DOCS.glob("*.png"), DOCS / "conf.py"):
        shutil.copy(path, copy.source / path.name)
    (copy.source / "notebooks").mkdir()
    for path in (DOCS / "notebooks").glob("*.ipynb"):
        (copy.source / "notebooks" / path.name).write_bytes(path.read_bytes())
    shutil.copytree(DOCS / "_static", copy.source / "_static")
    paths = [path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "mathematics"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for its commands
        texts = pool.map(runner.executed, paths)
        if not runner.draft:
            drawn = pool.submit(draw_stragglers, runner.runs / "stragglers", copy.source)
        meanwhile()
        for path, text in zip(paths, texts, strict=True):
            if notebook_files.is_notebook(text):
                text = notebook_files.page(text, path.stem)
            copy.put(path.relative_to(DOCS).as_posix(), text, path)
        if not runner.draft:
            drawn.result()


def draw_stragglers(folder: Path, source: Path) -> None:
    """Draw accuracy over virtual time beside stragglers, by the commands in the scenario's comment."""
    text = (ROOT / STRAGGLERS).read_text(encoding="utf-8").partition("\n#   tacit report")[0]
    commands = "\n".join(line[4:] for line in text.splitlines() if line.startswith("#   "))
    folder.mkdir()
    done = page_runs.run_block(page_runs.Block("", "sh", commands), folder, page_runs.warm.LEARNING)
    if done.returncode:
        raise ValueError(f"{STRAGGLERS}: a command in its comment fails:\n{done.stdout}")
    shutil.copy(folder / "stragglers.svg", source)


def draw(source: Path) -> None:
    """Run the main job, and write what it printed, its report, and pictures of both. Raises ValueError if it fails."""
    loaded = read("xclp-digits")
    printed = picture.draw("tacit run xclp-digits", loaded, out := Path("main").absolute())
    (source / "run.svg").write_text(printed, encoding="utf-8")
    page = source / "_static" / "report.html"
    page.write_text(report([out]), encoding="utf-8")
    trace = read_result(out).trace_hash
    if shutil.which("chromium"):  # else the picture is the README's
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            report_picture.take(page, source / "report.png", Path(folder), trace)
        renew(DOCS / "report.png", source / "report.png")


def renew(kept: Path, made: Path) -> None:
    """Let the README's picture be the one that was made, where it is of another run than that."""
    if report_picture.trace_of(kept) != report_picture.trace_of(made):
        shutil.copy(made, kept)


def make_pages(copy: Copy, runs: Path, draft: bool) -> None:
    """Write the pages and pictures that follow from the code."""
    copy.put("scenario-keys.md", scenario_keys.page(), DOCS / "scenario-keys.md")
    copy.put("run-format.md", run_format.page(), DOCS / "run-format.md")
    for name, text in reference_pages.pages():
        copy.put(f"reference/{name}.md", text, DOCS / "reference" / f"{name}.md")
    (copy.source / "architecture.svg").write_text(architecture.picture(), encoding="utf-8")
    drawn = [sys.executable, str(DOCS / "convergence.py"), "--out", str(copy.source / "convergence.svg")]
    subprocess.run(drawn, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    (copy.source / "howto").mkdir(exist_ok=True)
    for script in ("sums.py", "dropouts.py"):
        drawn = [sys.executable, str(DOCS / script), str(copy.source / "howto")]
        subprocess.run(drawn, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if draft:
        protocol_pages.WITHOUT_RUN = tuple(protocol_pages.PROTOCOLS)
    shared = (("index", protocol_pages.overview()), ("parts", protocol_pages.parts()))
    (copy.source / "protocols").mkdir(exist_ok=True)
    for name, text in (*shared, *protocol_pages.pages(runs / "protocols")):
        (copy.source / "protocols" / f"{name}.md").write_text(text, encoding="utf-8")


def sphinx(source: Path, out: Path, draft: bool) -> int:
    """The exit status of Sphinx."""
    import conf

    for name, text in conf.SHARED.items():
        (source / "_static" / name).write_text(text, encoding="utf-8")
    mode = ["-D", "nb_execution_mode=off", "-D", "suppress_warnings=myst-nb.lexer,image.not_readable"] if draft else []
    how = ["-W", "--keep-going", "-q", "-j", str(os.cpu_count() or 1), "-b", "html", "-d", str(out / "doctrees")]
    command = [*how, *mode, str(source), str(out / "html")]
    environment = {**page_runs.environment(), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, "-m", "sphinx", *command], env=environment, check=False).returncode


def main() -> None:
    """Build it, and print where it is."""
    given, began = arguments(), time.monotonic()
    if given.files:
        return renew_files()
    out = given.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    runs = out / "runs"
    runs.mkdir(parents=True)
    (out / "source").mkdir()
    copy = Copy(out / "source")

    def meanwhile() -> None:
        make_pages(copy, runs, given.draft)
        if not given.draft:
            draw(copy.source)

    with contextlib.chdir(runs):
        copy_pages(copy, page_runs.Runner(runs, copy.source, given.draft, page_runs.warm.LEARNING), meanwhile)
        copy.show_files()
        print(f"pages      {time.monotonic() - began:.0f} s", flush=True)
    if sphinx(copy.source, out, given.draft):
        sys.exit("error: the site has the problems above")
    print(f"site       {out / 'html' / 'index.html'} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
