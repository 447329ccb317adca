"""Messages that are not sent, and the bytes that they would take.

A formula lists them as `PlannedMessage`, with `Blank` in place of each byte string: so they have the very fields of
those that are sent, and a message of a megabyte takes no megabyte here. The bytes have the columns of `wire`, and are
those of parties in their first incarnation of whom none is lost.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sim.wire import Frame, Message, frame_size, payload_size

__all__ = ["Blank", "Counts", "PlannedMessage", "body_size", "counts"]

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

    `sealing`: the bytes of nonce and tag, 0 for a message that is not sealed.
    """

    step: str
    sender: str
    receivers: Sequence[str]
    message: Message
    round: int = 1
    attempt: int = 0
    sealing: int = 0


@dataclass
class Counts:
    """Numbers of messages and of bytes over all hops, in the columns of `wire.LedgerRow`."""

    messages: int = 0
    payload: int = 0
    sealing: int = 0
    envelope: int = 0

    @property
    def total(self) -> int:
        """All bytes."""
        return self.payload + self.sealing + self.envelope


def counts(messages: Iterable[PlannedMessage], relay: str = "") -> dict[tuple[str, str], Counts]:
    """Messages and bytes by step and type, in the order in which each was first sent.

    `relay`: the party through which all others reach each other, "" where they do so themselves.
    """
    found: dict[tuple[str, str], Counts] = {}
    for one in messages:
        kind, payload, length = type(one.message).__name__, payload_size(one.message), body_size(one.message)
        row = found.setdefault((one.step, kind), Counts())
        alike = Counter((len(name.encode()), _hops(one.sender, name, relay)) for name in one.receivers)
        named = {len(name.encode()): name for name in one.receivers}
        for (size, hops), times in alike.items():
            sealed, number = one.sealing > 0, times * hops
            frame = Frame(kind, one.sender, named[size], FIRST, one.round, one.attempt, sealed, b"")
            travels = frame_size(frame, length + one.sealing)
            row.messages += number
            row.payload += number * payload
            row.sealing += number * one.sealing
            row.envelope += number * (travels - payload - one.sealing)
    return {key: row for key, row in found.items() if row.messages}


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
