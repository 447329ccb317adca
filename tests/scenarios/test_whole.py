"""A run's folder that was changed or damaged is reported, and its numbers are not shown."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tacit
from tacit.scenarios.command.main import app
from tacit.scenarios.running.whole import FolderError, check_whole

CHANGES = [
    "data.limit=120",
    "data.clients=4",
    "protocol.hamming=plaintext",
    "protocol.bits=32",
    "protocol.k=3",
    "fault=[]",
]


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, for copying."""
    return tacit.run(tacit.load("xclp-digits", CHANGES), out=tmp_path_factory.mktemp("made") / "run").folder


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def change_record(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "run.sqlite")) as record, record:
        record.execute("UPDATE event_rows SET kind = 'rend' WHERE n = (SELECT min(n) FROM events WHERE kind = 'send')")


def change_result(folder: Path) -> None:
    text = (folder / "result.json").read_text()
    total = json.loads(text)["bytes_total"]
    (folder / "result.json").write_text(text.replace(f'"bytes_total": {total}', f'"bytes_total": {total + 1}'))


def replacing(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


DAMAGED = {
    "run.sqlite": change_record,
    "result.json": change_result,
    "scenario.toml": replacing("scenario.toml", "limit = 120", "limit = 140"),
    "rounds.csv": replacing("rounds.csv", "1,", "2,"),
    "labels.csv": replacing("labels.csv", "client/0", "client/1"),
}
COMMANDS = [
    ["bytes", "{}"], ["events", "{}"], ["compare", "{}", "{}"], ["compare", "{whole}", "{}"], ["report", "{}"],
    ["plot", "{}"], ["trace", "{}", "--perfetto", "{}.json"], ["keys", "{}"], ["steps", "{}"], ["predict", "{}"],
]  # fmt: skip


def run_command(command: list[str], folder: Path, whole: Path) -> tuple[int, str]:
    found = CliRunner().invoke(
        app, [word.replace("{whole}", str(whole)).replace("{}", str(folder)) for word in command]
    )
    return found.exit_code, found.output.replace("\n", "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_that_reads_a_run_names_the_file(command: list[str], folder: Path, finished_run: Path) -> None:
    change_record(folder)
    code, said = run_command(command, folder, finished_run)
    assert code == 2 and f"{folder / 'run.sqlite'}: changed since the run ended" in said


@pytest.mark.parametrize("name", DAMAGED)
def test_the_error_names_the_damaged_file_of_a_run(name: str, folder: Path, finished_run: Path) -> None:
    DAMAGED[name](folder)
    code, said = run_command(["bytes", "{}"], folder, finished_run)
    assert code == 2 and f"{folder / name}: changed since the run ended" in said
    with pytest.raises(FolderError, match=name):
        tacit.bytes(folder)


def test_a_result_that_cannot_be_read_is_named_by_commands_that_need_the_record_alone(
    folder: Path, finished_run: Path
) -> None:
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text.replace('"lost"', '"lost', 1))
    code, said = run_command(["bytes", "{}"], folder, finished_run)
    assert code == 2 and f"{folder / 'result.json'}: not the result of a run" in said


def test_missing_models_and_added_files_leave_a_run_whole(folder: Path) -> None:
    tacit.report(folder)
    (folder / "model.npz").unlink(missing_ok=True)
    (folder / "notes.txt").write_text("mine")
    check_whole(folder)


# Interrupted runs


def interrupted_copy(made: Path, to: Path) -> Path:
    """A copy of the run as left by a kill: half of the events only in the journal, and no result."""
    source = Path(shutil.copytree(made, to / "source"))
    with closing(sqlite3.connect(source / "run.sqlite", isolation_level=None)) as record:
        record.execute("CREATE TABLE kept AS SELECT * FROM event_rows")
        record.execute("DELETE FROM event_rows")
        record.execute("PRAGMA journal_mode = WAL")
        for half in (0, 1):
            record.execute("INSERT INTO event_rows SELECT * FROM kept WHERE n % 2 = ?", (half,))
        folder = to / "run"
        folder.mkdir()
        for name in ("run.sqlite", "run.sqlite-wal", "scenario.toml"):
            shutil.copy(source / name, folder)
    return folder


def test_an_interrupted_run_is_read(finished_run: Path, tmp_path: Path) -> None:
    folder = interrupted_copy(finished_run, tmp_path)
    assert tacit.bytes(folder).sums()["total"] == tacit.bytes(finished_run).sums()["total"]


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_of_the_journal_changes_a_number(
    finished_run: Path, place: float, bit: int, tmp_path_factory: object
) -> None:
    to = tmp_path_factory.mktemp("flipped")  # type: ignore[attr-defined]
    folder = interrupted_copy(finished_run, to)
    journal = bytearray((folder / "run.sqlite-wal").read_bytes())
    journal[int(place * len(journal))] ^= 1 << bit
    (folder / "run.sqlite-wal").write_bytes(journal)
    try:
        found = tacit.bytes(folder).sums()["total"]
    except FolderError:
        return
    finally:
        shutil.rmtree(to)
    assert found == tacit.bytes(finished_run).sums()["total"]


def test_an_incomplete_frame_of_the_journal_is_ignored(finished_run: Path, tmp_path: Path) -> None:
    """A frame is cut short if the machine fails while it is written; it is ignored."""
    folder = interrupted_copy(finished_run, tmp_path)
    with (folder / "run.sqlite-wal").open("ab") as journal:
        journal.write(bytes(100))
    assert tacit.bytes(folder).sums()["total"] == tacit.bytes(finished_run).sums()["total"]


def test_a_scenario_changed_since_the_run_began_is_refused(finished_run: Path, tmp_path: Path) -> None:
    folder = interrupted_copy(finished_run, tmp_path)
    DAMAGED["scenario.toml"](folder)
    with pytest.raises(FolderError, match=r"scenario\.toml: changed since the run began"):
        tacit.bytes(folder)


@pytest.mark.parametrize("writable", [True, False])
def test_a_run_killed_while_closing_its_record_is_read(
    finished_run: Path, tmp_path: Path, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves a hot journal, from which SQLite restores the file before it is read."""
    source, folder = Path(shutil.copytree(finished_run, tmp_path / "source")), tmp_path / "run"
    folder.mkdir()
    with closing(sqlite3.connect(source / "run.sqlite", isolation_level=None)) as record:
        record.execute("PRAGMA cache_size = 1")
        record.execute("BEGIN")
        record.execute("UPDATE event_rows SET payload = payload + 1, note = note || 'x'")
        for name in ("run.sqlite", "run.sqlite-journal", "scenario.toml"):
            shutil.copy(source / name, folder)
        record.execute("ROLLBACK")
    before = (folder / "run.sqlite").read_bytes()
    if not writable:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert tacit.bytes(folder).sums()["total"] == tacit.bytes(finished_run).sums()["total"]
    assert tacit.events(folder)
    assert ((folder / "run.sqlite").read_bytes() == before) != writable
