"""The properties of a network: the access of parties, links, barriers on them, and counters of disturbances."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from tacit.sim.handling import Handling
from tacit.sim.latency import Latency, parse_latency
from tacit.sim.machine import Host

__all__ = ["CONNECTION", "HEARTBEAT", "Access", "Barrier", "Conditions", "Statistics", "Watching"]


@dataclass(frozen=True)
class Access:
    """The bandwidth of a party in bytes a second (0: unlimited), its cores with their speed, and the host that it
    shares.

    `handling` is the CPU time that its messages take outside of jobs, on a core of `host`; None if they take none.
    """

    up: float = 0.0
    down: float = 0.0
    cores: int = 1
    speed: float = 1.0
    host: Host | None = None
    handling: Handling | None = None


class Pairs(Protocol):
    """The link between each two parties, where links differ. `loses` is true if any of the links loses messages."""

    @property
    def loses(self) -> bool: ...
    def between(self, near: str, far: str) -> tuple[Latency, float]:
        """The latency and the loss, in [0, 1), of the link from `near` to `far`."""


CONNECTION, HEARTBEAT = "connection", "heartbeat"
"""The ways in which a server can detect that a client is gone."""


@dataclass(frozen=True)
class Watching:
    """How a server detects that a client is gone: by the end of its `CONNECTION`, or by missing `HEARTBEAT` messages.

    A client sends a heartbeat every `interval` seconds. It counts as gone after `misses` intervals without one.
    """

    kind: str
    interval: float = 10.0
    misses: int = 3

    def __post_init__(self) -> None:
        if self.kind not in (CONNECTION, HEARTBEAT):
            raise ValueError(f"kind(={self.kind!r}) must be {CONNECTION} or {HEARTBEAT}.")
        if not 0 < self.interval < math.inf:
            raise ValueError(f"interval(={self.interval}) must be > 0 seconds, and finite.")
        if self.misses < 1:
            raise ValueError(f"misses(={self.misses}) must be >= 1.")


@dataclass(frozen=True)
class Conditions:
    """Properties that all links share: topology ("mesh" or "star"), latency, jitter in seconds, loss in [0, 1).

    `transport` is "reliable" or "datagram" (see `tacit.sim.transport`) or "tcp" (see `tacit.sim.tcp`),
    `retransmission_timeout` is the first one of "reliable", in seconds. `pairs` gives the properties of each link where
    links differ. `times`: the time that each transfer lasts goes to observers, and what the handling of
    messages takes longer on a slow party.
    """

    topology: str = "star"
    latency: Latency = field(default_factory=lambda: parse_latency("0ms"))
    jitter: float = 0.0
    loss: float = 0.0
    transport: str = "reliable"
    retransmission_timeout: float = 1.0
    pairs: Pairs | None = None
    times: bool = False

    @property
    def loses(self) -> bool:
        """True if any link loses messages."""
        return self.loss > 0 if self.pairs is None else self.pairs.loses

    def between(self, near: str, far: str) -> tuple[Latency, float]:
        """The latency and the loss, in [0, 1), of the link from `near` to `far`."""
        return (self.latency, self.loss) if self.pairs is None else self.pairs.between(near, far)

    def __post_init__(self) -> None:
        if self.topology not in ("mesh", "star"):
            raise ValueError(f"topology(={self.topology!r}) must be mesh or star.")
        if self.transport not in ("reliable", "datagram", "tcp"):
            raise ValueError(f"transport(={self.transport!r}) must be reliable, datagram or tcp.")
        if not 0 < self.retransmission_timeout < math.inf:
            raise ValueError(f"retransmission_timeout(={self.retransmission_timeout}) must be > 0 seconds, and finite.")


@dataclass(frozen=True)
class Statistics:
    """Counters of the network so far: retransmitted copies, and lost ones by reason, as in the trace.

    `connections` is the number of TCP connections that were opened. `segments_again`: the TCP segments that were sent
    again because links lost them, and `segment_bytes_again` their bytes with headers; they are no copies of messages.
    """

    sent_again: int
    lost: dict[str, int]
    connections: int = 0
    segments_again: int = 0
    segment_bytes_again: int = 0


class Barrier:
    """A barrier that blocks messages between `party` and each `peer` (a pattern), or only from `party` to them if
    `one_way`.

    It loses the messages, or if it `holds`, keeps them; `kept` are the messages to deliver once it is removed.
    """

    stored = ("party", "peer", "one_way", "holds", "kept")

    def __init__(self, party: str, peer: str, *, one_way: bool = False, holds: bool = False) -> None:
        self.party, self.peer, self.one_way, self.holds = party, peer, one_way, holds
        self.kept: list[Callable[[], object]] = []

    def is_between(self, sender: str, receiver: str) -> bool:
        """Return true if the barrier blocks messages from `sender` to `receiver`."""
        if sender == self.party and fnmatchcase(receiver, self.peer):
            return True
        return not self.one_way and receiver == self.party and fnmatchcase(sender, self.peer)

    def take(self) -> list[Callable[[], object]]:
        """Remove and return the messages that were held back, in order of arrival."""
        kept, self.kept = self.kept, []
        return kept
