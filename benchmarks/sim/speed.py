"""The speed of the simulator on one core: messages per second, clients per second, memory per client, start-up.

*Bare* is the loop with its links: tasks that send each other packets over `tacit.sim.link.Link`, with latency,
unlimited bandwidth, and nothing recorded. *Whole* is the layer that protocols use: `Party.send` and `recv` or
`collect`, with every message encoded, framed, hashed into the trace, counted in the ledger, delayed by both parties'
bandwidth and decoded. *Ping-pong* is two parties that answer each other, with one message in flight at any time;
*fan-in* is rounds in which a server sends to 100 clients and collects their answers. In a star, a message between
clients is sent twice and counts once.

They are compared with the same ping-pong over plain asyncio timers (`call_later` into a queue) on this loop, on other
installed virtual-time loops (`looptime`, `async-solipsism`; neither has links, bandwidth or a trace), and with SimPy's
own processes without asyncio.

A rate is the median over the repeats, in messages per second of this process's processor time. For the cost of a client
see `tacit.benchmarks.sim.size`.
"""

import asyncio
import importlib
import statistics
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import simpy

from tacit.benchmarks.measure import described, environment, timed, write_json
from tacit.benchmarks.sim.size import Size, measure_size
from tacit.parties.party import Party
from tacit.parties.playing import play_out
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Quantity, Table
from tacit.sim.compute import CostTable, Free
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.link import Link
from tacit.sim.loop import SimLoop
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["Row", "fan_in", "main", "measure", "waiting"]

_LATENCY = "10ms"
_CLIENTS = 100
_ACCESS: dict[str, Any] = {"up": 2.5e6, "down": 2.5e6}  # bytes per second: 20 Mbit/s
_PAYLOAD = bytes(100)
_DEADLINE = 60.0


@dataclass(frozen=True)
class Row:
    """One measurement: median `rate` and `best`, in messages per second, of `repeats` runs; the `target`, 0 if none."""

    layer: str
    case: str
    messages: int
    repeats: int
    rate: float
    best: float
    target: float


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Measure, print a table, and write it to `json_file`."""
    console = make_console()
    found = environment(("simpy", "msgspec", "numpy", "looptime", "async-solipsism"))
    console.print(described(found) + "; one core")
    rows = measure(messages=2_000 if quick else 20_000, repeats=3 if quick else 7)
    print_table(console, _table(rows))
    sizes = measure_size(fan_in, waiting, quick)
    print_table(console, _size_table(sizes))
    write_json(json_file, environment=found, quick=quick, rows=rows, sizes=sizes)


def measure(messages: int, repeats: int) -> list[Row]:
    """The rows of all cases, each measured `repeats` times with about `messages` messages."""
    cases: list[tuple[str, str, Callable[[int], int], float]] = [
        ("bare", "ping-pong", _bare_ping_pong, 60_000),
        ("bare", f"fan-in of {_CLIENTS}", _bare_fan_in, 60_000),
        ("whole", "ping-pong", _whole_ping_pong, 15_000),
        ("whole", f"fan-in of {_CLIENTS}", _whole_fan_in, 15_000),
        ("whole", "ping-pong of clients in a star", _whole_star, 0),
        ("timers", "ping-pong, this loop", lambda count: _timers(SimLoop, count), 0),
    ]
    for name, make in _other_loops():
        cases.append(("timers", f"ping-pong, {name}", lambda count, make=make: _timers(make, count), 0))  # type: ignore[misc]
    cases.append(("timers", "ping-pong, SimPy's processes", _simpy_ping_pong, 0))
    return [_repeat(layer, case, run, messages, repeats, target) for layer, case, run, target in cases]


def _repeat(layer: str, case: str, run: Callable[[int], int], messages: int, repeats: int, target: float) -> Row:
    sent = run(messages)  # warms up
    rates = [sent / timed(lambda: run(messages)) for _ in range(repeats)]
    return Row(layer, case, sent, repeats, statistics.median(rates), max(rates), target)


def _table(rows: list[Row]) -> Table:
    rates = (
        Column("median", kinds.COUNT, of=lambda row: round(row.rate)),
        Column("best", kinds.COUNT, of=lambda row: round(row.best)),
        Column("target", kinds.COUNT, of=lambda row: round(row.target) or None, missing=""),
    )
    return Table.of(rows, ("layer", "case", *rates), "Messages a second of processor time", grouped=1)


def _size_table(sizes: list[Size]) -> Table:
    def row(size: Size) -> tuple[Any, ...]:
        figures = (Quantity(one, kinds.decimals(2 * (size.unit == "s"))) for one in (size.ours, size.peer))
        return (size.what, size.unit, *figures)

    columns = ("what", "unit", *(Column(name, kinds.FIGURE, missing="") for name in ("Tacit", "SimPy")))
    return Table(columns, map(row, sizes), "What clients cost", grouped=1)


# Bare: the loop and its links


def _run(loop: SimLoop, main: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run(main)
    finally:
        loop.finish()


def _lost(why: str) -> None:
    raise AssertionError(why)


def _link(loop: SimLoop, *names: str) -> Link:
    return Link(loop.env, parse_latency(_LATENCY), 1, names)


def _bare_ping_pong(messages: int) -> int:
    loop = SimLoop()
    there, back = _link(loop, "there"), _link(loop, "back")

    async def main() -> None:
        pings: asyncio.Queue[None] = asyncio.Queue()
        pongs: asyncio.Queue[None] = asyncio.Queue()

        async def answer() -> None:
            for _ in range(messages // 2):
                await pings.get()
                back.send(100, lambda: pongs.put_nowait(None), _lost)

        answering = asyncio.create_task(answer())
        for _ in range(messages // 2):
            there.send(100, lambda: pings.put_nowait(None), _lost)
            await pongs.get()
        await answering

    _run(loop, main())
    return messages // 2 * 2


def _bare_fan_in(messages: int) -> int:
    loop = SimLoop()
    rounds = messages // (2 * _CLIENTS)

    async def main() -> None:
        uploads: asyncio.Queue[int] = asyncio.Queue()
        starts: list[asyncio.Queue[None]] = [asyncio.Queue() for _ in range(_CLIENTS)]

        async def client(number: int) -> None:
            up = _link(loop, "up", str(number))
            for _ in range(rounds):
                await starts[number].get()
                up.send(100, lambda: uploads.put_nowait(number), _lost)

        clients = [asyncio.create_task(client(number)) for number in range(_CLIENTS)]
        downs = [_link(loop, "down", str(number)) for number in range(_CLIENTS)]
        for _ in range(rounds):
            for down, start in zip(downs, starts, strict=True):
                down.send(100, lambda start=start: start.put_nowait(None), _lost)  # type: ignore[misc]
            for _ in range(_CLIENTS):
                await uploads.get()
        for task in clients:
            await task

    _run(loop, main())
    return rounds * 2 * _CLIENTS


# Whole: parties


class Ping(Message):
    """The message of the ping-pong, in both directions."""

    number: int
    values: bytes


class Start(Message):
    """The message of the fan-in from the server to a client."""

    number: int
    values: bytes


class Upload(Message):
    """The message of the fan-in from a client to the server."""

    number: int
    values: bytes


class _Caller(Party):
    def __init__(self, world: World, name: str, peer: str, count: int, *, serves: bool) -> None:
        super().__init__(world, name, **_ACCESS)
        self.peer, self.count, self.serves = peer, count, serves

    async def main(self) -> None:
        if self.serves:
            self.send(self.peer, Ping(0, _PAYLOAD))
        for _ in range(self.count - self.serves):
            ping = await self.recv(Ping, self.peer, _DEADLINE)
            self.send(self.peer, Ping(ping.number + 1, _PAYLOAD))


class _Hub(Party):
    async def main(self) -> None:
        pass


class _Uploader(Party):
    rounds = 0

    async def main(self) -> None:
        for _ in range(self.rounds):
            start = await self.recv(Start, "server", _DEADLINE)
            self.send("server", Upload(start.number, _PAYLOAD))


class _Collector(Party):
    names: tuple[str, ...] = ()
    rounds = 0

    async def main(self) -> None:
        for number in range(self.rounds):
            for name in self.names:
                self.send(name, Start(number, _PAYLOAD))
            collected = await self.collect(Upload, self.names, deadline=_DEADLINE)
            assert not collected.missing


def _world(topology: str) -> World:
    return World(
        1,
        conditions=Conditions(topology, parse_latency(_LATENCY)),
        table=CostTable({}, "", ""),
        cost=Free(),
    )


def _whole_ping_pong(messages: int) -> int:
    world, each = _world("mesh"), messages // 2
    play_out([_Caller(world, "a", "b", each, serves=True), _Caller(world, "b", "a", each, serves=False)])
    return world.ledger.messages


def _whole_star(messages: int) -> int:
    world, each = _world("star"), messages // 2
    callers = [_Caller(world, "a", "b", each, serves=True), _Caller(world, "b", "a", each, serves=False)]
    play_out([*callers, _Hub(world, "server", **_ACCESS)])
    return world.ledger.messages // 2


def _whole_fan_in(messages: int) -> int:
    return fan_in(_CLIENTS, messages // (2 * _CLIENTS))


def fan_in(clients: int, rounds: int) -> int:
    """Run a server that sends to all `clients` and collects their answers, `rounds` times; return the number of
    messages."""
    parties = _gathered(clients, rounds)
    play_out(parties)
    return parties[0].world.ledger.messages


def waiting(clients: int) -> list[Party]:
    """The parties of a world in which `clients` have answered the server once and wait for its next message."""
    parties = _gathered(clients, 2)
    server = parties[0]
    assert isinstance(server, _Collector)
    server.rounds = 1
    world = server.world
    for party in parties:
        party.device.start()

    async def until_answered() -> None:
        while not server.finished:
            await asyncio.sleep(_DEADLINE / 100)

    world.loop.run(until_answered())
    return parties


def _gathered(clients: int, rounds: int) -> list[Party]:
    world = _world("star")
    server = _Collector(world, "server", up=1.25e8, down=1.25e8)
    uploaders = [_Uploader(world, f"client/{number}", **_ACCESS) for number in range(clients)]
    server.names = tuple(client.name for client in uploaders)
    server.rounds = rounds
    for uploader in uploaders:
        uploader.rounds = rounds
    return [server, *uploaders]


# For comparison: timers into a queue, on any loop, and SimPy alone


def _other_loops() -> list[tuple[str, Callable[[], asyncio.AbstractEventLoop]]]:
    """The virtual-time loops of other installed packages."""
    found = []
    for module, name, maker in (
        ("looptime", "looptime", "new_event_loop"),
        ("async_solipsism", "async-solipsism", "EventLoop"),
    ):
        try:
            found.append((name, getattr(importlib.import_module(module), maker)))
        except ImportError:
            continue
    return found


def _timers(make: Callable[[], asyncio.AbstractEventLoop], messages: int) -> int:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        pings: asyncio.Queue[None] = asyncio.Queue()
        pongs: asyncio.Queue[None] = asyncio.Queue()

        async def answer() -> None:
            for _ in range(messages // 2):
                await pings.get()
                loop.call_later(0.01, pongs.put_nowait, None)

        answering = asyncio.create_task(answer())
        for _ in range(messages // 2):
            loop.call_later(0.01, pings.put_nowait, None)
            await pongs.get()
        await answering

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main())
    return messages // 2 * 2


def _simpy_ping_pong(messages: int) -> int:
    env = simpy.Environment()
    pings, pongs = simpy.Store(env), simpy.Store(env)

    def call() -> Any:
        for _ in range(messages // 2):
            yield env.timeout(0.01)
            yield pings.put(None)
            yield pongs.get()

    def answer() -> Any:
        for _ in range(messages // 2):
            yield pings.get()
            yield env.timeout(0.01)
            yield pongs.put(None)

    env.process(call())
    env.process(answer())
    env.run()
    return messages // 2 * 2
