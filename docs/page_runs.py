"""Runs the commands on the pages of the site, in their order, and puts below each what it printed.

A page is executed if it says so below its title, by the line `<!-- executed -->`. On such a page every block of sh and
python is run, in one folder a page that also holds examples/, but for those below a line that says otherwise:

| line above a block | treatment of the block |
| --- | --- |
| `<!-- long -->` | it is run by the long tests, with few seeds and rounds, not by the build |
| `<!-- elsewhere: WHY -->` | it is not run, for the reason given |
| `<!-- quiet -->` | it is run, and what it prints is not shown |

Blocks of python, and `tacit` in blocks of sh, start warm (`tests.warm`): importing Tacit would take most of the time of
many.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from tests import warm  # noqa: E402

EXECUTED = "<!-- executed -->"
BLOCK = re.compile(r"(?:^<!-- (long|quiet|elsewhere)(?:: [^\n]*)? -->\n)?^```(sh|python)\n(.*?)^```$", re.M | re.S)
MOST_LINES = 45


class Block(NamedTuple):
    """A block of commands: how it is marked, its language, what stands in it."""

    mark: str
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of sh and python of a page."""
    return [Block(mark or "", language, text) for mark, language, text in BLOCK.findall(page)]


def environment() -> dict[str, str]:
    """The environment of what is run: the programs of this Python come before all others."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}


_cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
_turns = itertools.count(os.getpid())
_of_thread = threading.local()


def one_core() -> dict[str, str]:
    """The variable by which what this thread starts warm runs on one core, which is the thread's own.

    Commands then compute in their own process. Otherwise each starts further ones, which import as much as it does,
    while other pages need the other cores.
    """
    if not _cores:
        return {}
    if not hasattr(_of_thread, "core"):
        _of_thread.core = _cores[next(_turns) % len(_cores)]
    return {warm.CORE: str(_of_thread.core)}


def run_block(block: Block, folder: Path, imported: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a block in `folder`, whose processes have `imported` these modules when they start."""
    shell, variables = warm.shell(*imported), environment() | one_core()
    variables["PATH"] = os.pathsep.join((str(shell.folder), variables["PATH"]))
    if block.language == "python":
        (folder / "example.py").write_text(block.text, encoding="utf-8")
        command = [*shell.python, "example.py"]
    else:
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    return subprocess.run(
        command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=900, check=False, pass_fds=[shell.descriptor],
    )  # fmt: skip


def prepared(folder: Path) -> Path:
    """The folder of a page, made, with the examples in it."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class Runner:
    """Runs pages below the folder `runs`; pictures that their commands write go beside the page in `source`.

    Their processes have `imported` these modules when they start.
    """

    def __init__(self, runs: Path, source: Path, draft: bool, imported: Sequence[str] = ()) -> None:
        self.runs, self.source, self.draft, self.imported = runs, source, draft, imported
        if not draft:
            warm.shell(*imported)  # before several threads ask for it

    def executed(self, path: Path) -> str:
        """The text of the page at `path`, with what its commands printed. Exits with the output of one that fails."""
        text = path.read_text(encoding="utf-8")
        if EXECUTED not in text or self.draft:
            return text
        folder = prepared(self.runs / path.stem)

        def run(found: re.Match[str]) -> str:
            block = Block(found[1] or "", found[2], found[3])
            shown = found[0].partition("\n")[2] if block.mark else found[0]
            if block.mark in ("long", "elsewhere"):
                return shown
            done = run_block(block, folder, self.imported)
            if done.returncode:
                sys.exit(f"error: {path.name}: exit status {done.returncode}\n{block.text}\n{done.stdout}")
            return shown if block.mark == "quiet" else shown + printed(done.stdout)

        made = BLOCK.sub(run, text)
        for picture in (*folder.glob("*.svg"), *folder.glob("*.png")):
            (self.source / path.relative_to(ROOT / "docs")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, (self.source / path.relative_to(ROOT / "docs")).parent / picture.name)
        return made


def printed(output: str) -> str:
    """Return the output of a command as a block, shortened if it is long."""
    lines = output.rstrip().splitlines()
    if not lines:
        return ""
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 5], f"... {len(lines) - MOST_LINES + 5} more lines"]
    return "\n\n```{code-block} text\n:class: output\n\n" + "\n".join(lines) + "\n```"
