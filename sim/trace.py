"""The trace: every event of a run in the order of virtual time, chained into two SHA-256 hashes.

``trace_hash`` covers everything, including the digest of every message's bytes. ``shape_hash`` leaves the payloads
out (who, what type, how many bytes, when), so it survives a change of contents that keeps sizes and times. A chain's
next value is SHA-256(previous value || event), so the last value is enough to go on from.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec

from tacit.sim.digests import chained

__all__ = ["Event", "Fact", "Sink", "Trace"]


class Fact(StrEnum):
    """The fact that an event states, where its kind leaves that open; "" if the kind says all."""

    AGAIN = "again"
    """send, relay: a copy of a message of which an earlier one was lost. `number` counts these copies from 1."""
    COPY = "copy"
    """send: a second copy, made by a fault. drop: the receiver has the message already."""
    LATE = "late"
    """drop: the receiver's program drops a message of an earlier round or attempt."""
    DOWN = "down"
    """fault: the party goes down. `detail` of this and the next four is the kind of the fault."""
    PAUSED = "paused"
    """fault: the party stands still."""
    SLOW = "slow"
    """fault: the party computes, sends and receives more slowly."""
    CUT = "cut"
    """fault: the links of the party to the peer lose everything."""
    HELD = "held"
    """fault: the links of the party to the peer hold messages back."""
    OVER = "over"
    """fault: the state `detail` of the party, one of the five above, has ended."""
    DISCONNECTED = "disconnected"
    """fault: the server of a deployed run has lost the connection of the party."""
    STRIKES = "strikes"
    """fault: a fault of the kind `detail` affects a message."""
    LOST = "lost"
    """metric: the server goes on without the party. `detail` is what it does about that."""
    REFUSED = "refused"
    """metric: the party refuses to do `detail`."""
    GONE = "gone"
    """metric: the server learns that the party is gone. `detail` is how."""
    BACK = "back"
    """metric: the server learns that the party is back."""
    SLEEPS = "sleeps"
    """metric: the party's program sleeps for `value` virtual seconds."""
    CHOSEN = "chosen"
    """metric: the server says in its note how a sum is set up: its members, or its number of neighbours."""


class Event(msgspec.Struct, array_like=True, frozen=True):
    """One event of a run.

    `time` is in virtual seconds. `kind` is one of send, relay, deliver, lose, drop (messages); enter, leave (steps);
    compute; fault; metric; outcome; and, in neither hash, resend: a part of a message that TCP sends again; carry: the
    end of a transfer over a link that took `value` seconds, without its latency, only with `Conditions.times`, without
    a `peer` if the copy was lost; stretch: the end of a job, or, with `Conditions.times`, of the handling of a message,
    that held a core `value` seconds longer than at full speed; and processor: the end of a job of a deployed run, which
    took `value` seconds of processor time. `party` is the affected party; for messages it is the sender of the hop, and
    `peer` its receiver. A send or relay with a `note` is another copy of a message.
    `payload`, `sealing` and `envelope` are bytes on the wire; `digest` is that of a message's bytes. `note` is an
    explanation in words; `value` is a number (a metric, the seconds of a job that begins).

    The following fields are for observers and in neither hash. `message` numbers a message, `copy` one copy of it; both
    count from 1 in the order of sending, and a message has the number of its first copy. `hop` is 1, or 2 from the
    relay on; `sender` and `receiver` are the ends of the whole route. `origin` is a message's type, round and attempt,
    if the other fields do not contain them: for a message that its receiver drops, and for a step without a type.
    `fact` says what happened, with `detail` and `number` as `Fact` describes them; `detail` of a message that its
    receiver drops is the reason, and `number` of a job counts the jobs of its party in the step from 1. Nobody has to
    read `note` for a fact.
    """

    time: float
    kind: str
    party: str
    peer: str = ""
    protocol: str = ""
    step: str = ""
    type: str = ""
    round: int = 0
    attempt: int = 0
    payload: int = 0
    sealing: int = 0
    envelope: int = 0
    note: str = ""
    value: float = 0.0
    digest: bytes = b""
    message: int = 0
    copy: int = 0
    hop: int = 0
    sender: str = ""
    receiver: str = ""
    origin: tuple[str, int, int] = ("", 0, 0)
    fact: str = ""
    detail: str = ""
    number: int = 0


Sink = Callable[[Event], None]


class Trace:
    """Chains events, if `hashed`, and passes each to the `sinks` (a recorder, a progress display).

    `is_watched`: there are sinks, so that an event must be made. `uses_digests`: the digest of a message is of use.
    """

    __slots__ = ("_hashed", "_shape", "_sinks", "_trace", "count", "is_watched", "uses_digests")

    def __init__(self, sinks: Iterable[Sink] = (), *, hashed: bool = True) -> None:
        self._trace = sha256(b"tacit/trace/v1").digest()
        self._shape = sha256(b"tacit/shape/v1").digest()
        self._sinks = tuple(sinks)
        self._hashed = hashed
        self.is_watched = bool(self._sinks)
        self.uses_digests = hashed or self.is_watched
        self.count = 0

    @property
    def trace_hash(self) -> str:
        """The chain over all events with their payloads' digests, in hexadecimal."""
        return self._trace.hex()

    @property
    def shape_hash(self) -> str:
        """The chain over all events without payloads, notes and metrics' values, in hexadecimal."""
        return self._shape.hex()

    def state(self) -> tuple[bytes, bytes, int]:
        """Both hash chains and the number of their events."""
        return self._trace, self._shape, self.count

    def restore(self, state: tuple[bytes, bytes, int]) -> None:
        """Continue from a `state`."""
        self._trace, self._shape, self.count = state

    def tell(self, event: Event) -> None:
        """Pass `event` to the sinks only: an observer's measurements are not part of the run."""
        for sink in self._sinks:
            sink(event)

    def add(self, event: Event) -> None:
        """Chain `event` and pass it on."""
        if not self.uses_digests:  # it only counts
            self.count += 1
            return
        shape = (
            event.time, event.kind, event.party, event.peer, event.protocol, event.step, event.type, event.round,
            event.attempt, event.payload, event.sealing, event.envelope,
        )  # fmt: skip
        self.chain(shape, (event.note, event.value, event.digest))
        for sink in self._sinks:
            sink(event)

    def chain(self, shape: tuple[Any, ...], rest: tuple[str, float, bytes]) -> None:
        """Chain an event by the fields in its hashes, without passing it on.

        `shape`: its first twelve fields, from `time` to `envelope`; `rest`: its `note`, `value` and `digest`.
        """
        self.count += 1
        if self._hashed:
            self._trace, self._shape = chained(self._trace, self._shape, shape, rest)
