"""Calls on the nodes of a Ray cluster, which need nothing of this machine's files."""

import pickle
import signal
import time
from collections.abc import Callable, Generator, Iterable
from types import FrameType
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
T = TypeVar("T")

_PATIENCE = 60.0
"""Seconds in which the cluster must have a CPU again."""

_FAREWELL = 60.0
"""Seconds that calls have to end after they were interrupted."""


def on_ray(
    address: str,
    function: Callable[..., R],
    calls: Iterable[tuple[Any, ...]],
    taken: Callable[[R], T],
) -> Generator[tuple[int, T], None, None]:
    """Make the `calls` of `function` on a cluster; as each ends yield its index and what `taken` makes of its result.

    `address` is as of `Cluster`. There are as many calls at a time as the cluster has CPUs; one whose worker or node is
    lost is made again, three times at most. Of a Scenario among its arguments, data and plugins are sent along.

    If the generator is closed before its end, calls that have begun are interrupted, in what they do in an
    `Interruption`, and what they return then is given to `taken` as well: whatever ends well is taken, wherever Ctrl-C
    strikes. Raises ClusterError.
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
                with interrupts_held_back():
                    running[task.remote(installed(), plugged.shipped(), packed, *long)] = place
            if not running:
                return
            ended, _ = ray.wait(list(running), timeout=1.0)
            for reference in ended:
                with interrupts_held_back():
                    place = running.pop(reference)
                    result = taken(_result(cluster, reference))
                yield place, result
            seen = time.monotonic() if cpus or ended else seen
            if time.monotonic() - seen > _PATIENCE:
                raise ClusterError(f"{cluster.name} has had no worker for {_PATIENCE:g} s")
    finally:
        with interrupts_held_back():
            try:
                _end(cluster, list(running), taken)
            finally:
                cluster.close()


def _end(cluster: Cluster, running: list[Any], taken: Callable[[Any], object]) -> None:
    """Interrupt the `running` calls, again and again: outside an `Interruption` a call takes no notice."""
    until = time.monotonic() + _FAREWELL
    while running and time.monotonic() < until:
        for reference in running:
            cluster.ray.cancel(reference)
        ended, running = cluster.ray.wait(running, num_returns=len(running), timeout=1.0)
        for reference in ended:
            try:
                result = outcome_of(cluster.ray.get(reference))
            except Exception:  # it had not begun, its worker is gone, or it failed
                continue
            taken(result)


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
    # For good: what comes of the call is lost if Ray's interrupt is raised before Ray has it, which is after the end.
    signal.signal(signal.SIGINT, _take_no_notice)
    problem = unfit(wanted, modules)
    return carried_out(packed, long) if not problem else pickle.dumps((False, (ClusterError(problem), "")))


def _with_data(parts: Parts | None, function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    if parts is None:
        return function(*arguments)
    with parts_at_hand(parts):
        return function(*arguments)


def _take_no_notice(number: int, frame: FrameType | None) -> None:
    """An `Interruption` does, for as long as it lasts; else it is for nobody."""
