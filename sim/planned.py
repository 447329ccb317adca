"""What the parties of a run would send and compute, planned, and the bytes that it would take.

A formula lists it: `PlannedMessage`, `PlannedWork` and `PlannedWait`. Each party does what is listed of it in that
order, one after the other, and waits for a message to it at the place where that is listed, or where a `PlannedWait`
is, if the message is not `awaited`. What it does at the same time has a `strand` each: strands begin at the place where
they are first listed, and what comes next without a strand waits for all of them. `sim.planned_course` says how long
all of it takes. What a party does next may depend on whose message arrives first (`PlannedReaction`): then the rest is
planned as the course goes on.

In place of each byte string a message has a `Blank`: so it has the very fields of one that is sent, and one of a
megabyte takes no megabyte here. The bytes have the columns of `wire`, and are those of parties in their first
incarnation of whom none is lost.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import msgspec

from sim.compute import Work
from sim.tcp_window import SET_UP, SET_UP_NAME, headers
from sim.wire import Frame, Message, frame_size, payload_size

__all__ = [
    "Blank",
    "Counts",
    "Onlook",
    "Planned",
    "PlannedMessage",
    "PlannedReaction",
    "PlannedWait",
    "PlannedWork",
    "body_size",
    "counts",
    "travelling_sizes",
]

FIRST = 1
"""The incarnation of a party that was never lost."""


class Blank(bytes):
    """A byte string that has a length and no contents."""

    _length: int

    def __new__(cls, length: int) -> "Blank":
        made = super().__new__(cls)
        made._length = length
        return made

    def __len__(self) -> int:
        return self._length


@dataclass(frozen=True)
class PlannedMessage:
    """A message from `sender` to each of `receivers`, sent in the step `step` of (`round`, `attempt`).

    `sealing`: the bytes of nonce and tag, 0 for a message that is not sealed. `strand` is the sender's, `into` the
    receivers'. `times`: how many of this size are sent one after another, of which a wait counts all as one message.
    `ends`: its receivers, each of one strand, then drop what was listed of them before it and is still to do. `calls`:
    they rest until it arrives, and nothing goes on for their sake once all others are done.
    """

    step: str
    sender: str
    receivers: Sequence[str]
    message: Message
    round: int = 1
    attempt: int = 0
    sealing: int = 0
    strand: str = ""
    into: str = ""
    awaited: bool = True
    ends: bool = False
    calls: bool = False
    times: int = 1


@dataclass(frozen=True)
class PlannedWork:
    """A job of `party` in the step `step`."""

    step: str
    party: str
    work: Work
    strand: str = ""


@dataclass(frozen=True)
class PlannedWait:
    """Where `party` waits for `count` more messages of `kind`, sent in `step` of `round`, that are not `awaited`."""

    step: str
    party: str
    kind: type[Message]
    round: int = 1
    count: int = 1
    strand: str = ""


@dataclass(frozen=True)
class PlannedReaction:
    """Where `party` takes the next message of `kind` from anybody.

    `then(sender, round)` lists what all parties do after it. The messages of this kind are not `awaited`; a party that
    reacts has one strand.
    """

    party: str
    kind: type[Message]
    then: Callable[[str, int], Iterable["Planned"]]


Planned = PlannedMessage | PlannedWork | PlannedWait | PlannedReaction


class Onlook(Protocol):
    """What sees a course, at the virtual time `now`. `number` is that of a message (of alike ones, all of them)."""

    def hop(self, now: float, one: PlannedMessage, number: int, receiver: str, size: int, near: str, far: str) -> None:
        """The message `one` to the `receiver`, of `size` bytes, begins its way over the link from `near` to `far`."""

    def arrived(self, now: float, one: PlannedMessage, number: int, receiver: str, size: int) -> None:
        """It has arrived."""

    def job(self, now: float, one: PlannedWork, seconds: float) -> None:
        """A job begins that takes `seconds`."""


@dataclass
class Counts:
    """Numbers of messages and of bytes over all hops, in the columns of `wire.LedgerRow`.

    `headers`, which are not in the total: what TCP and IP add.
    """

    messages: int = 0
    payload: int = 0
    sealing: int = 0
    envelope: int = 0
    headers: int = 0

    @property
    def total(self) -> int:
        """All bytes."""
        return self.payload + self.sealing + self.envelope


def counts(planned: Iterable[Planned], relay: str = "", *, tcp: bool = False) -> dict[tuple[str, str], Counts]:
    """Messages and bytes by step and type, in the order in which each was first sent.

    `relay`: the party through which all others reach each other, "" where they do so themselves. Over `tcp` with
    headers, and the set-up of a connection for each two parties at the end.
    """
    found: dict[tuple[str, str], Counts] = {}
    pairs: set[frozenset[str]] = set()
    for one in planned:
        if not isinstance(one, PlannedMessage):
            continue
        kind, payload, sizes = type(one.message).__name__, payload_size(one.message), travelling_sizes(one)
        row = found.setdefault((one.step, kind), Counts())
        alike = Counter((len(name.encode()), _hops(one.sender, name, relay)) for name in one.receivers)
        for (length, hops), times in alike.items():
            number = times * hops * one.times
            row.messages += number
            row.payload += number * payload
            row.sealing += number * one.sealing
            row.envelope += number * (sizes[length] - payload - one.sealing)
            row.headers += number * headers(sizes[length]) if tcp else 0
        for name in one.receivers if tcp else ():
            way = (one.sender, relay, name) if _hops(one.sender, name, relay) > 1 else (one.sender, name)
            pairs.update(map(frozenset, pairwise(way)))
    sent = {key: row for key, row in found.items() if row.messages}
    return sent | {("", SET_UP_NAME): Counts(headers=SET_UP * len(pairs))} if tcp else sent


def travelling_sizes(one: PlannedMessage) -> dict[int, int]:
    """The bytes that travel to a receiver of `one`, by the length of that one's name."""
    kind, length = type(one.message).__name__, body_size(one.message) + one.sealing
    named = {len(name.encode()): name for name in one.receivers}
    return {
        size: frame_size(Frame(kind, one.sender, name, FIRST, one.round, one.attempt, one.sealing > 0, b""), length)
        for size, name in named.items()
    }


def _hops(sender: str, receiver: str, relay: str) -> int:
    return 2 if relay and relay not in (sender, receiver) else 1


def body_size(value: Any) -> int:
    """The bytes of `value`, a message or part of one, in MessagePack."""
    if isinstance(value, Blank):
        return len(value) + _mark(len(value), (1 << 8, 2), (1 << 16, 3))
    if isinstance(value, list | tuple):
        return sum(map(body_size, value)) + _mark(len(value), (1 << 4, 1), (1 << 16, 3))
    if isinstance(value, msgspec.Struct):
        fields = [getattr(value, name) for name in value.__struct_fields__]
        return body_size(fields)
    return len(_encode(value))


_encode = msgspec.msgpack.Encoder().encode


def _mark(length: int, *limits: tuple[int, int]) -> int:
    """The bytes of MessagePack's mark of what is `length` long: those of the first limit above it, else 5."""
    return next((size for limit, size in limits if length < limit), 5)
