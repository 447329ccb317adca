"""Runs that cannot be resumed, with one-line errors: damaged, changed or lost files, other data, a running process."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tacit.scenarios.running.checkpoint import read_checkpoint
from tacit.scenarios.running.folder import FolderError, RunFolder
from tacit.scenarios.running.runner import resume
from tests.earlier import without_digests

Resumable = Callable[..., Path]
BreakOff = Callable[..., None]


@pytest.fixture(scope="module")
def broken(resumable: Resumable, break_off: BreakOff, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was interrupted after a checkpoint."""
    folder = tmp_path_factory.mktemp("broken")
    break_off(resumable(folder), folder / "run", 120, "protocol.name=fedavg")
    assert (folder / "run" / "checkpoint").exists()
    return folder / "run"


def refused(folder: Path, *options: str) -> str:
    """The only line on standard error."""
    found = CliRunner().invoke(app, ["run", "--resume", str(folder), *options])
    assert found.exit_code == 2, found.output
    (line,) = found.stderr.splitlines()
    return line


def copy_of(broken: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(broken, tmp_path / "copy"))


def test_the_command_resumes_a_run_and_states_the_round(broken: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["run", "--resume", str(copy_of(broken, tmp_path)), "--engine", "inline"])
    assert found.exit_code == 0, found.output
    assert "resumed   after round" in found.stdout
    assert "unused" not in found.stdout
    assert "has ended already (completed), there is nothing to resume" in refused(tmp_path / "copy")


def test_bytes_of_an_interrupted_run_are_labelled_so_far(broken: Path, tmp_path: Path) -> None:
    folder = copy_of(broken, tmp_path)
    assert CliRunner().invoke(app, ["bytes", str(folder)]).stdout.splitlines()[0].endswith(": so far)")
    (folder / "result.json").write_text('{"outcome"')
    cut = CliRunner().invoke(app, ["bytes", str(folder)])
    assert cut.exit_code == 2 and f"{folder / 'result.json'}: " in cut.stderr, cut.output
    again = CliRunner().invoke(app, ["run", str(folder), "--engine", "inline", "--out", str(tmp_path / "again")])
    assert again.exit_code == 0, again.output
    assert f"tacit run --resume {folder}" in again.stdout.replace("\n", " ")
    assert CliRunner().invoke(app, ["bytes", str(tmp_path / "again")]).stdout.splitlines()[0] == str(tmp_path / "again")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert "holds no scenario.toml; allowed: the folder of a run" in refused(tmp_path)


def test_a_run_that_trains_no_model_is_refused(break_off: BreakOff, quick: Path, tmp_path: Path) -> None:
    break_off(quick, tmp_path / "run", 30)
    assert "only training can be resumed; `tacit run" in refused(tmp_path / "run")


def test_a_damaged_checkpoint_is_refused(broken: Path, tmp_path: Path) -> None:
    folder = copy_of(broken, tmp_path)
    data = bytearray((folder / "checkpoint").read_bytes())
    data[-20] ^= 1
    (folder / "checkpoint").write_bytes(data)
    assert "checkpoint: the checkpoint is damaged; `tacit run" in refused(folder)
    (folder / "checkpoint").write_bytes(data[: len(data) // 2])
    assert "damaged" in refused(folder)
    (folder / "checkpoint").write_bytes(b"something else")
    assert "no checkpoint of this version of Tacit" in refused(folder)


def test_a_checkpoint_of_another_version_is_refused(
    broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.scenarios.running.checkpoint.version", lambda: "99.0")
    assert "and this is 99.0" in refused(copy_of(broken, tmp_path))


def test_a_scenario_changed_since_the_run_is_refused(broken: Path, tmp_path: Path) -> None:
    folder = copy_of(broken, tmp_path)
    path = folder / "scenario.toml"
    path.write_text(path.read_text().replace("learning_rate = 0.5", "learning_rate = 0.4"))
    assert "scenario.toml: changed since the run ended" in refused(folder)
    assert "scenario.toml: changed since the checkpoint" in refused(without_digests(folder))


def test_data_changed_since_the_run_are_refused(resumable: Resumable, break_off: BreakOff, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    table = np.column_stack([generator.normal(size=(90, 3)).round(3), generator.integers(0, 2, 90)])
    data = tmp_path / "points.csv"
    np.savetxt(data, table, delimiter=",", header="a,b,c,label", comments="", fmt=["%.3f", "%.3f", "%.3f", "%d"])
    file = resumable(tmp_path)
    file.write_text(file.read_text().replace('name = "digits"', 'path = "points.csv"').replace("limit = 80\n", ""))
    break_off(file, tmp_path / "run", 120, "protocol.name=fedavg")
    whole = data.read_text()
    data.write_text(whole.replace("0.4", "0.5", 1))
    assert "the data set is not what it was at the checkpoint" in refused(tmp_path / "run")
    data.write_text(whole)
    assert resume(tmp_path / "run").outcome == "completed"


def test_a_shortened_or_missing_record_is_refused(broken: Path, tmp_path: Path) -> None:
    folder = copy_of(broken, tmp_path)
    with closing(sqlite3.connect(folder / "run.sqlite", isolation_level=None)) as connection:
        connection.execute("DELETE FROM event_rows WHERE n > 10")
    assert "run.sqlite: changed since the run ended" in refused(folder)
    assert "the last row of event_rows is " in refused(without_digests(folder))
    (folder / "run.sqlite").unlink()
    assert "run.sqlite: missing" in refused(folder)
    assert read_checkpoint(folder) is not None


def test_a_run_is_not_resumed_by_two_processes_at_once(broken: Path, tmp_path: Path) -> None:
    folder = copy_of(broken, tmp_path)
    with closing(RunFolder(folder)):
        assert "another process is running it" in refused(folder)
    with pytest.raises(FolderError, match="another process is running it"), closing(RunFolder(folder)):
        resume(folder)
    assert resume(folder).outcome == "completed"


def test_only_the_engine_may_be_changed_when_resuming(broken: Path) -> None:
    assert "only --engine and --limit can be combined with it" in refused(broken, "--seed", "5")
    assert "only --engine and --limit can be combined with it" in refused(broken, "--set", "training.epochs=9")
    assert "this run was interrupted; `tacit run --resume" in refused(broken, "--set", "training.rounds=9")
