"""Jobs of a run on Ray: the trace of the inline engine, even if workers and nodes are lost."""

import json
import os
import random
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

import tacit.sim.compute_ray
from tacit import Result, Scenario, Watch, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.running.runner import carry_out
from tacit.sim.compute_ray import Ray
from tacit.sim.ray_cluster import ClusterError
from tacit.sim.trace import Event
from tests.on_ray.conftest import Nodes
from tests.plugins.conftest import TRAINING

ray = pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = pytest.mark.long

PAILLIER = ("data.limit=80", "protocol.bits=256", "protocol.key_bits=512", "protocol.insecure_keys=true")

PLUGIN = """
from tacit.protocols.plugins import ServerUpdate, add_server_update

class Half(ServerUpdate):
    vectors = 1e6  # long enough to be done by a worker

    def step(self, state, model, mean):
        import os
        assert "RAY_RAYLET_PID" in os.environ or {here}
        return (model + mean) / 2, ()

add_server_update("half", "half of the way", server=Half())
"""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load("xclp-digits", PAILLIER)


@pytest.fixture(scope="module")
def inline(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(scenario, engine="inline", out=tmp_path_factory.mktemp("inline") / "run")


class Striking(Watch):
    """A watch that kills a worker, or a node, each time that `every` jobs have begun.

    No worker is struck twice: one that was just killed may still be listed, and then the blow waits for another.
    """

    def __init__(self, nodes: Nodes, every: int, node: bool = False) -> None:
        self._nodes, self._every, self._node = nodes, every, node
        self.struck: set[int] = set()
        self._jobs = 0
        self._due = False

    def __call__(self, event: Event) -> None:
        if event.kind != "compute":
            return
        self._jobs += 1
        self._due = self._due or self._jobs % self._every == 0
        if not self._due:
            return
        if self._node:
            self._nodes.kill_second()
            self._every = 1 << 60
            self.struck.add(0)
            self._due = False
        elif workers := [one for one in self._nodes.workers if one.pid not in self.struck]:
            victim = random.Random(self._jobs).choice(workers)
            self.struck.add(victim.pid)
            victim.kill()
            self._due = False


def test_the_trace_on_ray_equals_that_of_an_inline_run(
    nodes: Nodes, scenario: Scenario, inline: Result, tmp_path: Path
) -> None:
    result = run(scenario, engine=f"ray:{nodes.address}", out=tmp_path / "run")
    assert (result.outcome, result.engine) == ("completed", f"ray:{nodes.address}")
    assert result.trace_hash == inline.trace_hash
    _, alive = psutil.wait_procs(nodes.workers, timeout=10)
    assert not alive


def test_a_run_survives_killed_workers(nodes: Nodes, scenario: Scenario, inline: Result, tmp_path: Path) -> None:
    striking = Striking(nodes, 60)
    result = run(scenario, engine=f"ray:{nodes.address}", out=tmp_path / "run", watch=striking)
    assert (result.outcome, result.trace_hash) == ("completed", inline.trace_hash)
    assert len(striking.struck) >= 2


def test_a_run_survives_a_killed_node(own_nodes: Nodes, scenario: Scenario, inline: Result, tmp_path: Path) -> None:
    striking = Striking(own_nodes, 40, node=True)
    result = run(scenario, engine=f"ray:{own_nodes.address}", out=tmp_path / "run", watch=striking)
    assert (result.outcome, result.trace_hash) == ("completed", inline.trace_hash)
    assert striking.struck


def test_jobs_run_on_both_nodes_with_shared_arguments(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: stored.append(value.nbytes) or put(value))
    engine = Ray(nodes.address)
    try:
        array, text = np.arange(100_000.0), b"x" * 150_000
        sums = [engine.submit(np.add.reduce, (array,)) for _ in range(8)]
        lengths = [engine.submit(len, (text,)) for _ in range(8)]
        copies = engine.submit(np.square, (array, array)).result()
        assert {job.result() for job in sums} == {array.sum()} and {job.result() for job in lengths} == {150_000}
        assert copies.flags.writeable and (copies == np.arange(100_000.0) ** 2).all()
        assert (array == np.arange(100_000.0)).all(), "a worker has a copy"
        assert sorted(stored) == [150_000, 800_000], "what is long is put once"
        while len({job.result() for job in [engine.submit(_parent_later, (0.3,)) for _ in range(4)]}) < 2:
            pass  # until both nodes have run a job
        assert {engine.submit(os.getenv, (name,)).result() for name in tacit.sim.compute.ONE_THREAD} == {"1"}
        with pytest.raises(ZeroDivisionError) as caught:
            engine.submit(divmod, (7, 0)).result()
        assert "carried_out" in str(caught.value.__cause__)
    finally:
        engine.close()


def _parent_later(seconds: float) -> int:
    import time

    time.sleep(seconds)
    return os.getppid()


def test_jobs_of_a_frozen_node_are_moved(own_nodes: Nodes, soon_frozen: None) -> None:
    engine = Ray(own_nodes.address)
    try:
        while len(raylets := {job.result() for job in [engine.submit(_parent_later, (0.3,)) for _ in range(4)]}) < 2:
            pass  # one of the workers has not begun
        jobs = [engine.submit(_parent_later, (3.0,)) for _ in range(4)]
        frozen = own_nodes.freeze_second()
        assert frozen in raylets and {job.result() for job in jobs} == raylets - {frozen}
    finally:
        engine.close()


def test_a_frozen_head_ends_the_jobs_with_an_error(own_nodes: Nodes, soon_frozen: None) -> None:
    engine = Ray(own_nodes.address)
    try:
        assert engine.submit(pow, (6, 2)).result() == 36
        own_nodes.freeze_head()
        with pytest.raises(ClusterError, match=r"is frozen: its head has not answered for 20 s$"):
            engine.submit(_parent_later, (1000.0,)).result()
    finally:
        engine.close()


def test_a_job_that_kills_each_worker_is_given_up(nodes: Nodes) -> None:
    engine = Ray(nodes.address)
    try:
        good = engine.submit(pow, (6, 2))
        bad = engine.submit(signal.raise_signal, (signal.SIGKILL,))
        with pytest.raises(ClusterError, match="the workers of a job were lost 4 times, the last so: "):
            bad.result()
        assert good.result() == 36 and engine.submit(pow, (6, 3)).result() == 216
    finally:
        engine.close()


def test_a_plugin_works_without_its_file_on_the_nodes(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hashes = []
    for engine, here in (("inline", True), (f"ray:{nodes.address}", False)):
        (tmp_path / "mine.py").write_text(PLUGIN.format(here=here))
        (tmp_path / "mine.toml").write_text(TRAINING + 'update = "half"\n')
        loaded = load(tmp_path / "mine.toml", [f'engine="{engine}"'])
        (tmp_path / "mine.py").unlink()
        result = carry_out(loaded, "mine", out=tmp_path / engine.partition(":")[0])
        assert (result.outcome, result.reason) == ("completed", "")
        hashes.append(result.trace_hash)
    assert hashes[0] == hashes[1]


def test_a_node_with_other_packages_is_refused(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tacit.sim.compute_ray, "installed", lambda: {"numpy": "1.0"})
    engine = Ray(nodes.address)
    try:
        with pytest.raises(ClusterError, match=r"cannot be used: the node \S+ has numpy \S+, not 1\.0; install the"):
            engine.submit(pow, (6, 2)).result()
    finally:
        engine.close()


def refused(tmp_path: Path, address: str) -> str:
    """The reason of a failed run, which has left its folder."""
    quick = ("--set", "data.limit=80", "--set", "protocol.hamming=plaintext", "--set", "protocol.bits=64")
    arguments = ("run", "xclp-digits", *quick, "--engine", f"ray:{address}", "--out", str(tmp_path / "run"))
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 1 and "Traceback" not in ended.output
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert record["outcome"] == "failed" and "\n" not in record["reason"]
    return str(record["reason"])


def test_a_head_of_another_ray_version_is_refused(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "__version__", "2.0.0")
    reason = refused(tmp_path, nodes.address)
    assert reason.startswith(f"ClusterError: the Ray cluster at {nodes.address} cannot be used: Version mismatch: ")


def test_a_cluster_without_workers_is_reported(without_workers: Nodes, tmp_path: Path) -> None:
    reason = refused(tmp_path, without_workers.address)
    assert "has no worker: none of its 1 nodes gives a CPU; allowed: ray start without --num-cpus=0" in reason


def test_a_cluster_without_free_cpus_is_reported(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Ray(nodes.address)
    try:
        while len({job.result() for job in [first.submit(_parent_later, (0.3,)) for _ in range(4)]}) < 2:
            pass  # one of the workers has not begun
        monkeypatch.setattr(tacit.sim.compute_ray, "_PATIENCE", 2.0)
        second = Ray(nodes.address)
        try:
            with pytest.raises(ClusterError, match="has had no worker for 2 s: others hold the 2 CPUs"):
                second.submit(pow, (6, 2)).result()
        finally:
            second.close()
    finally:
        first.close()
