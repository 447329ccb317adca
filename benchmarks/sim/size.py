"""Costs of clients in the simulator: clients per second, memory per client, and the time to start.

*Clients per second*: a world with this number of clients is made, the server sends each a message and collects their
answers; per second of processor time, including everything. *Memory per client*: the memory that Python has allocated
(tracemalloc) for a waiting client, with its links, its endpoint and its task; and for a sealed channel to another
client, before and after it has carried a message in each direction. Memory that C libraries allocate for ciphers is not
included. *Start-up*: processor seconds of a fresh interpreter that imports the simulator, plays one exchange between a
server and a client, and ends.

The peer is SimPy alone, with a process and a store for each client, which exchange the same number of items after the
same delay: no bytes, links, trace or deadlines.
"""

import gc
import statistics
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from tacit.benchmarks.measure import timed
from tacit.parties.party import Party
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.sealing import PairChannel

__all__ = ["Size", "measure_size"]

_DELAY = 0.01
_START = """
import resource
{code}
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
_OURS = "from tacit.benchmarks.sim.speed import fan_in; fan_in(1, 1)"
_THEIRS = "import simpy; env = simpy.Environment(); env.run(env.timeout(1))"


@dataclass(frozen=True)
class Size:
    """One figure: `ours` and the `peer`'s (None if it has no such thing), in `unit`."""

    what: str
    unit: str
    ours: float
    peer: float | None


def measure_size(
    fan_in: Callable[[int, int], int], waiting: Callable[[int], Sequence[Party]], quick: bool
) -> list[Size]:
    """The figures. `fan_in` plays a number of rounds with a number of clients; `waiting` makes waiting clients."""
    clients, repeats = (200, 3) if quick else (2000, 5)
    rate = _rate(lambda: fan_in(clients, 1), clients, repeats)
    peer_rate = _rate(lambda: simpy_fan_in(clients), clients, repeats)
    fresh, used = _channel_bytes(clients)
    memory, peer_memory = _bytes_each(waiting, clients, _end), _bytes_each(_simpy_waiting, clients)
    return [
        Size(f"clients a second, {clients:,} clients", "1/s", rate, peer_rate),
        Size("memory of a client that waits", "B", memory, peer_memory),
        Size("memory of a sealed channel, new", "B", fresh, None),
        Size("memory of a sealed channel, used once each way", "B", used, None),
        Size("start-up, in a fresh interpreter", "s", _start_up(_OURS, repeats), _start_up(_THEIRS, repeats)),
    ]


def _rate(action: Callable[[], object], clients: int, repeats: int) -> float:
    action()  # warms up
    return statistics.median(clients / timed(action) for _ in range(repeats))


def _bytes_each(make: Callable[[int], Any], clients: int, end: Callable[[Any], object] = id) -> float:
    end(make(2))  # objects made only once do not count for a client
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = make(clients)
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / clients
        end(kept)
        return each
    finally:
        tracemalloc.stop()


def _end(parties: Sequence[Party]) -> None:
    parties[0].world.loop.finish()


def _channel_bytes(count: int) -> tuple[float, float]:
    """The bytes of one end of a channel with its secret: new, and after a message in each direction."""

    def make(used: bool) -> list[PairChannel]:
        ends = []
        for number in range(count):
            secret = SharedSecret(number.to_bytes(32, "big"), bytes(16), 1, ("a#1", "b#1"))
            lower, higher = PairChannel(secret, lower=True), PairChannel(secret, lower=False)
            if used:
                lower.open(higher.seal(b"text", b""), b"")
                lower.seal(b"text", b"")
            ends.append(lower)
        return ends

    return _bytes_each(lambda _: make(False), count), _bytes_each(lambda _: make(True), count)


def _start_up(code: str, repeats: int) -> float:
    command = [sys.executable, "-c", _START.format(code=code)]
    return statistics.median(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(repeats)
    )


# SimPy alone


def simpy_fan_in(clients: int) -> int:
    """Run a process that puts an item into each client's store and gets an answer from each; return the number of
    items."""
    env = simpy.Environment()
    answers = simpy.Store(env)
    starts = [simpy.Store(env) for _ in range(clients)]

    def client(number: int) -> Any:
        item = yield starts[number].get()
        yield env.timeout(_DELAY)
        yield answers.put(item)

    def server() -> Any:
        yield env.timeout(_DELAY)
        for start in starts:
            yield start.put(None)
        for _ in starts:
            yield answers.get()

    for number in range(clients):
        env.process(client(number))
    env.process(server())
    env.run()
    return 2 * clients


def _simpy_waiting(clients: int) -> Any:
    env = simpy.Environment()
    stores = [simpy.Store(env) for _ in range(clients)]

    def client(number: int) -> Any:
        yield stores[number].get()

    processes = [env.process(client(number)) for number in range(clients)]
    env.run()
    return env, stores, processes
