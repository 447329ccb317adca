"""A party's access to the network and its processor; and the links between parties."""

from dataclasses import dataclass
from typing import Protocol

from tacit.sim.handling import Handling
from tacit.sim.latency import Latency
from tacit.sim.machine import Host

__all__ = ["Access", "Pairs"]


@dataclass(frozen=True)
class Access:
    """A party's bytes a second (0: unlimited), its cores, and their speed; and the host whose cores it shares.

    `handling`: what messages take outside of jobs on a core of it, None if nothing; with it there is a `host`.
    """

    up: float = 0.0
    down: float = 0.0
    cores: int = 1
    speed: float = 1.0
    host: Host | None = None
    handling: Handling | None = None


class Pairs(Protocol):
    """The link between each two parties, where links differ. `loses`: whether any of them loses messages."""

    @property
    def loses(self) -> bool: ...
    def between(self, near: str, far: str) -> tuple[Latency, float]:
        """The latency and the loss, in [0, 1), of the link from `near` to `far`."""
