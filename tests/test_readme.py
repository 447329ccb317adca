"""Tests of the README: every command is run, in order."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
MAKE = ["make demo", "make test"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md", "docs/ray.md", "docs/performance.md"),
    *(f"docs/results/{path.name}" for path in sorted((ROOT / "docs" / "results").glob("*.md"))),
    *(f"docs/privacy/{path.name}" for path in sorted((ROOT / "docs" / "privacy").glob("*.md"))),
    *("docs/results.md", "docs/privacy.md"),
)
MADE = {"architecture.svg", "run-format.md", "scenario-keys.md", "stragglers.svg"}
"""Files of docs/ that exist only on the site, whose build checks them."""


class Block(NamedTuple):
    """A fenced block: its language and its content."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines of the block, without comments and trailing blanks."""
        lines = (re.sub(r"\s*#.*", "", line) for line in self.text.splitlines())
        return [line for line in lines if line]


def blocks() -> list[Block]:
    return [Block(*found) for found in FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))]


RUN = [block for block in blocks() if block.commands != MAKE]
LONG = ("tacit run", "tacit bench")
"""The beginnings of blocks that take long."""


def test_the_make_commands_are_in_one_block_that_ci_runs() -> None:
    assert [block.commands for block in blocks() if "make" in block.text] == [MAKE]


def test_every_block_can_be_run() -> None:
    assert {block.language for block in blocks()} == {"sh"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all blocks, as later blocks use the results of earlier ones."""
    path = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", path / "examples")
    return path


def as_parameter(block: Block) -> object:
    """A block as a parameter, marked long if it takes long; long blocks do not use the results of others."""
    marks = [pytest.mark.long] if any(line.startswith(LONG) for line in block.commands) else []
    return pytest.param(block, marks=marks, id=block.text.splitlines()[0][:60])


@pytest.mark.parametrize("block", [as_parameter(block) for block in RUN])
def test_a_block_of_a_page_runs_unchanged(block: Block, folder: Path) -> None:
    command = ["bash", "-euo", "pipefail", "-c", block.text]
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_installed_tacit_is_that_of_the_tree() -> None:
    """Otherwise the commands above would test another installation of Tacit."""
    code = "import tacit, pathlib; print(pathlib.Path(tacit.__file__).resolve().parent)"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True)
    assert done.stdout.strip() == str(ROOT / "tacit"), done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_existing_files(page: str) -> None:
    targets = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    inside = [target.partition("#")[0] for target in targets if "://" not in target]
    wanted = [target for target in inside if target not in ("", *MADE)]
    assert [target for target in wanted if not (ROOT / page).parent.joinpath(target).exists()] == []
