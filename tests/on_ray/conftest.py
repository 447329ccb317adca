"""A head of Ray and a second node, started here."""

import os
import secrets
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

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

    @property
    def workers(self) -> list[psutil.Process]:
        """The processes that wait for jobs or make calls."""
        found = [one for raylet in self._raylets for one in raylet.children()]
        return [one for one in found if _title(one).startswith(("ray::_Worker", "ray::_call"))]

    @property
    def _raylets(self) -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if one.name() == "raylet"]

    def kill_second(self) -> None:
        """End the second node at once, and all that runs there."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def shutdown(self) -> None:
        """End all that still runs."""
        self._cluster.shutdown()


def _title(process: psutil.Process) -> str:
    """What the process calls itself; "" once it has ended."""
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


def _started(*cpus: int) -> Iterator[Nodes]:
    pytest.importorskip("ray")
    nodes = Nodes(*cpus)
    yield nodes
    nodes.shutdown()
