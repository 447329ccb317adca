"""A head of Ray and a second node, started for the tests."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

import tacit.sim.ray_cluster

# Set before Ray is imported: no usage reports, and access from this machine only.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
}  # fmt: skip


@pytest.fixture(scope="module")
def nothing_left_by_fixtures() -> None:
    """Nothing: Ray sets variables and handlers of signals, and leaves them."""


class Nodes:
    """A cluster whose head and second node have one CPU each, unless another number is given for the head."""

    def __init__(self, head_cpus: int = 1) -> None:
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(
            initialize_head=True, head_node_args={"num_cpus": head_cpus, "include_dashboard": False}
        )
        self._second: Any = self._cluster.add_node(num_cpus=1) if head_cpus else None
        self.address: str = self._cluster.address
        self._frozen: list[psutil.Process] = []

    @property
    def workers(self) -> list[psutil.Process]:
        """The processes that wait for jobs or make calls."""
        found = [one for raylet in self._raylets for one in raylet.children()]
        return [one for one in found if _title(one).startswith(("ray::_Worker", "ray::_call"))]

    @property
    def _raylets(self) -> list[psutil.Process]:
        found = [one for one in psutil.Process().children() if one.name() == "raylet"]
        return sorted(found, key=psutil.Process.create_time)

    def kill_second(self) -> None:
        """Kill the second node and all its processes."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def freeze_second(self) -> int:
        """Stop the second node and all its processes, like a suspended machine; return its raylet's id."""
        second = self._raylets[-1]  # raylets are in the order of their start
        self._freeze(second, *second.children(recursive=True))
        return second.pid

    def freeze_head(self) -> None:
        """Stop the process that keeps the list of nodes."""
        self._freeze(*(one for one in psutil.Process().children() if one.name() == "gcs_server"))

    def _freeze(self, *processes: psutil.Process) -> None:
        for one in processes:
            one.suspend()
            self._frozen.append(one)

    def shutdown(self) -> None:
        """End all processes that still run."""
        for one in self._frozen:
            with suppress(psutil.NoSuchProcess):
                one.resume()
        import ray

        until = time.monotonic() + 30.0
        while ray.is_initialized() and time.monotonic() < until:
            time.sleep(0.1)  # a connection to a frozen head is closed once the head thaws
        ray.shutdown()
        self._cluster.shutdown()


def _title(process: psutil.Process) -> str:
    """The title of a process; "" once it has ended."""
    try:
        return "".join(process.cmdline()[:1])
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A shared cluster for tests that do not damage it."""
    yield from _started()


@pytest.fixture
def own_nodes() -> Iterator[Nodes]:
    """A cluster for one test."""
    yield from _started()


@pytest.fixture
def without_workers() -> Iterator[Nodes]:
    """A cluster of only a head, without a CPU."""
    yield from _started(0)


@pytest.fixture
def soon_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a node count as frozen after a third of the usual time, still long enough for a busy machine to answer."""
    monkeypatch.setattr(tacit.sim.ray_cluster, "SILENCE", 20.0)
    monkeypatch.setattr(tacit.sim.ray_cluster, "_ASKING", 2.0)


def _started(*cpus: int) -> Iterator[Nodes]:
    pytest.importorskip("ray")
    nodes = Nodes(*cpus)
    yield nodes
    nodes.shutdown()
