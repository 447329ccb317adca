"""The state that a TCP stream keeps of its messages, and of one connection."""

from collections import deque
from typing import Generic, TypeVar

from tacit.sim.clock import Timer
from tacit.sim.tcp_window import SHORTEST, Window
from tacit.sim.transport import Copy

__all__ = ["HELD", "Flow", "Sending"]

_BUFFER, HELD = 43, 3
"""Segments in the send buffer of a new connection, and segments for each one of the window of later ones."""

C = TypeVar("C", bound=Copy)


class Sending(Generic[C]):
    """A message on one hop: the bytes `sent`, those `arrived`, and those `missing` that are to be sent again.

    `latency`, in seconds, is drawn as it begins. `ended`: the copy is no longer on its way; `gone`: nor will it be.
    `second`: a duplicate.
    """

    __slots__ = stored = (
        "arrived", "copy", "ended", "gone", "latency", "missing", "number", "second", "sent", "size", "tries",
    )  # fmt: skip

    def __init__(self, copy: C, number: int, second: bool) -> None:
        self.copy, self.number, self.second = copy, number, second
        self.size = copy.size
        self.sent = self.arrived = self.missing = self.tries = 0
        self.latency = 0.0
        self.ended = self.gone = False


class Flow(Generic[C]):
    """One direction of one connection, between one incarnation of each end.

    `open` once it may send, `opening` before. `items` have not been received yet, `unsent` not been sent whole; `count`
    numbers them. `flying`: segments on their way; `acked`: when acknowledgements return, and of how many; `most`: how
    many have been on their way since there were none. `last`: when it last sent; `latency` and round `trip` of the
    latest message. `buffer`: what the send buffer holds, `cramped` if that was too little; `waits` for an
    acknowledgement.
    """

    __slots__ = stored = (
        "acked", "buffer", "closed", "count", "cramped", "flying", "items", "last", "latency", "most", "open",
        "opening", "trip", "unsent", "waits", "window",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open = self.opening = self.closed = self.cramped = False
        self.buffer = _BUFFER
        self.items: deque[Sending[C]] = deque()
        self.unsent: deque[Sending[C]] = deque()
        self.acked: deque[tuple[float, int]] = deque()
        self.window = Window()
        self.flying = self.most = self.count = 0
        self.last = self.latency = self.trip = 0.0
        self.waits: Timer | None = None

    @property
    def timeout(self) -> float:
        """When a segment is sent again that nothing follows, in seconds (RFC 6298)."""
        return self.trip + max(SHORTEST, 2 * self.latency)
