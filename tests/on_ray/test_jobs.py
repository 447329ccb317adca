"""Sweeps and chaos on Ray: the results without Ray, even if nodes are lost, and no files but the caller's."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import tacit
from tacit.scenarios.chaos.campaign import Verdict
from tacit.scenarios.command.main import app
from tacit.scenarios.running import ray_jobs
from tacit.scenarios.running.workers import in_workers
from tests.on_ray.conftest import Nodes
from tests.plugins.conftest import TRAINING
from tests.scenarios.test_sweep_resume import runs_of

pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]

PAILLIER = ["data.limit=100", "protocol.key_bits=512", "protocol.insecure_keys=true"]

DATA = """
import os
import numpy as np
from tacit.protocols.plugins import Dataset, add_dataset

def load():
    assert "RAY_RAYLET_PID" not in os.environ, "a node has not these data"
    points = np.random.default_rng(1).random((60, 8))
    return Dataset("dots", points, (points.sum(1) > 4).astype(np.int64), ("few", "many"))

add_dataset("dots", "dots", load)
"""

SCENARIO = """
plugins = ["mine.py"]
seed = 3
[data]
name = "dots"
clients = 4
labeled = 0.3
[protocol]
hamming = "plaintext"
bits = 64
k = 3
[[fault]]
party = "client/1"
at = "hamming.evaluate"
"""


@pytest.fixture
def dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario whose data set belongs to a plugin, and can be read only in this process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(DATA)
    (tmp_path / "dots.toml").write_text(SCENARIO)
    return tmp_path / "dots.toml"


def files_of(folder: Path) -> dict[str, set[str]]:
    return {path.name: {file.name for file in path.rglob("*")} for path in folder.iterdir() if path.is_dir()}


def test_a_sweep_on_ray_gives_the_same_results(nodes: Nodes, dots: Path) -> None:
    over = {"protocol.k": [2, 4]}
    here = tacit.sweep(dots, over, seeds=3, changes=['engine="inline"'], out="here")
    there = tacit.sweep(dots, over, seeds=3, jobs=f"ray:{nodes.address}", out="there")
    assert [one.outcome for _, one in there] == ["completed"] * 6
    assert [one.trace_hash for _, one in there] == [one.trace_hash for _, one in here]
    assert runs_of("there") == runs_of("here")
    assert files_of(Path("there")) == files_of(Path("here"))
    _, last = there[-1]
    assert last.folder is not None and last.folder.parent == Path("there")
    assert [event.kind for event in tacit.events(last.folder)] == [e.kind for e in tacit.events(here[-1][1].folder)]


def test_a_sweep_survives_a_killed_node(own_nodes: Nodes, tmp_path: Path) -> None:
    scenario = tacit.load("xclp-digits", PAILLIER)

    def watch(done: int, of: int, result: tacit.Result) -> None:
        if done == 1:
            own_nodes.kill_second()

    here = tacit.sweep(scenario, seeds=5, changes=['engine="inline"'], out=tmp_path / "here")
    there = tacit.sweep(scenario, seeds=5, jobs=f"ray:{own_nodes.address}", out=tmp_path / "there", watch=watch)
    assert [one.trace_hash for _, one in there] == [one.trace_hash for _, one in here]
    assert runs_of(tmp_path / "there") == runs_of(tmp_path / "here")


def test_a_sweep_survives_a_frozen_node(own_nodes: Nodes, soon_frozen: None, tmp_path: Path) -> None:
    scenario = tacit.load("xclp-digits", PAILLIER)

    def watch(done: int, of: int, result: tacit.Result) -> None:
        if done == 1:
            own_nodes.freeze_second()

    here = tacit.sweep(scenario, seeds=5, changes=['engine="inline"'], out=tmp_path / "here")
    there = tacit.sweep(scenario, seeds=5, jobs=f"ray:{own_nodes.address}", out=tmp_path / "there", watch=watch)
    assert [one.trace_hash for _, one in there] == [one.trace_hash for _, one in here]
    assert runs_of(tmp_path / "there") == runs_of(tmp_path / "here")


CLOSED = """
import sys
import time

import tacit.sim.ray_cluster

class Slow(tacit.sim.ray_cluster.Cluster):
    def _alive(self):
        time.sleep(0.2)
        print("asks", "on an open connection" if self.ray.is_initialized() else "on a closed connection")
        return super()._alive()

tacit.sim.ray_cluster._ASKING = 0.01
connection = Slow(sys.argv[1])
time.sleep(0.1)
connection.close()
print("closes")
time.sleep(0.5)
"""


def test_a_connection_is_not_closed_during_a_question(nodes: Nodes) -> None:
    ended = subprocess.run([sys.executable, "-c", CLOSED, nodes.address], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr  # Ray ends a process that asks on a closed connection
    *asked, last = ended.stdout.splitlines()
    assert (set(asked), last) == ({"asks on an open connection"}, "closes")


STUCK = """
import os
import time
from tacit.protocols.plugins import ServerUpdate, add_server_update

class Half(ServerUpdate):
    def step(self, state, model, mean):
        return (model + mean) / 2, ()

class Stuck(Half):
    def step(self, state, model, mean):
        while "RAY_RAYLET_PID" in os.environ:
            open({marker!r}, "w").close()
            try:
                time.sleep(1.0)
            except BaseException:
                pass  # not even Ctrl-C ends it
        return super().step(state, model, mean)

add_server_update("half", "half of the way", server=Half())
add_server_update("stuck", "as half, but never on a node of Ray", server=Stuck())
"""


def test_the_folder_of_a_run_that_ignores_interrupts_is_fetched(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_jobs, "_FAREWELL", 3.0)
    marker = tmp_path / "stuck"
    Path("mine.py").write_text(STUCK.format(marker=str(marker)))
    Path("mine.toml").write_text(TRAINING)

    def watch(done: int, of: int, result: tacit.Result) -> None:
        while not marker.exists():
            time.sleep(0.05)
        raise KeyboardInterrupt

    over, jobs = {"training.update": ["half", "stuck"]}, f"ray:{nodes.address}"
    given_up = r"given up: on the node \S+ \(\S+\) it did not end within 3 s of its interrupt"
    with (
        pytest.warns(ray_jobs.GivenUpWarning, match=rf"^there/001-training.update=stuck-seed=3: {given_up}$"),
        pytest.raises(KeyboardInterrupt),
    ):
        tacit.sweep("mine.toml", over, jobs=jobs, out="there", watch=watch)
    folder = Path("there", "001-training.update=stuck-seed=3")
    record = json.loads((folder / "result.json").read_text())
    assert record["outcome"] == "interrupted" and re.fullmatch(given_up, record["reason"])
    with closing(sqlite3.connect(folder / "run.sqlite")) as recorded:
        steps = {step for (step,) in recorded.execute("SELECT step FROM events")}
    assert "train.update" in steps, "what it had recorded is there"
    resumed = CliRunner().invoke(app, ["sweep", "--resume", "there", "--jobs", "1"])
    assert resumed.exit_code == 0, resumed.output
    assert [line["outcome"] for line in runs_of("there")] == ["completed"] * 2


def sleep(seconds: float, file: Path) -> None:
    file.write_text(str(os.getpid()))
    time.sleep(seconds)


def test_calls_that_ignore_interrupts_are_named_and_killed(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_jobs, "_FAREWELL", 3.0)
    files = [tmp_path / "short", tmp_path / "long"]
    arguments = [(0.0, files[0]), (1000.0, files[1])]
    calls = in_workers(f"ray:{nodes.address}", sleep, arguments, lambda seconds, file: f"of {seconds:g} s")
    assert next(calls) == (0, None)
    while not (files[1].is_file() and files[1].read_text()):
        time.sleep(0.05)
    with pytest.warns(ray_jobs.GivenUpWarning, match="^of 1000 s: given up: on the node .* within 3 s of its inter"):
        calls.close()
    assert not psutil.pid_exists(int(files[1].read_text()))


def test_chaos_on_ray_has_the_same_findings(nodes: Nodes, dots: Path) -> None:
    def outcome_of(verdict: Verdict) -> tuple[object, ...]:
        return verdict.faults, verdict.outcome, verdict.trace_hash, verdict.broken

    here = tacit.chaos(dots, quick=True, schedules=3, out="here")
    there = tacit.chaos(dots, quick=True, schedules=3, out="there", jobs=f"ray:{nodes.address}")
    assert len(there.verdicts) > 10
    assert [outcome_of(one) for one in there.verdicts] == [outcome_of(one) for one in here.verdicts]


def of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def writes_a_run(worker: psutil.Process) -> bool:
    try:
        return any(Path(file.path).name == "run.sqlite" for file in worker.open_files())
    except psutil.Error:
        return False


@pytest.mark.parametrize("address", ["cluster", "here"])
def test_a_sweep_ended_by_ctrl_c_can_be_resumed(nodes: Nodes, tmp_path: Path, address: str) -> None:
    jobs = f"ray:{nodes.address}" if address == "cluster" else "ray"
    # The second run takes many times as long as the first, so it is under way when the first has ended.
    changes = ["--set", "data.limit=400", "--set", "protocol.insecure_keys=true"]
    command = [sys.executable, "-m", "tacit", "sweep"]
    process = subprocess.Popen(
        [*command, "xclp-digits", *changes, "--over", "protocol.key_bits=512,2048", "--jobs", jobs, "--out", "broken"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.startswith("1/2  000-"), first
    while not any(writes_a_run(worker) for worker in (*nodes.workers, *of(process))):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "resume    tacit sweep --resume broken" in output
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "broken").glob("*/result.json"))]
    ended = [(record["outcome"], record["reason"]) for record in records]
    assert ended == [("completed", ""), ("interrupted", "interrupted by Ctrl-C")]
    resumed = subprocess.run(
        [*command, "--resume", "broken", "--jobs", "1"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert len(runs_of(tmp_path / "broken")) == 2


def test_a_sweep_without_workers_is_reported_in_one_line(without_workers: Nodes, dots: Path) -> None:
    command = [sys.executable, "-m", "tacit", "sweep", str(dots), "--out", "none"]
    done = subprocess.run(
        [*command, "--jobs", f"ray:{without_workers.address}"], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("error: the Ray cluster at ") and "has no worker" in line
    assert Path("none", "sweep.csv").is_file()
