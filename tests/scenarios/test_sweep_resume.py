"""An interrupted sweep is resumed with the runs that have not ended, and ends like an uninterrupted one."""

import csv
import json
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app
from tacit.scenarios.running.folder import locked
from tests import warm

TABLE = """
[table]
title = "Neighbours"
seeds = 2
[[table.row]]
label = "k = 2"
set = { "protocol.k" = 2 }
[[table.row]]
label = "k = 3"
[[table.column]]
label = "accuracy"
"""


@pytest.fixture(autouse=True)
def _in_its_folder(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick.parent)


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: str | Path) -> str:
    result = tacit("sweep", *arguments)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1), result.output
    return result.stderr


def runs_of(folder: str) -> list[dict[str, str]]:
    """The lines of a sweep's table, without wall-clock times."""
    with Path(folder, "sweep.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [{name: value for name, value in line.items() if name != "wall_seconds"} for line in lines]


def written(folder: str) -> dict[str, int]:
    """The time at which each run's result was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in Path(folder).glob("*/result.json")}


@pytest.mark.parametrize(
    ("jobs", "by"),
    [
        pytest.param("1", signal.SIGINT, marks=pytest.mark.long),
        ("1", signal.SIGKILL),
        pytest.param("2", signal.SIGINT, marks=pytest.mark.long),
        pytest.param("2", signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_a_resumed_sweep_ends_as_an_uninterrupted_one(quick: Path, stopped, by: signal.Signals, jobs: str) -> None:
    asked = (quick, "--over", "protocol.k=2,3", "--seeds", "2", "--seed", "5", "--set", "data.limit=48")
    assert tacit("sweep", *asked, "--out", "whole").exit_code == 0
    _, said, _ = stopped(3, by, "sweep", *asked, "--out", "broken")
    assert ("resume    tacit sweep --resume broken" in said) == (by == signal.SIGINT)
    before = written("broken")
    ended = sorted(before)[:2]
    resumed = tacit("sweep", "--resume", "broken", "--jobs", jobs)
    assert resumed.exit_code == 0, resumed.output
    assert resumed.stderr.splitlines()[0] == "2 of 4 runs have ended before"
    assert resumed.stderr.splitlines()[-1].startswith("4/4  ")
    assert runs_of("broken") == runs_of("whole") and len(runs_of("whole")) == 4
    after = written("broken")
    assert [after[name] for name in ended] == [before[name] for name in ended]
    assert sorted(after) == sorted(written("whole"))
    again = tacit("sweep", "--resume", "broken")
    assert again.exit_code == 0 and written("broken") == after
    assert "4 of 4 runs have ended before" in again.stderr
    assert runs_of("broken") == runs_of("whole")


def test_a_resumed_table_equals_an_uninterrupted_one(quick: Path, stopped) -> None:
    quick.write_text(quick.read_text() + TABLE)
    assert tacit("sweep", quick.name, "--out", "whole").exit_code == 0
    stopped(3, signal.SIGINT, "sweep", quick.name, "--out", "broken")
    assert "not run" in Path("broken/table.md").read_text()
    assert tacit("sweep", "--resume", "broken").exit_code == 0
    assert Path("broken/table.md").read_text() == Path("whole/table.md").read_text()
    assert runs_of("broken") == runs_of("whole")


def test_a_resumed_sweep_continues_training_from_its_checkpoint(resumable, break_off, tmp_path: Path) -> None:
    file = resumable(tmp_path)
    assert tacit("sweep", file, "--set", "protocol.name=fedavg", "--seeds", "2", "--out", "sweep").exit_code == 0
    whole = runs_of("sweep")
    (run,) = Path("sweep").glob("001-*")
    for path in run.iterdir():
        path.unlink()
    run.rmdir()
    break_off(file, run, 120, "protocol.name=fedavg", f"seed={whole[1]['seed']}", f'name="{file.stem}"')
    resumed = tacit("sweep", "--resume", "sweep")
    assert resumed.exit_code == 0, resumed.output
    assert runs_of("sweep") == whole
    assert json.loads((run / "result.json").read_text())["resumed"] != [0]


def test_a_sweep_resumes_despite_an_empty_run_folder(quick: Path) -> None:
    assert tacit("sweep", quick, "--seeds", "2", "--out", "sweep").exit_code == 0
    whole = runs_of("sweep")
    (run,) = Path("sweep").glob("001-*")
    for path in run.iterdir():
        path.unlink()
    (run / ".scenario.toml.partial").touch()  # like after a kill while it was written
    assert tacit("sweep", "--resume", "sweep").exit_code == 0
    assert runs_of("sweep") == whole
    (run / "scenario.toml").unlink()
    assert "001-seed=4: holds no scenario.toml; move it away" in refused("--resume", "sweep")


def test_a_resumed_sweep_ignores_a_damaged_checkpoint(resumable, break_off, tmp_path: Path) -> None:
    file = resumable(tmp_path)
    asked = ("--set", "protocol.name=fedavg", "--seeds", "2")
    assert tacit("sweep", file, *asked, "--out", "sweep").exit_code == 0
    whole = runs_of("sweep")
    (run,) = Path("sweep").glob("001-*")
    for path in run.iterdir():
        path.unlink()
    run.rmdir()
    break_off(file, run, 120, "protocol.name=fedavg", f"seed={whole[1]['seed']}", f'name="{file.stem}"')
    (run / "checkpoint").write_bytes((run / "checkpoint").read_bytes()[:-5])
    assert tacit("sweep", "--resume", "sweep").exit_code == 0
    assert runs_of("sweep") == whole


def test_a_sweep_is_not_resumed_while_another_process_runs_the_sweep(quick: Path) -> None:
    assert tacit("sweep", quick, "--out", "sweep").exit_code == 0
    before = Path("sweep/sweep.csv").read_text()
    with locked(Path("sweep")):
        assert "sweep: another process is running it" in refused("--resume", "sweep")
    assert Path("sweep/sweep.csv").read_text() == before


def test_workers_end_when_their_sweep_is_killed(quick: Path) -> None:
    """Otherwise they would continue, and the sweep could not be resumed."""
    asked = (quick, "--seeds", "3", "--set", "data.limit=1797", "--set", 'cost="modelled"', "--jobs", "2")
    process = warm.Process([sys.executable, "-m", "tacit", "sweep", *asked, "--out", "broken"])
    while not list(Path("broken").glob("*/scenario.toml")):
        assert process.poll() is None
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert workers and psutil.wait_procs(workers, timeout=20)[1] == []


@pytest.mark.long
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_parallel_runs_of_a_stopped_sweep_record_the_sweep_as_reason(quick: Path, by: signal.Signals) -> None:
    asked = (quick, "--seeds", "2", "--set", "data.limit=1797", "--set", 'cost="modelled"', "--jobs", "2")
    process = warm.Process([sys.executable, "-m", "tacit", "sweep", *asked, "--out", "broken"])
    while len(list(Path("broken").glob("*/run.sqlite"))) < 2:
        assert process.poll() is None
    process.send_signal(by)
    assert process.wait(timeout=60) == 128 + by
    records = [json.loads(path.read_text()) for path in Path("broken").glob("*/result.json")]
    reasons = {record["reason"] for record in records if record["outcome"] == "interrupted"}
    assert reasons == {"stopped with its sweep (SIGTERM)"}


def test_a_resumed_sweep_repeats_a_run_that_ended_by_an_error(quick: Path) -> None:
    assert tacit("sweep", quick, "--out", "sweep").exit_code == 0
    (run,) = Path("sweep").glob("000-*")
    (run / "failure.txt").write_text("Traceback")
    resumed = tacit("sweep", "--resume", "sweep")
    assert resumed.exit_code == 0 and "ended before" not in resumed.stderr
    assert not (run / "failure.txt").exists()


def test_a_resumed_sweep_still_fails_for_earlier_unmet_expectations(quick: Path) -> None:
    arguments = (quick, "--set", 'expect.outcome="aborted"', "--out", "sweep")
    assert tacit("sweep", *arguments).exit_code == 1
    resumed = tacit("sweep", "--resume", "sweep")
    assert resumed.exit_code == 1 and "1 of 1 run has ended before" in resumed.stderr


def test_wrong_options_and_folders_of_a_resumed_sweep_are_refused(quick: Path) -> None:
    assert tacit("sweep", quick, "--out", "sweep").exit_code == 0
    for option in (["--seeds", "2"], ["--set", "protocol.k=2"], ["--seed", "4"], ["--over", "protocol.k=2"], [quick]):
        assert "only --jobs and --paired can be combined with it" in refused(*option, "--resume", "sweep")
    assert "only --jobs and --paired can be combined with it" in refused("--out", "more", "--resume", "sweep")
    (run,) = Path("sweep").glob("000-*")
    assert "holds no sweep.toml; allowed: the folder of a sweep" in refused("--resume", run)
    assert "nowhere: holds no sweep.toml" in refused("--resume", "nowhere")
    asked = Path("sweep/sweep.toml").read_text()
    for text, message in (
        ("file = ", "sweep.toml: not the options of a sweep"),
        ("file = 3", "Expected `str`, got `int`"),
        (asked + "seedz = 3\n", "unknown field `seedz`"),
        (asked.replace(quick.name, "gone.toml"), "gone.toml"),
    ):
        Path("sweep/sweep.toml").write_text(text)
        assert message in refused("--resume", "sweep")
    Path("sweep/sweep.toml").write_text(asked)
    result = (run / "result.json").read_text()
    (run / "result.json").write_text(result[:50])
    assert "result.json: not the result of a run" in refused("--resume", "sweep")
    (run / "result.json").write_text(result.replace('"version": "', '"version": "9'))
    assert re.search(r"of Tacit 9[\d.]+, and this is [\d.]+; begin a new sweep", refused("--resume", "sweep"))
    (run / "result.json").write_text(result)
    quick.write_text(quick.read_text().replace("k = 3", "k = 2"))
    assert "scenario.toml: not what the sweep would run now: protocol would be another" in refused("--resume", "sweep")
    assert tacit("sweep").exit_code == 2 and "FILE-or-NAME is missing" in tacit("sweep").output
