"""A head of Ray and a second node, started here."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

import tacit.sim.ray_cluster

# Before Ray is imported: nothing leaves this machine, and nobody else gives orders to what is started here.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
}  # fmt: skip


class Nodes:
    """A cluster whose head and whose second node have one CPU each, unless the head has another number."""

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
        """End the second node at once, and all that runs there."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def freeze_second(self) -> int:
        """Stop the second node and all that runs there, as when a machine is suspended; returns its raylet's id."""
        second = self._raylets[-1]  # in the order in which they began
        self._freeze(second, *second.children(recursive=True))
        return second.pid

    def freeze_head(self) -> None:
        """Stop the process that knows the nodes."""
        self._freeze(*(one for one in psutil.Process().children() if one.name() == "gcs_server"))

    def _freeze(self, *processes: psutil.Process) -> None:
        for one in processes:
            one.suspend()
            self._frozen.append(one)

    def shutdown(self) -> None:
        """End all that still runs."""
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
    """A cluster for tests that leave it whole."""
    yield from _started()


@pytest.fixture
def own_nodes() -> Iterator[Nodes]:
    """A cluster for one test."""
    yield from _started()


@pytest.fixture
def without_workers() -> Iterator[Nodes]:
    """A cluster that has a head without a CPU, and no other node."""
    yield from _started(0)


@pytest.fixture
def soon_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node counts as frozen after a third of the time: long enough for a busy machine to answer."""
    monkeypatch.setattr(tacit.sim.ray_cluster, "SILENCE", 20.0)
    monkeypatch.setattr(tacit.sim.ray_cluster, "_ASKING", 2.0)


def _started(*cpus: int) -> Iterator[Nodes]:
    pytest.importorskip("ray")
    nodes = Nodes(*cpus)
    yield nodes
    nodes.shutdown()
