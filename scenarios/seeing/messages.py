"""The messages of a record. They are held in columns, for a large run has hundreds of thousands, and most are alike."""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tacit.scenarios.seeing.reading import Row, Sending

__all__ = ["Message", "MessageColumns", "Messages", "Numbers"]


@dataclass(eq=False, slots=True)
class Message:
    """One message with its history. Times are in virtual seconds.

    `lost` and `dropped` have the times and reasons for its copies, `resent` those of parts that TCP sent again,
    `struck` the time, kind and text of each fault that affected it. `received` is the time of delivery, `refused` the
    time and reason if the receiver's program then dropped it, and `late` is true if it did because the message was of
    an earlier round or attempt. `again` counts the copies sent because another was lost; `n` is the event of the first
    loss or drop. `relay` is the party that carries the message on, "" if none does; it received the message at
    `relayed`.

    `sizes` are the payload, sealing and envelope of one copy in bytes, `bytes` all bytes of all copies on all `hops`.
    `copies` counts the copies that were sent, `ended` those that were lost or dropped.
    """

    number: int
    sender: str
    receiver: str
    type: str
    step: str
    stamp: tuple[int, int]
    sent: float
    received: float | None = None
    again: int = 0
    n: int = 0
    lost: tuple[tuple[float, str], ...] = ()
    resent: tuple[tuple[float, str], ...] = ()
    dropped: tuple[tuple[float, str], ...] = ()
    struck: tuple[tuple[float, str, str], ...] = ()
    refused: tuple[float, str] | None = None
    late: bool = False
    relay: str = ""
    relayed: float | None = None
    sizes: tuple[int, int, int] = (0, 0, 0)
    bytes: int = 0
    hops: int = 0
    copies: int = 0
    ended: int = 0

    @property
    def is_sent(self) -> bool:
        """True if the message has a row in the view `messages`; a fault may also affect a message that is never
        sent."""
        return bool(self.hops or self.ended or self.received is not None)

    @property
    def fate(self) -> str:
        """``received``, ``in flight``, ``dropped`` or ``lost``, as in the view `messages`."""
        if self.received is not None:
            return "received"
        if self.copies > self.ended:
            return "in flight"
        return "dropped" if self.ended > len(self.lost) else "lost"

    @property
    def note(self) -> str:
        """The troubles of the message, in words."""
        if not (self.struck or self.refused or self.received is None):
            return ""
        notes = [note for *_, note in self.struck]
        notes += [f"refused by the receiver: {self.refused[1]}"] if self.refused is not None else []
        notes += [] if self.received is not None else dict.fromkeys(why for _, why in (*self.lost, *self.dropped))
        return "; ".join(notes)

    @property
    def legs(self) -> tuple[tuple[str, str, float | None, float | None], ...]:
        """The connections on its way: sender, receiver, and the times at which it entered and left each."""
        if not self.relay:
            return ((self.sender, self.receiver, self.sent, self.received),)
        first = self.sender, self.relay, self.sent, self.relayed
        return (first, (self.relay, self.receiver, self.relayed, self.received))

    def is_taken(self, at: float) -> bool:
        """True if its receiver had it by `at`, and did not refuse it."""
        return self.received is not None and self.received <= at and self.refused is None


class Numbers:
    """A list of numbers, by an index from 0; 0 if there is none."""

    def __init__(self) -> None:
        self._found = array("q")

    def __getitem__(self, place: int) -> int:
        return self._found[place] if 0 <= place < len(self._found) else 0

    def put(self, place: int, number: int) -> bool:
        """Set the number at `place` unless it has one; returns true if it had none."""
        found = self._found
        if place == len(found):
            found.append(number)
            return True
        if place > len(found):
            found.extend([0] * (place + 1 - len(found)))
        if found[place]:
            return False
        found[place] = number
        return True


_Thing = TypeVar("_Thing")

_Shape = tuple[str, str, tuple[int, int], tuple[int, int, int]]
"""The type, step, stamp and sizes of messages that are alike."""


class _Numbered(dict[_Thing, int]):
    """The number of each of several `things`, from 0 in the order in which they are asked for first."""

    def __init__(self) -> None:
        self.things: list[_Thing] = []

    def __missing__(self, thing: _Thing) -> int:
        number = self[thing] = len(self)
        self.things.append(thing)
        return number


class Messages(Mapping[int, Message]):
    """The messages by number, in the order in which the record has them first.

    One that was sent once, on one hop, and at most received is held in columns. There is an object for it from when
    it is looked at, or something else happens to it; that object then has the facts.
    """

    def __init__(self) -> None:
        self._places = Numbers()  # of messages in the columns by number, from 1
        self._made: dict[int, Message] = {}  # by place in the columns, from 0
        self._number, self._sent, self._received = array("q"), array("d"), array("d")
        self._sender, self._receiver, self._shape = array("i"), array("i"), array("i")
        self._parties, self._shapes = _Numbered[str](), _Numbered[_Shape]()
        self._sorted = np.empty(0, np.int64), np.empty(0, np.int64)  # pairs of parties, and places of their messages

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[int]:
        return iter(self._number)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self._places[number] > 0

    def __getitem__(self, number: int) -> Message:
        if not (place := self._places[number]):
            raise KeyError(number)
        return self.at(place - 1)

    def at(self, place: int) -> Message:
        """The message at a place in the columns, from 0."""
        one = self._made.get(place)
        if one is None:
            received = self._received[place]
            kind, step, stamp, sizes = self._shapes.things[self._shape[place]]
            parties = self._parties.things
            one = self._made[place] = Message(
                self._number[place], parties[self._sender[place]], parties[self._receiver[place]], kind, step, stamp,
                self._sent[place], None if math.isnan(received) else received, sizes=sizes, bytes=sum(sizes), hops=1,
                copies=1,
            )  # fmt: skip
        return one

    @property
    def parties(self) -> Sequence[str]:
        """All senders and receivers, in the order of their first message."""
        return self._parties.things

    @property
    def made(self) -> Iterator[Message]:
        """The messages that there are objects for, in order; nothing but sending and receiving befell the others."""
        return (self._made[place] for place in sorted(self._made))

    def add(self, sending: Sending) -> bool:
        """Add the message of a sending; returns false if there is one of that number already."""
        number, place = sending.message, len(self._number)
        if not self._places.put(number, place + 1):
            return False
        _, time, _, party, peer, kind, step, round_number, attempt, payload, sealing, envelope = sending
        self._number.append(number)
        self._sent.append(time)
        self._received.append(NEVER)
        self._sender.append(self._parties[party])
        self._receiver.append(self._parties[peer])
        self._shape.append(self._shapes[kind, step, (round_number, attempt), (payload, sealing, envelope)])
        return True

    def add_first(self, row: Row) -> Message:
        """Add, and return, a message by the first row that is of it, to which its hops are to be added."""
        ends, stamp, place = (row.sender, row.receiver), (row.round, row.attempt), len(self)
        self.add(Sending(row.n, row.time, row.message, *ends, row.type, row.step, *stamp, 0, 0, 0))
        one = self.at(place)
        one.hops = one.copies = 0
        return one

    def receive(self, number: int, time: float) -> str | None:
        """Say that a message was received, at last at that time; returns its receiver, None if there is no such one."""
        place = self._places[number] - 1
        if place < 0:
            return None
        if (one := self._made.get(place)) is not None:
            one.received = time
        self._received[place] = time
        return self._parties.things[self._receiver[place]]

    def between(self, sender: str, receiver: str) -> list[Message]:
        """All messages from one party to another, in the order in which the record has them first."""
        one, other = self._parties.get(sender), self._parties.get(receiver)
        if one is None or other is None:
            return []
        known = len(self._sorted[0])
        if len(self) - known > _UNSORTED + known // 4:
            pairs = self._pairs(0)
            order = np.argsort(pairs, kind="stable")
            self._sorted, known = (pairs[order], order), len(pairs)
        pair = (one << 32) + other
        first, last = np.searchsorted(self._sorted[0], [pair, pair + 1]).tolist()
        later = np.flatnonzero(self._pairs(known) == pair) + known
        return [self.at(place) for place in (*self._sorted[1][first:last].tolist(), *later.tolist())]

    def _pairs(self, first: int) -> NDArray[np.int64]:
        """The sender and the receiver of the messages from a place on, as one number."""
        return (np.array(self._sender[first:], np.int64) << 32) + np.array(self._receiver[first:], np.int64)

    def columns(self, parties: Sequence[str]) -> "MessageColumns":
        """The messages that were sent, in columns; `parties` has all senders and receivers."""
        places = {name: place for place, name in enumerate(parties)}
        codes = np.array([places[name] for name in self.parties], np.int64)
        received = np.array(self._received)
        shapes = np.array(self._shape, np.int64)
        size = np.array([sum(sizes) for *_, sizes in self._shapes.things], np.int64)[shapes]
        hops, is_sent, noted = np.ones(len(self), np.int64), np.ones(len(self), np.bool_), np.isnan(received)
        for place, one in self._made.items():
            noted[place], is_sent[place] = True, one.is_sent
            size[place], hops[place] = one.bytes, one.hops
        number, sent = np.array(self._number), np.array(self._sent)
        order = np.lexsort((number, sent))
        order = order[is_sent[order]]
        return MessageColumns(
            self, order, number[order], sent[order], received[order], codes[np.array(self._sender, np.int64)[order]],
            codes[np.array(self._receiver, np.int64)[order]], size[order], hops[order], noted[order],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MessageColumns(Sequence[Message]):
    """The messages that have a row in the view of that name, in the order of sending, with a column for each field.

    `sent` and `received` are virtual seconds, `received` of one that was not NaN. `sender` and `receiver` are places
    in a sequence of parties, `bytes` and `hops` those of all copies. Nothing but sending and receiving befell those
    that are not `noted`.
    """

    source: Messages
    places: NDArray[np.int64]
    number: NDArray[np.int64]
    sent: NDArray[np.float64]
    received: NDArray[np.float64]
    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    bytes: NDArray[np.int64]
    hops: NDArray[np.int64]
    noted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Message: ...

    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...

    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        if isinstance(place, slice):
            return [self.source.at(one) for one in self.places[place].tolist()]
        return self.source.at(int(self.places[place]))

    def where(self, chosen: NDArray[np.bool_]) -> list[Message]:
        """The messages where `chosen`, which has an element for each, is true."""
        return [self.source.at(place) for place in self.places[chosen].tolist()]


NEVER = float("nan")
"""When a message was received that was not."""

_UNSORTED = 1000
"""How many messages may come before they are sorted by their parties, and a quarter of those that are."""
