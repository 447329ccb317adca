"""A run that never ends: `--limit` ends it as failed, names its place, and leaves a complete folder."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tacit
from tacit.scenarios.command.main import app
from tacit.scenarios.running.interruption import LimitReached
from tests.plugins.conftest import TRAINING

PLUGIN = """
import time
from tacit.protocols.plugins import ServerUpdate, add_server_update

class Stuck(ServerUpdate):
    vectors = {vectors}

    def step(self, state, model, mean):
        {body}
        return mean, ()

add_server_update("stuck", "a step without an end", server=Stuck())
"""

SLEEPS = "while True: time.sleep(1000)"
LOOPS = "while True: pass"
CATCHES = """try:
            time.sleep(1000)
        except BaseException:
            while True: pass"""


def write_scenario(folder: Path, body: str, vectors: float = 1.0) -> Path:
    """A scenario whose server executes `body` in its first step."""
    (folder / "mine.py").write_text(PLUGIN.format(body=body, vectors=vectors))
    (folder / "mine.toml").write_text(TRAINING + 'update = "stuck"\n')
    return folder / "mine.toml"


@pytest.mark.parametrize(("body", "line"), [(SLEEPS, 9), (LOOPS, 9), (CATCHES, 10)])
def test_an_endless_plugin_is_ended_at_the_limit_and_named(body: str, line: int, tmp_path: Path) -> None:
    path = write_scenario(tmp_path, body)
    ended = CliRunner().invoke(app, ["run", str(path), "--limit", "500ms", "--out", str(tmp_path / "run")])
    assert ended.exit_code == 1 and "Traceback" not in ended.output
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert record["outcome"] == "failed"
    where = f"server in train.average, at {tmp_path / 'mine.py'}, line {line}"
    assert record["reason"] == f"the run was not over after 500 ms, its --limit: {where}"
    assert tacit.bytes(tmp_path / "run"), "its record is whole"
    assert tacit.events(tmp_path / "run")
    assert "mine.py" in (tmp_path / "run" / "failure.txt").read_text()


def test_an_endless_job_of_a_pool_is_named_at_the_limit(tmp_path: Path) -> None:
    path = write_scenario(tmp_path, SLEEPS, vectors=1e6)
    result = tacit.run(path, engine="pool:1", out=tmp_path / "run", limit=4)
    assert result.outcome == "failed" and isinstance(result.error, LimitReached)
    assert "server in train.average, in the job " in result.reason


def test_a_run_within_its_limit_has_the_trace_of_a_run_without_limit(tmp_path: Path) -> None:
    path = write_scenario(tmp_path, "pass")
    with_limit = tacit.run(path, out=tmp_path / "with", limit=100.0)
    without = tacit.run(path, out=tmp_path / "without")
    assert (with_limit.outcome, with_limit.trace_hash) == ("completed", without.trace_hash)


@pytest.mark.parametrize("limit", ["0", "soon", "-1s"])
def test_an_invalid_limit_is_refused(limit: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["run", str(write_scenario(tmp_path, "pass")), f"--limit={limit}"])
    assert ended.exit_code == 2
    with pytest.raises(ValueError, match="limit is 0; allowed: seconds > 0"):
        tacit.run(write_scenario(tmp_path, "pass"), limit=0)
