"""Calls on the nodes of a Ray cluster, which need no files of this machine."""

import itertools
import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from tacit.protocols.experiment.experiment import Parts
from tacit.scenarios.files.plugins import use_plugins
from tacit.scenarios.files.splits import parts_at_hand, parts_of
from tacit.scenarios.running.folder import Files, packed
from tacit.scenarios.schema.scenario import Expect, Scenario
from tacit.sim import plugged
from tacit.sim.compute import interrupts_held_back
from tacit.sim.ray_cluster import (
    ONE_CPU,
    RETRIES,
    SILENCE,
    Cluster,
    ClusterError,
    carried_out,
    installed,
    line_of,
    outcome_of,
    own_node,
    unfit,
)

__all__ = ["GivenUp", "GivenUpWarning", "note_folder", "on_ray"]

R = TypeVar("R")
T = TypeVar("T")

_PATIENCE = 60.0
"""Seconds to wait until the cluster has a CPU again."""

_FAREWELL = 60.0
"""Seconds within which calls must end after they were interrupted."""

_KILLING = 5.0
"""Seconds within which a killed call must end."""

_FETCHING = 20.0
"""Seconds within which nodes must send the folders of killed calls."""


_NOTES = b"tacit"
"""The namespace, in the store of Ray's head node, of notes in which calls name their node and their folder there."""


class GivenUpWarning(UserWarning):
    """The warning that a run on Ray was given up because it did not end after its interrupt.

    Its line names the run, the place and the reason.
    """


class GivenUp(NamedTuple):
    """A call that did not end after its interrupt: its index (`place`), a `reason` in one line, and the files that it
    left.

    There are no `files` if the call had not noted a folder, or if its node does not answer.
    """

    place: int
    reason: str
    files: Files


@dataclass
class _Call:
    """A call under way: its index, its serialized arguments, the key of its notes, and the number of its nodes that
    froze."""

    index: int
    packed: bytes
    long: list[Any]
    key: str = ""
    lost: int = 0


def on_ray(
    address: str,
    function: Callable[..., R],
    calls: Iterable[tuple[Any, ...]],
    taken: Callable[[R], T],
    given_up: Callable[[GivenUp], object],
) -> Generator[tuple[int, T], None, None]:
    """Make the `calls` of `function` on a cluster; as each ends, yield its index and `taken` of its result.

    `address` is that of `Cluster`. As many calls run at a time as the cluster has CPUs. A call whose worker or node is
    lost, or whose node is frozen, is repeated, three times at most. If a Scenario is among a call's arguments, its data
    and plugins are sent along.

    If the generator is closed before its end, calls that have begun are interrupted inside their `Interruption`. Their
    results are passed to `taken` as well, so that no result is lost at Ctrl-C. Each call that does not end within a
    minute after the interrupt is killed and passed to `given_up`. Raises ClusterError.
    """
    cluster = Cluster(address)
    running: dict[Any, _Call] = {}
    placed = _Placed(cluster, running)
    try:
        data, waiting = _Data(), enumerate(calls)
        seen, silent = time.monotonic(), cluster.silent
        while True:
            cpus = cluster.cpus
            while len(running) < 2 * cpus and (call := next(waiting, None)) is not None:
                place, arguments = call
                scenario = next((one for one in arguments if isinstance(one, Scenario)), None)
                parts = scenario and data.of(scenario)
                placed.begin(_Call(place, *cluster.packed(_with_data, (parts, function, arguments))))
            if not running:
                return
            ended, _ = cluster.ray.wait(list(running), timeout=1.0)
            for reference in ended:
                with interrupts_held_back():
                    place = running.pop(reference).index
                    result = taken(_result(cluster, reference))
                yield place, result
            cluster.check()
            seen = time.monotonic() if cpus or ended else seen
            if time.monotonic() - seen > _PATIENCE:
                raise ClusterError(f"{cluster.name} has had no worker for {_PATIENCE:g} s")
            if (now := cluster.silent) - silent and cluster.cpus:
                placed.move()
                silent = now
            silent &= now
    finally:
        with interrupts_held_back():
            try:
                _end(cluster, running, taken, given_up)
                with suppress(Exception):  # Ray raises many kinds if the head node is gone, with the notes
                    cluster.answered(_forget, placed.keys)
            finally:
                cluster.close()


class _Placed:
    """Makes Ray place calls on the nodes of a cluster; once a node is frozen, on the other nodes in turn.

    The keys of the calls' notes begin with `keys`.
    """

    def __init__(self, cluster: Cluster, running: dict[Any, _Call]) -> None:
        self._cluster, self._running = cluster, running
        self.keys = f"{os.urandom(16).hex()} "
        self._task = cluster.ray.remote(max_retries=RETRIES, **ONE_CPU)(_call)
        self._number = itertools.count()

    def begin(self, call: _Call) -> None:
        """Begin the call, for the first time or again."""
        call.key = f"{self.keys}{next(self._number)}"
        task = self._task.options(scheduling_strategy=self._strategy())
        with interrupts_held_back():
            self._running[task.remote(call.key, installed(), plugged.shipped(), call.packed, *call.long)] = call

    def move(self) -> None:
        """Begin again the calls that are on a frozen node, or may be: Ray would wait for the node before starting them
        elsewhere."""
        for reference, call in list(self._running.items()):
            node, _ = self._cluster.answered(_notes_of, call.key)
            if node and node not in self._cluster.silent:
                continue
            call.lost += bool(node)
            if call.lost > RETRIES:
                problem = f"the nodes of a call were frozen {call.lost} times, silent for {SILENCE:g} s"
                raise ClusterError(f"{self._cluster.name}: {problem}")
            self._cluster.ray.cancel(reference, force=True)
            del self._running[reference]
            self.begin(call)

    def _strategy(self) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        silent = self._cluster.silent
        found = [one for one in self._cluster.nodes if one["NodeID"] not in silent and one["Resources"].get("CPU")]
        if not silent or not found:
            return "SPREAD"
        return NodeAffinitySchedulingStrategy(found[next(self._number) % len(found)]["NodeID"], soft=True)


def _end(
    cluster: Cluster,
    running: dict[Any, _Call],
    taken: Callable[[Any], object],
    given_up: Callable[[GivenUp], object],
) -> None:
    """Interrupt the `running` calls repeatedly, because a call ignores interrupts outside an `Interruption`."""

    def take(left: list[Any], seconds: float) -> list[Any]:
        """Process the results of those `left` that end within `seconds`; return the others."""
        ended, left = cluster.ray.wait(left, num_returns=len(left), timeout=seconds)
        for reference in ended:
            try:
                result = outcome_of(cluster.ray.get(reference))
            except Exception:  # the call had not begun, lost its worker, or failed
                continue
            taken(result)
            del running[reference]
        return left

    until, left = time.monotonic() + _FAREWELL, list(running)
    while left and time.monotonic() < until:
        for reference in left:
            cluster.ray.cancel(reference)
        left = take(left, 1.0)
    for reference in left:
        cluster.ray.cancel(reference, force=True)
    if left:
        take(left, _KILLING)
    late = [running[reference] for reference in left if reference in running]
    try:
        noted = [(call, *cluster.answered(_notes_of, call.key)) for call in late]
    except Exception as error:  # Ray raises many kinds if the head node is frozen or gone
        for call in late:
            given_up(GivenUp(call.index, f"given up: {line_of(error)}", {}))
    else:
        for one in _fetched(cluster, noted):
            given_up(one)


def _fetched(cluster: Cluster, calls: list[tuple[_Call, str, str]]) -> Iterator[GivenUp]:
    """Yield the killed calls that had begun, each with the files in its folder."""
    asked = [cluster.ask(node, _taken_out, folder) if folder else None for _, node, folder in calls]
    wanted = [reference for reference in asked if reference is not None]
    if wanted:
        cluster.ray.wait(wanted, num_returns=len(wanted), timeout=_FETCHING)
    for (call, node, folder), reference in zip(calls, asked, strict=True):
        if not node:
            continue
        files: Files = {}
        with suppress(Exception):  # the node is frozen or gone
            files = {} if reference is None else cluster.ray.get(reference, timeout=0)
        reason = f"given up: on the node {cluster.title(node)} it did not end within {_FAREWELL:g} s of its interrupt"
        if folder and not files:
            reason += ", and what it had recorded could not be fetched"
        yield GivenUp(call.index, reason, files)


def _notes_of(key: str) -> tuple[str, str]:
    """Return the id of the node on which the call with that `key` runs, and its folder there; "" for what is not
    noted."""
    from ray.experimental import internal_kv

    found = internal_kv._internal_kv_get(key, namespace=_NOTES)
    node, _, folder = (found or b"").decode().partition("\n")
    return node, folder


def _forget(keys: str) -> None:
    """Remove the notes whose keys begin with `keys`."""
    from ray.experimental import internal_kv

    internal_kv._internal_kv_del(keys, del_by_prefix=True, namespace=_NOTES)


def _result(cluster: Cluster, reference: Any) -> Any:
    try:
        found = cluster.ray.get(reference)
    except Exception as error:  # an exception of the call itself is part of its outcome
        raise ClusterError(
            f"{cluster.name} has lost a call {RETRIES + 1} times, the last so: {line_of(error)}"
        ) from None
    return outcome_of(found)


class _Data:
    """The data of scenarios, loaded on this machine once for all scenarios that differ only in their faults."""

    def __init__(self) -> None:
        self._key, self._parts = "", Parts.__new__(Parts)

    def of(self, scenario: Scenario) -> Parts:
        use_plugins(scenario)
        key = repr(structs.replace(scenario, fault=(), expect=Expect()))
        if key != self._key:
            self._key, self._parts = key, parts_of(scenario)
        return self._parts


# --- in the worker


_key = ""
"""The key of the notes of the call under way."""


def _call(key: str, wanted: dict[str, str], modules: plugged.Shipped, packed: bytes, *long: Any) -> bytes:
    # Not undone at the end: an interrupt before Ray has fetched the result would lose it.
    signal.signal(signal.SIGINT, _take_no_notice)
    global _key
    _key = key
    _note("")
    problem = unfit(wanted, modules)
    return carried_out(packed, long) if not problem else pickle.dumps((False, (ClusterError(problem), "")))


def note_folder(folder: Path) -> None:
    """Note the `folder` of the call under way, so that its files can be fetched and removed if the call must be
    killed."""
    _note(str(folder))


def _note(folder: str) -> None:
    from ray.experimental import internal_kv

    internal_kv._internal_kv_put(_key, f"{own_node()}\n{folder}", namespace=_NOTES)


def _taken_out(folder: str) -> Files:
    """Remove the folder and return the files in it."""
    files = packed(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)
    return files


def _with_data(parts: Parts | None, function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    if parts is None:
        return function(*arguments)
    with parts_at_hand(parts):
        return function(*arguments)


def _take_no_notice(number: int, frame: FrameType | None) -> None:
    """Ignore the signal. Inside an `Interruption` its handler replaces this one."""
