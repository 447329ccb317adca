"""The state that a TCP stream keeps of its messages and of one connection."""

from collections import deque
from typing import Generic, TypeVar

from tacit.sim.clock import Timer
from tacit.sim.tcp_window import SHORTEST, Window
from tacit.sim.transport import Copy

__all__ = ["HELD", "Flow", "Sending"]

_BUFFER, HELD = 43, 3
"""The segments in the send buffer of a new connection; and, for later ones, the segments per segment of the window."""

C = TypeVar("C", bound=Copy)


class Sending(Generic[C]):
    """A message on one hop: the bytes `sent`, `arrived`, and `missing`, which are to be sent again.

    `latency`, in seconds, is drawn at its beginning. `ended`: the copy is no longer in flight; `gone`: it will not be
    sent again either. `second`: it is a duplicate.
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

    It is `open` once it may send, `opening` before. `items` have not been received yet, `unsent` have not been sent
    completely; `count` numbers them. `flying`: segments in flight. `acked`: the times at which acknowledgements return,
    and their segments. `most`: the largest number in flight since there were none. `last`: the time of the last
    sending. `latency` and round `trip` belong to the latest message. `buffer`: the capacity of the send buffer,
    `cramped` if it was too small. `waits`: it waits for an acknowledgement.
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
        """The timeout in seconds after which a segment that nothing follows is sent again (RFC 6298)."""
        return self.trip + max(SHORTEST, 2 * self.latency)
