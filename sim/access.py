"""The network access and the processor of a party, and the links between parties."""

from dataclasses import dataclass
from typing import Protocol

from tacit.sim.handling import Handling
from tacit.sim.latency import Latency
from tacit.sim.machine import Host

__all__ = ["Access", "Pairs"]


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
