"""Whole runs in which one party once sends an impossible message: they end, with a stated outcome and without a
traceback.

A message is replaced by one of the same type with other contents: byte strings too short and too long, numbers out of
range, names of no party. It is well encoded, and sealed if necessary, so that it reaches the protocol. Other parties
may continue without that party, or stop; a traceback, a deadlock and endless waiting are errors.
"""

import functools
import importlib
import itertools
import pkgutil
import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import inspect as types

from tacit import protocols
from tacit.parties.data.splits import Shard
from tacit.parties.party import Party
from tacit.parties.playing import play
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.xclp.hamming import Hamming
from tacit.protocols.xclp.hamming_direct import DirectHamming
from tacit.protocols.xclp.hamming_iknp import IknpHamming
from tacit.protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from tacit.protocols.xclp.hamming_paillier import PaillierHamming
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.lsh import distances
from tacit.protocols.xclp.rowsums import Restart
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from tacit.sim.compute import Free
from tacit.sim.trace import Event
from tacit.sim.wire import Message
from tacit.sim.world import World
from tests.transfers import computed_once

BITS = 8
MOST_EVENTS = 20_000  # an honest run takes some hundred
DEADLINE = 10.0

VARIANTS: dict[str, Callable[[], Hamming]] = {
    "plaintext": lambda: PlaintextHamming(BITS),
    "paillier": lambda: PaillierHamming(BITS, 512, insecure=True),
    "iknp": lambda: IknpHamming(BITS, find_group("p256")),
    "naor-pinkas": lambda: NaorPinkasHamming(BITS, find_group("p256")),
    "direct": lambda: DirectHamming(BITS),
}
RECOVERIES = {"restart": Restart, "secure": Shamir}


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit memory to 2 GiB above the present use, so that allocating a merely claimed size raises MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Endless(Exception):
    """A run has taken more events than any honest run of its size."""


@dataclass
class Run:
    """A run of four clients with a few points each. `tamper(sender, receiver, message)` returns the message to send
    instead."""

    variant: str = "plaintext"
    recovery: str = "restart"
    tamper: Callable[[str, str, Message], Iterable[Message]] = lambda sender, receiver, message: (message,)
    events: list[Event] = field(default_factory=list)
    sent: list[tuple[str, type[Message]]] = field(default_factory=list)

    def play(self) -> "Run":
        world = World(1, cost=Free(), sinks=[self._count])
        coins = np.random.default_rng(1)
        variant, recovery = VARIANTS[self.variant](), RECOVERIES[self.recovery]()
        parameters = Parameters(variant, 4, 2, recovery, bits=BITS, k=2, min_clients=2, deadline=DEADLINE)
        self.clients = []
        for i in range(4):
            labels = np.array([0, 1])[: 2 if i else 1]
            features = coins.normal(size=(len(labels), 3))
            shard = Shard(features, labels, np.arange(len(labels)) == 0, np.arange(len(labels)))
            self.clients.append(XclpClient(world, f"client/{i}", shard, parameters))
        self.server = XclpServer(world, tuple(client.name for client in self.clients), parameters)
        for party in (self.server, *self.clients):
            self._watch(party)
        try:
            with computed_once():
                world.loop.run(play([self.server, *self.clients], self.server))
        finally:
            world.loop.finish()
        return self

    def is_right(self) -> bool:
        """True if the server's distances, if it has any, are those between the bits of the members."""
        record = self.server.record
        if not len(record.h):
            return True
        bits = [client.bits_of_round for name in record.members for client in self.clients if client.name == name]
        together = np.concatenate(bits)
        return np.array_equal(record.h, distances(together, together))

    def _count(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > MOST_EVENTS:
            raise Endless(f"{len(self.events)} events, the last at {event.time:g} s")

    def _watch(self, party: Party) -> None:
        send = party.send

        def tampered(receiver: str, message: Message) -> None:
            self.sent.append((party.name, type(message)))
            for each in self.tamper(party.name, receiver, message):
                send(receiver, each)

        party.send = tampered  # type: ignore[method-assign]


def bad_bytes(value: bytes) -> list[bytes]:
    return [b"", value[:-1], value + b"\0", value[: len(value) // 2], value * 2 + b"x"]


def bad_number(value: int) -> list[int]:
    return [-1, 0, value + 1, 2**31, 2**62, 2**64 - 1]


def bad_text(value: str) -> list[str]:
    return ["", "nobody", "client/0", "client/1", "server", value + "\n", "client/9" * 2000]


def bad_list(value: list[Any]) -> list[list[Any]]:
    found = [[], value[:-1], value + value[:1], value[::-1], value * 500]
    if value:
        bad = BAD[type(value[0])]
        found += [[*value[:-1], each] for each in bad(value[-1])] + [[each, *value[1:]] for each in bad(value[0])]
    return found


BAD: dict[type, Callable[[Any], list[Any]]] = {bytes: bad_bytes, int: bad_number, str: bad_text, list: bad_list}


def impossible(message: Message) -> list[tuple[str, Message]]:
    """Copies of `message` with one field invalid at a time, each with the name of the field."""
    found: list[tuple[str, Message]] = []
    for name in message.__struct_fields__:
        value = getattr(message, name)
        others = BAD.get(type(value), lambda value: [])(value)
        found += ((name, msgspec.structs.replace(message, **{name: bad})) for bad in others if bad != value)
    return found


class Tampering:
    """Replaces the first message of `kind` from `sender` by invalid form number `number`."""

    def __init__(self, kind: str, sender: str, number: int) -> None:
        self.choices = 0
        self._kind, self._sender, self._number = kind, sender, number
        self._shown = "nothing was changed"

    def __str__(self) -> str:
        return f"{self._kind} from {self._sender}, number {self._number}: {self._shown}"

    def __call__(self, sender: str, receiver: str, message: Message) -> Iterable[Message]:
        if self.choices or type(message).__name__ != self._kind or sender != self._sender:
            return (message,)
        found = impossible(message)
        self.choices = len(found)
        name, changed = found[self._number]
        self._shown = f"{name} is {str(getattr(changed, name))[:100]}, not {str(getattr(message, name))[:100]}"
        return (changed,)


CONFIGURATIONS = (
    ("plaintext", "restart"), ("plaintext", "secure"), ("paillier", "restart"), ("iknp", "restart"),
    ("naor-pinkas", "restart"), ("direct", "restart"),
)  # fmt: skip


SAMPLES: dict[type[types.Type], Any] = {
    types.BytesType: b"unasked", types.StrType: "client/0", types.IntType: 1, types.FloatType: 0.5,
    types.BoolType: False, types.ListType: [], types.DictType: {},
}  # fmt: skip


@functools.cache
def honest_runs() -> list[Run]:
    return [Run(*configuration).play() for configuration in CONFIGURATIONS]


def senders_of(kind: str) -> list[tuple[int, str]]:
    """The configurations in which a message of `kind` is sent, each with its first sender."""
    found = []
    for number, run in enumerate(honest_runs()):
        first = next((name for name, each in run.sent if each.__name__ == kind), None)
        if first is not None:
            found.append((number, first))
    return found


def failures_of_invalid_forms(kind: str, sender: str, configuration: int, every: int) -> list[str]:
    """The failures when `sender` sends invalid forms of a message of `kind`; every `every`-th form is tried."""
    failures = []
    for number in itertools.count(0, every):
        tampering = Tampering(kind, sender, number)
        run = Run(*CONFIGURATIONS[configuration], tampering)
        try:
            run.play()
            assert run.is_right(), "wrong distances got in"
            assert run.server.aborted or any(client.ending == "completed" for client in run.clients), "nobody is served"
        except (Exception, Endless) as error:
            failures.append(f"{tampering}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        assert tampering.choices
        if number + every >= tampering.choices:
            return failures
    raise AssertionError("unreachable")


def names_of_types() -> list[str]:
    """The names of all message types with fields in protocols, without those that tests define."""
    for module in pkgutil.walk_packages(protocols.__path__, "tacit.protocols."):
        importlib.import_module(module.name)
    kinds = Message.__subclasses__()
    return sorted(
        kind.__name__ for kind in kinds if kind.__module__.startswith("tacit.protocols.") and kind.__struct_fields__
    )


def test_honest_runs_complete() -> None:
    for run in honest_runs():
        assert [client.ending for client in run.clients] == ["completed"] * 4
        assert run.is_right()
        assert len(run.events) < MOST_EVENTS / 10


@pytest.mark.parametrize("kind", names_of_types())
def test_a_run_survives_impossible_contents(kind: str, little_memory: None) -> None:
    """A selection of the invalid forms of a message."""
    places = senders_of(kind)
    if not places:
        pytest.skip("no honest run sends it")
    assert not (failures := failures_of_invalid_forms(kind, places[0][1], places[0][0], every=12)), "\n".join(failures)


@pytest.mark.long
@pytest.mark.parametrize("kind", names_of_types())
def test_a_run_survives_more_impossible_contents(kind: str, little_memory: None) -> None:
    """Every third invalid form, in every configuration."""
    failures = [
        text for place, sender in senders_of(kind) for text in failures_of_invalid_forms(kind, sender, place, every=3)
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kind", names_of_types())
def test_a_run_survives_unexpected_messages(kind: str, little_memory: None) -> None:
    """One client sends an extra message of `kind` with each message."""
    message_type = next(each for each in Message.__subclasses__() if each.__name__ == kind)
    unasked = message_type(*(SAMPLES.get(type(each.type)) for each in types.type_info(message_type).fields))

    def tamper(sender: str, receiver: str, message: Message) -> Iterable[Message]:
        return (unasked, message) if sender == "client/1" else (message,)

    run = Run(tamper=tamper).play()
    assert run.is_right()
    assert sum(client.ending == "completed" for client in run.clients) >= 3
