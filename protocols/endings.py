"""What observers of all protocols have in common: which faults struck, and how each client's part ended."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from parties.life import Present
from protocols.observing.fault_record import FaultRecord
from protocols.observing.simulated import Strike
from protocols.rounds import CalledClient
from sim.faults import Fault
from sim.world import World

__all__ = ["EndingsObserver"]

C = TypeVar("C", bound=CalledClient)


class EndingsObserver(Generic[C]):
    """What observers of all protocols have in common: which faults struck, and how each client's part ended."""

    def __init__(self, world: World, clients: Sequence[C], faults: Sequence[tuple[Fault, ...]]) -> None:
        self.world = world
        self._fault_record = FaultRecord(world, faults)
        self._named = Present(clients)

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        return self._fault_record.strikes()

    def endings(self, *, noted: bool = True) -> dict[str, str]:
        """How each client's part ended; `noted` in the trace."""
        devices = self._named.devices
        found = {n: one.seen("ending") if one.alive else self._fault_record.gone(n) for n, one in devices.items()}
        for name, ending in found.items() if noted else ():
            self.world.note("outcome", name, note=ending)
        return found
