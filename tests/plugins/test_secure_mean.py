"""examples/secure_mean.py, loaded by its scenario's `plugins`: a user's protocol, run in several ways."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.runner import run
from tests.chaos.test_lying_server import few

ROOT = Path(__file__).parents[2]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenario's path in a folder outside this tree."""
    for name in ("secure_mean.py", "secure_mean.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "secure_mean.toml"


def tacit(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    return result


def test_secure_mean_runs_in_a_pool_and_from_its_run_folder(example: Path) -> None:
    one, other = (run(load(example), engine=engine) for engine in ("inline", "pool:2"))
    assert one.outcome == "completed" and one.equals_plaintext and not one.unmet, (one.reason, one.unmet)
    assert one.trace_hash == other.trace_hash == run(load(one.folder)).trace_hash


@pytest.mark.long
def test_chaos_tries_a_lying_server_on_the_sum_of_secure_mean(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few programs: `test_lying_server` tries the others on the same sum."""
    few(monkeypatch)
    output = tacit("chaos", "secure_mean.toml", "--server", "--quick", "--schedules", "2", "--jobs", "1").output
    assert "secure in miniature" in output and "min_clients 3" in output


def test_commands_know_keys_steps_and_messages_of_a_plugin(example: Path) -> None:
    assert "secure-mean" in tacit("keys", "--markdown", "--plugin", "secure_mean.py").output
    assert "sum.mask" in tacit("steps", "secure-mean", "--plugin", "secure_mean.py").output
    assert "sum.mask" in tacit("steps", "secure_mean.toml").output
    tacit(
        "run",
        "secure_mean.toml",
        "--set",
        "protocol.column=21",
        "--set",
        "fault=[]",
        "--set",
        "expect={}",
        "--out",
        "run",
    )
    assert "MaskedChunk" in tacit("bytes", "run").output


def test_secure_mean_works_in_workers_of_sweeps_and_in_chaos(example: Path) -> None:
    tacit("sweep", example, "--over", "protocol.column=20,21", "--jobs", 2, "--out", "sweep")
    results = [json.loads(file.read_text()) for file in sorted(Path("sweep").glob("*/result.json"))]
    assert [one["outcome"] for one in results] == ["completed", "completed"]
    here = [run(load(example, [f"protocol.column={column}"])).trace_hash for column in (20, 21)]
    assert sorted(one["trace_hash"] for one in results) == sorted(here)
    assert results[0]["plugins"] == results[1]["plugins"] != []
    tacit("sweep", "--resume", "sweep", "--jobs", 2)
    tacit("chaos", example, "--quick", "--schedules", 2, "--jobs", 1, "--out", "chaos")
    assert not any(one["broken"] for one in json.loads(Path("chaos/chaos.json").read_text())["runs"])
