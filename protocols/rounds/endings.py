"""Shared parts of all observers: the faults that struck, and the end of each client's part."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tacit.parties.life import Present
from tacit.parties.server import Loss, Server
from tacit.protocols.experiment.fault_record import FaultRecord
from tacit.protocols.experiment.simulated import Strike
from tacit.protocols.rounds.rounds import CalledClient
from tacit.sim.faults import Fault
from tacit.sim.world import World

__all__ = ["EndingsObserver", "returned"]

C = TypeVar("C", bound=CalledClient)


class EndingsObserver(Generic[C]):
    """An observer that knows which faults struck, and how each client's part ended."""

    def __init__(self, world: World, clients: Sequence[C], faults: Sequence[tuple[Fault, ...]]) -> None:
        self.world = world
        self._fault_record = FaultRecord(world, faults)
        self._named = Present(clients)

    @property
    def _server(self) -> Any:
        """The server, in its present incarnation."""
        return self._server_device.party

    @_server.setter
    def _server(self, server: Server) -> None:
        self._server_device = server.device

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        return self._fault_record.strikes()

    def losses_beside(self, server: Any, unmissed: str, round_at: Callable[[float], int]) -> list[Loss]:
        """Those that the `server` reported, with the steps at which they fell, and then those that it did not notice.

        `unmissed`: what is said of a client among these; `round_at`: the number of the round at a virtual time.
        """
        now = self.world.loop.time()
        found = [self._fault_record.noticed(loss, 0.0) for loss in server.lost]
        for party in (server, *self._named.values()):
            fall = self._fault_record.fall(party.name, 0.0, now)
            if fall is not None and party.name not in {loss.party for loss in found}:
                action = unmissed
                if party is server:
                    action = returned(server) if server.alive else "every client ends without it"
                found.append(Loss(party.name, fall.step, action, round_at(fall.time), fall.time))
        return found

    def endings(self, *, noted: bool = True) -> dict[str, str]:
        """How each client's part ended; `noted` in the trace."""
        devices = self._named.devices
        found = {n: one.seen("ending") if one.alive else self._fault_record.gone(n) for n, one in devices.items()}
        for name, ending in found.items() if noted else ():
            self.world.note("outcome", name, note=ending)
        return found


def returned(server: Any) -> str:
    """Return the reason for the loss of a `server` that returned to a run of one round."""
    return "it is back, and the run ended" if server.aborted else "it is back before it began"
