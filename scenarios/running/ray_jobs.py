"""Calls on the nodes of a Ray cluster, which need nothing of this machine's files."""

import pickle
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from msgspec import structs

from protocols.observing.parts import Parts
from scenarios.files.plugins import use_plugins
from scenarios.observing.splits import parts_at_hand, parts_of
from scenarios.schema.scenario import Expect, Scenario
from sim import plugged
from sim.compute import interrupts_held_back
from sim.ray_cluster import (
    ONE_CPU,
    RETRIES,
    Cluster,
    ClusterError,
    carried_out,
    installed,
    line_of,
    outcome_of,
    unfit,
)

__all__ = ["on_ray"]

R = TypeVar("R")

_PATIENCE = 60.0
"""Seconds in which the cluster must have a CPU again."""

_FAREWELL = 60.0
"""Seconds that calls have to end after they were interrupted."""


def on_ray(
    address: str,
    function: Callable[..., R],
    calls: Iterable[tuple[Any, ...]],
    late: Callable[[R], object] = lambda result: None,
) -> Generator[tuple[int, R], None, None]:
    """Make the `calls` of `function` on a cluster; yield the index and the result of each as it ends.

    `address` is as of `Cluster`. There are as many calls at a time as the cluster has CPUs; one whose worker or node is
    lost is made again, three times at most. Of a Scenario among its arguments, data and plugins are sent along.

    If the generator is closed before its end, KeyboardInterrupt is raised in the calls that have begun; what they
    return then is given to `late`. Raises ClusterError.
    """
    cluster = Cluster(address)
    running: dict[Any, int] = {}
    try:
        ray, data = cluster.ray, _Data()
        task = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD", **ONE_CPU)(_call)
        waiting = enumerate(calls)
        seen = time.monotonic()
        while True:
            cpus = cluster.cpus
            while len(running) < 2 * cpus and (call := next(waiting, None)) is not None:
                place, arguments = call
                scenario = next((one for one in arguments if isinstance(one, Scenario)), None)
                parts = scenario and data.of(scenario)
                packed, long = cluster.packed(_with_data, (parts, function, arguments))
                running[task.remote(installed(), plugged.shipped(), packed, *long)] = place
            if not running:
                return
            ended, _ = ray.wait(list(running), timeout=1.0)
            for reference in ended:
                yield running.pop(reference), _result(cluster, reference)
            seen = time.monotonic() if cpus or ended else seen
            if time.monotonic() - seen > _PATIENCE:
                raise ClusterError(f"{cluster.name} has had no worker for {_PATIENCE:g} s")
    finally:
        with interrupts_held_back():
            _end(cluster, list(running), late)
            cluster.close()


def _end(cluster: Cluster, running: list[Any], late: Callable[[Any], object]) -> None:
    """Interrupt the `running` calls."""
    for reference in running:
        cluster.ray.cancel(reference)
    ended, _ = cluster.ray.wait(running, num_returns=len(running), timeout=_FAREWELL) if running else ([], [])
    for reference in ended:
        try:
            found = cluster.ray.get(reference)
        except Exception:  # it had not begun, or its worker is gone
            continue
        late(outcome_of(found))


def _result(cluster: Cluster, reference: Any) -> Any:
    try:
        found = cluster.ray.get(reference)
    except Exception as error:  # what the call raises is an outcome
        raise ClusterError(
            f"{cluster.name} has lost a call {RETRIES + 1} times, the last so: {line_of(error)}"
        ) from None
    return outcome_of(found)


class _Data:
    """The data of scenarios, read here, once for all scenarios that differ in their faults only."""

    def __init__(self) -> None:
        self._key, self._parts = "", Parts.__new__(Parts)

    def of(self, scenario: Scenario) -> Parts:
        use_plugins(scenario)
        key = repr(structs.replace(scenario, fault=(), expect=Expect()))
        if key != self._key:
            self._key, self._parts = key, parts_of(scenario)
        return self._parts


# --- in the worker


def _call(wanted: dict[str, str], modules: plugged.Shipped, packed: bytes, *long: Any) -> bytes:
    problem = unfit(wanted, modules)
    return carried_out(packed, long) if not problem else pickle.dumps((False, (ClusterError(problem), "")))


def _with_data(parts: Parts | None, function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    if parts is None:
        return function(*arguments)
    with parts_at_hand(parts):
        return function(*arguments)
