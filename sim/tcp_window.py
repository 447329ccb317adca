"""The congestion window of a TCP sender, and the bytes that TCP adds to a message.

Sizes are those of IPv4 with timestamps: 52 of the 1,500 bytes of a packet are headers. The window grows as Linux's
CUBIC (RFC 9438), and slow start ends as by HyStart once a round fills the slowest part of the path. All windows are in
segments.
"""

import math

__all__ = [
    "ACKNOWLEDGEMENT",
    "FIRST",
    "FLIGHTS",
    "HEADERS",
    "LATE",
    "LONGEST",
    "SEGMENT",
    "SET_UP",
    "SET_UP_NAME",
    "SHORTEST",
    "TRAIN",
    "Window",
    "headers",
    "segments",
]

SEGMENT = 1448
"""The most message bytes in a packet."""

HEADERS = 52
"""The bytes of the IPv4 header and of TCP's with its timestamps."""

ACKNOWLEDGEMENT = HEADERS
"""The bytes of a packet that only acknowledges; one is sent for every second segment."""

FIRST = 10
"""The window of a new connection, in segments (RFC 6928)."""

SHORTEST = 0.2
"""The least difference in seconds between a retransmission timeout and a round trip: Linux's TCP_RTO_MIN."""

LONGEST = 120.0
"""The longest retransmission timeout in seconds: Linux's TCP_RTO_MAX."""

FLIGHTS = (60, 60, HEADERS + HEADERS + 239, HEADERS + 752, HEADERS + 530)
"""The bytes of each flight of a connection's set-up: both SYN, then TLS 1.3 as OpenSSL 3 does it, in which both ends
show a certificate (P-256, self-signed, 350 bytes). The opener sends the first, third and fifth."""

SET_UP = sum(FLIGHTS) + HEADERS + 1150
"""The bytes of a connection's set-up, including the session tickets after it."""

SET_UP_NAME = "TCP and TLS set-up"
"""The label of the set-up's bytes in tables; they belong to no message type."""

_MOST = (4 << 20) // SEGMENT
"""The largest window: that of Linux's send buffer, in segments."""

TRAIN, LATE = 0.001, 2.5
"""HyStart detects a filled path if segments arrive this many seconds apart or less: it measures acknowledgement trains
of 2 ms.

On a slower path it detects the growing delay once the window is this many times as large.
"""

_BETA, _C = 0.7, 0.4
_FRIENDLY = 3 * (1 - _BETA) / (1 + _BETA)
_UNHURT = 1 / 20  # segments for each that is acknowledged, as long as none was lost


def segments(size: int) -> int:
    """The number of segments of a message of `size` bytes."""
    return -(-size // SEGMENT)


def headers(size: int) -> int:
    """The bytes that TCP and IP add to a message of `size` bytes: headers of its segments, and their
    acknowledgements."""
    count = -(-size // SEGMENT)
    return HEADERS * count + ACKNOWLEDGEMENT * -(-count // 2)


class Window:
    """The congestion window of one direction of a connection: `size` in segments, with slow start up to `threshold`."""

    __slots__ = stored = ("epoch", "flat", "origin", "reduced", "size", "threshold")

    def __init__(self) -> None:
        self.size: float = FIRST
        self.threshold = math.inf
        self.epoch = self.flat = self.origin = 0.0
        self.reduced = -math.inf  # when it was last made smaller

    def grow(self, count: int, full: float, now: float) -> None:
        """Process `count` acknowledged segments of a sender that used the whole window; `full` segments fill the
        path."""
        if self.size < self.threshold:
            self.size = min(self.size + count, _MOST)
            if self.size > full:
                self._settle(self.size, now)
            return
        target = self.origin + _C * (now - self.epoch - self.flat) ** 3
        least = _FRIENDLY / self.size if self.reduced > -math.inf else _UNHURT
        per_segment = max((target - self.size) / self.size, least)
        self.size = min(self.size + count * min(per_segment, 0.5), _MOST)

    def rest(self, idle: float, timeout: float) -> None:
        """Shrink after `idle` seconds without sending: by half for each `timeout`, down to the initial window."""
        times = math.ceil(idle / timeout) - 1
        if times > 0 and self.size > FIRST:
            self.threshold = max(self.threshold, 0.75 * self.size) if self.threshold < math.inf else math.inf
            self.size = max(FIRST, self.size / 2**times)
            self.epoch += idle

    def reduce(self, now: float) -> None:
        """Shrink after a loss that later segments revealed."""
        largest = self.size
        self._settle(max(_BETA * largest, 2.0), now)
        self.origin, self.flat = largest, math.cbrt(largest * (1 - _BETA) / _C)
        self.reduced = now

    def collapse(self, now: float) -> None:
        """Shrink after a timeout: to one segment, with slow start up to the reduced window."""
        self.reduce(now)
        self.size = 1.0

    def _settle(self, size: float, now: float) -> None:
        self.size = self.threshold = self.origin = size
        self.epoch, self.flat = now, 0.0
