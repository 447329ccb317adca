"""docs/flower.md: every command on it runs, in the order of the page, and all that it names exists."""

import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.protocols.flower.declaration import HIGHEST, LOWEST
from tacit.protocols.flower.exchanges import STAGES
from tacit.protocols.flower.keys import FlowerKeys
from tacit.scenarios.command.main import app

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "flower.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.mark.long
def test_every_command_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    # Sweeps and chaos stay in this process, for each of their workers would import Flower.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    ran = 0
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "pip":
            continue
        assert words[0] == "tacit"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{command}\n{done.output}"
        ran += 1
    assert ran == 13


def test_stages_keys_and_links_on_the_page_exist() -> None:
    assert all(f"`{stage}`" in PAGE for stage in STAGES)
    assert f"flwr {LOWEST[0]}.{LOWEST[1]} to {HIGHEST[0]}.{HIGHEST[1]} are tested" in PAGE
    for key in re.findall(r"`protocol\.(\w+)", PAGE):
        assert key in FlowerKeys.__struct_fields__
    for link in re.findall(r"\]\((?!http)([^)#]+)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        assert tomllib.loads(block)["fault"]
