"""A server that repeats its requests: at most one noisy answer to a request may leave a client.

The parties are those of the scenario, with few points. The server runs its whole production program once, and then once
or twice again: as higher attempts of the same rounds, or as later rounds. Clients have stayed up, or have crashed at a
step, as if their connection were cut, and come back. Before each repetition the server's memory of its rounds is reset.

A draw is the result of a job that adds noise to data (`_DRAWS`). It has left the client once the client sends a message
of the step that carries it. All draws for one request (a sum of private cells; the hashes, answers or model of a round)
must be equal.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
from msgspec import Struct, structs

from tacit.parties.life import Present
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Dismissed
from tacit.parties.waiting import type_names
from tacit.protocols.outcome import Abort
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import RoundsClient, RoundsServer
from tacit.protocols.values import BadValues
from tacit.scenarios.files.fault_checks import steps_of
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Crash
from tacit.sim.taps import Taps
from tacit.sim.wire import Packet

__all__ = ["Asking", "NoiseTrial", "ask", "askings", "has_noise"]

_DRAWS = {
    "cells.add": "sum.mask",
    "lsh.hash": "hamming.",
    "cotrain.predict": "cotrain.predict",
    "train.update": "sum.mask",
    "sum.mask": "sum.mask",
}
"""Maps each job with noise to a prefix of the name of the step in which its result is sent."""

_POINTS = 20  # points of a client
_AWAY, _LONG = "1s", 30.0  # seconds: how long a client is away, and until the server asks again
_ABOVE = 1000  # a step between attempt numbers that is larger than any number of attempts
_KEPT = ("channels", "incarnations", "clients", "observers", "model", "enrolled")  # when the server asks again
_NO_REQUESTS = {Dismissed.__name__, *type_names(RoundsClient.other)}  # for no part of a round
_NEVER = "no repeated request reached a client: nothing was tried"


class Asking(Struct, frozen=True):
    """A way to repeat requests: `again` times, `later` for later rounds; `at`: the step before which clients crash, or
    ""."""

    again: int = 1
    later: bool = False
    at: str = ""

    def __str__(self) -> str:
        how = f"asks again {self.again} time{'s' * (self.again > 1)}{', as later rounds' * self.later}"
        return how + (f", after clients have failed at {self.at}" if self.at else "")


class NoiseTrial(Struct, frozen=True):
    """The result of an `asking`: the number of `draws` that left clients, the clients with two draws for one request
    (`twice`), and the `failure` of a client's program, if any, or of the trial. `again`: the number of repeated
    requests that reached clients; without any the trial has failed."""

    asking: Asking
    draws: int
    twice: tuple[str, ...]
    failure: str = ""
    again: int = 0


def has_noise(scenario: Scenario) -> bool:
    """Return true if clients add noise to their data for each request."""
    hashed = scenario.privacy.hash_epsilon != "none" and "lsh.hash" in steps_of(scenario, ("client",))
    return hashed or PROTOCOLS[scenario.protocol.name].draws_noise(scenario)


def askings(scenario: Scenario, quick: bool = False) -> Iterator[Asking]:
    """Yield all ways to repeat, also with crashes of clients at each of their steps; `quick`: at every third step."""
    yield from (Asking(), Asking(2), Asking(later=True))
    steps = steps_of(scenario, ("client",))
    yield from (Asking(at=step) for step in (steps[::3] if quick else steps))


def ask(scenario: Scenario, asking: Asking) -> NoiseTrial:
    """The trial of `asking` in a run of `scenario` with few points.

    Raises the server's exception if its program fails.
    """
    count = scenario.data.clients
    fails = (Crash(f"client/{j}", at=asking.at, back_after=_AWAY) for j in range(count))
    much = {key: 1.0 for key in ("epsilon", "hash_epsilon") if getattr(scenario.privacy, key) != "none"}
    small = structs.replace(
        scenario,
        privacy=structs.replace(scenario.privacy, **much),  # enough noise that two draws are never equal
        entropy="os",
        engine="inline",
        data=structs.replace(scenario.data, limit=_POINTS * count),
        protocol=structs.replace(scenario.protocol, key_bits=512),
        fault=tuple(fails) if asking.at else (),
    )
    taps = Taps()
    simulation = Simulation(small, engine="inline", taps=taps)
    seen = _Draws(simulation._parties)
    taps.computed.append(seen.computed)
    taps.sent.append(seen.sent)
    server, failure, requests = simulation.server, "", _Requests()
    taps.delivered.append(requests.delivered)
    server.observers.clear()
    _let_ask_again(server, asking, simulation.round[1], requests)
    try:
        simulation._experiment.plan()
        simulation._world.loop.run(play(simulation._parties, server))
    except Exception as error:
        if server.failure is not None:
            raise
        failure = f"{type(error).__name__}: {error}"
    finally:
        simulation.close()
    twice = sorted({party for (party, *_), contents in seen.left.items() if len(contents) > 1})
    if not requests.again and not failure:
        failure = _NEVER
    return NoiseTrial(asking, sum(map(len, seen.left.values())), tuple(twice), failure, requests.again)


class _Draws:
    """Records the digests of the draws that have `left` clients, by client and request."""

    def __init__(self, parties: Any) -> None:
        self._parties = Present(parties)
        self._pending: dict[str, tuple[int, str, tuple[Any, ...], bytes]] = {}
        self.left: dict[tuple[Any, ...], set[bytes]] = {}

    def computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step not in _DRAWS or party == "server":
            return
        content = result[-1 if step == "lsh.hash" else 0] if isinstance(result, tuple) else result
        data = content.tobytes() if isinstance(content, np.ndarray) else content
        if not isinstance(data, bytes):
            return  # another job of the same step, without noise
        who = self._parties[party]
        number = next(one for one in arguments if isinstance(one, int)) if step == "cells.add" else who.round
        digest = hashlib.sha256(data).digest()
        self._pending[party] = who.incarnation, _DRAWS[step], (party, step, number), digest

    def sent(self, packet: Packet) -> None:
        incarnation, carrying, question, digest = self._pending.get(packet.sender, (0, "", (), b""))
        if question and packet.incarnation == incarnation and packet.step.startswith(carrying):
            self.left.setdefault(question, set()).add(digest)


class _Requests:
    """Counts the requests of the server that clients get `again`: those of the types that it sent the first time."""

    def __init__(self) -> None:
        self._types: set[str] = set()
        self.repeats, self.again = False, 0

    def delivered(self, time: float, packet: Packet) -> None:
        if packet.sender == "server" and packet.type not in _NO_REQUESTS:
            if self.repeats:
                self.again += packet.type in self._types
            else:
                self._types.add(packet.type)


def _let_ask_again(server: Any, asking: Asking, rounds: int, requests: _Requests) -> None:
    """Make `server` repeat its program as `asking` defines; an honest one would stop itself, at the latest where the
    budget is spent."""
    program, advance = server.main, server.advance
    server.standstill = lambda number: ""
    times = 0

    def lying(number: int, attempt: int) -> None:
        number += rounds if asking.later and times and number <= rounds else 0
        advance(number, attempt + (_ABOVE * times if attempt < _ABOVE * times else 0))

    async def main() -> None:
        nonlocal times
        first = {name: copy(value) for name, value in vars(server).items() if _is_remembered(name, value)}
        while times <= asking.again:
            with suppress(Abort, NoAnswer, BadValues):
                await program()
            await server.world.loop.hold(_LONG)
            vars(server).update({name: copy(value) for name, value in first.items()})
            for name in [name for name in vars(server) if name not in first and _is_of_class(server, name)]:
                delattr(server, name)
            server.disk.clear()
            requests.repeats = True
            if isinstance(server, RoundsServer) and not (asking.at or asking.later):
                server.ended = rounds - 1  # clients that stayed up accept no earlier round
            server.round, server.attempt = server._mailbox.stamp = 0, 0
            times += 1

    server.main, server.advance = main, lying


def _is_of_class(server: Any, name: str) -> bool:
    """Return true if an attribute of `server` begins as its class has it, and is memory of rounds."""
    return name[0] != "_" and _is_remembered(name, getattr(type(server), name, ...))


def _is_remembered(name: str, value: Any) -> bool:
    """Return true if an attribute of a server is its memory of rounds, not part of its process."""
    plain = isinstance(value, int | float | str | bytes | tuple | list | dict | set) or value is None
    return plain and name[0] != "_" and name not in _KEPT
