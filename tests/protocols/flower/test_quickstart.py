"""The app in examples/: its scenarios end as they expect, and every command of Tacit works on its runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app as command
from tacit.scenarios.files.reading import load, read
from tacit.scenarios.running.folder import read_result
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.runner import carry_out, exit_code
from tacit.scenarios.schema.scenario import Scenario, ScenarioError

pytest.importorskip("flwr")

QUICKSTART = Path(__file__).parents[3] / "examples" / "flower-quickstart"
FEW = ["engine=inline", "protocol.run_config='num-server-rounds=2'"]


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", ["healthy", "dropout", "flaky-4g"])
def test_each_quickstart_scenario_meets_its_expectations(name: str, tmp_path: Path) -> None:
    scenario = load(QUICKSTART / f"{name}.toml", ["engine=inline"])
    result = carry_out(scenario, name, out=tmp_path / name)
    assert exit_code(result, scenario.expect) == 0, result.unmet
    assert result.accuracy is not None and result.accuracy > 0.85
    assert len(result.round_records) == 5


def few(*changes: str) -> Scenario:
    return load(QUICKSTART / "healthy.toml", [*FEW, *changes])


def test_a_run_is_predicted_to_the_last_byte(tmp_path: Path) -> None:
    slow = ["network.bandwidth=200kbit/s", "protocol.train_time=7s", "network.transport=tcp", "network.loss=0.01"]
    found = predict_run(few(*slow))
    result = carry_out(few(*slow), "second", out=tmp_path / "second")
    assert sum(row.total for row in found.rows) == result.bytes_total
    assert found.virtual_seconds == pytest.approx(result.virtual_seconds, rel=1e-9)


def test_bytes_report_and_other_commands_work_with_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rounds = ("--run-config", "num-server-rounds=1", "--engine", "inline")
    ran = tacit("flower", QUICKSTART, "--clients", "3", *rounds, "--out", "one")
    assert ran.exit_code == 0 and "completed" in ran.output
    over = tacit("flower", QUICKSTART, "--scenario", QUICKSTART / "dropout.toml", *rounds, "--out", "two")
    assert over.exit_code == 1 and "NOT AS EXPECTED" in over.output  # the faults strike in later rounds
    for arguments in (("bytes", "one"), ("events", "two"), ("compare", "one", "two"), ("report", "one")):
        done = tacit(*arguments)
        assert done.exit_code == 0, (arguments, done.output)
    assert "AppReply" in tacit("bytes", "one").output
    assert (tmp_path / "one" / "report.html").stat().st_size > 10_000


def test_settings_of_the_app_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    over = "protocol.run_config=num-server-rounds=1 learning-rate=0.01,num-server-rounds=1 learning-rate=0.5"
    done = tacit("sweep", QUICKSTART / "healthy.toml", "--over", over, "--set", "engine=inline", "--out", "sweep")
    assert done.exit_code == 0, done.output
    assert "learning-rate=0.01" in done.output and "learning-rate=0.5" in done.output


def test_a_missing_app_or_wrong_setting_is_reported_in_one_line() -> None:
    for arguments, problem in (
        (("nowhere",), "error: nowhere: there is no such folder or file"),
        ((QUICKSTART, "--run-config", "rounds=1"), "error: --run-config: protocol.run_config: rounds is no setting"),
    ):
        done = CliRunner().invoke(command, ["flower", *map(str, arguments)])
        assert done.exit_code == 2
        assert problem in done.output and "Traceback" not in done.output


def test_without_flower_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.parties.learning.extras.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ScenarioError, match=r'pip install "tacit-fl\[flower\]"'):
        few()


@pytest.mark.long
def test_pool_and_inline_and_three_hash_seeds_have_one_trace(tmp_path: Path) -> None:
    inline = carry_out(few(), "inline", out=tmp_path / "inline")
    pool = structs.replace(few(), engine="pool:2")
    assert carry_out(pool, "pool", out=tmp_path / "pool").trace_hash == inline.trace_hash
    for number in ("1", "2", "3"):
        out = tmp_path / number
        line = [
            sys.executable,
            "-c",
            "from tacit.__main__ import main; main()",
            "run",
            QUICKSTART / "healthy.toml",
        ]
        options = ["--out", out, "--set", FEW[1], "--engine", "inline"]
        subprocess.run([*line, *options], env=os.environ | {"PYTHONHASHSEED": number}, check=True)
        assert read_result(out).trace_hash == inline.trace_hash


def test_a_scenario_names_its_app_by_the_absolute_path() -> None:
    assert read(QUICKSTART / "healthy.toml").scenario.protocol.app == str(QUICKSTART)  # type: ignore[attr-defined]
