"""The place of an app, and its settings: every mistake is one line."""

from pathlib import Path

import pytest

from tacit.protocols.flower.apps import read_app
from tacit.sim.setting_error import Problem

PROJECT = """
[project]
name = "mine"
[tool.flwr.app.components]
serverapp = "mine.server:app"
clientapp = "mine.client:app"
[tool.flwr.app.config]
num-server-rounds = 3
model.width = 0.5
name = "small net"
fast = true
[tool.flwr.federations.local]
options.num-supernodes = 12
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_an_app_has_components_settings_and_nodes(folder: Path) -> None:
    app = read_app(str(folder))
    assert (app.server, app.client, app.name, app.nodes, app.rounds) == (
        "mine.server:app", "mine.client:app", "mine", 12, 3
    )  # fmt: skip
    assert dict(app.config) == {"num-server-rounds": 3, "model.width": 0.5, "name": "small net", "fast": True}


def test_settings_of_a_run_override_those_of_the_app(folder: Path) -> None:
    app = read_app(str(folder), "num-server-rounds=5  model.width = 0.25 name='large net' fast=false")
    assert dict(app.config) == {"num-server-rounds": 5, "model.width": 0.25, "name": "large net", "fast": False}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("num-server-round=5", "did you mean num-server-rounds"),
        ("5", "no list of settings"),
        ("name=", "no list of settings"),
    ],
)
def test_invalid_settings_are_refused(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(Problem, match=problem):
        read_app(str(folder), text)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "has no pyproject.toml"),
        ("[project", "cannot be read"),
        ("[project]\nname = 'x'", "serverapp is None"),
        (PROJECT.replace("mine.server:app", "mine"), "serverapp is 'mine'"),
        (PROJECT.replace("fast = true", "fast = [1]"), "fast is \\[1\\]"),
    ],
)
def test_a_folder_without_an_app_is_refused(tmp_path: Path, content: str | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(Problem, match=problem):
        read_app(str(tmp_path))


def test_a_file_is_an_app_with_any_settings(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    app = read_app(str(tmp_path / "app.py"), "rounds=2")
    assert (app.server, app.client, app.config, app.rounds) == ("app", "app", (("rounds", 2),), 2)
