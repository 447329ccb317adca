"""Shared parts of all observers: the faults that struck, and the end of each client's part."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tacit.parties.device import Device
from tacit.parties.life import Present
from tacit.parties.server import Loss, Server
from tacit.protocols.experiment.simulated import Strike
from tacit.protocols.outcome import Reason
from tacit.protocols.rounds.rounds import CalledClient
from tacit.sim.faults import Fault, Fired, MessageFault, PartyFault
from tacit.sim.world import World

__all__ = ["EndingsObserver", "every_client_lost", "returned"]

_EVERY_CLIENT_LOST = (
    "every client was lost: {count} of {clients} at {step} in round {round} ({action}); raise protocol.deadline if "
    "clients are only slow, and let crashed ones return with back_after"
)


def every_client_lost(lost: Sequence[Loss], clients: Collection[str]) -> Reason:
    """The reason of a run that lost all of its `clients`: where most of them were `lost`, and what to do.

    Of a client that is missing from several rounds up to the last, the loss in the first of these counts.
    """
    last = dict[str, Loss]()
    for one in sorted(lost, key=lambda loss: (-loss.round, -loss.time)):
        if one.party in clients and (one.party not in last or last[one.party].round - one.round <= 1):
            last[one.party] = one
    if not last:
        return Reason("every client was lost")
    ((step, action, number), count), *_ = Counter((o.step, o.action, o.round) for o in last.values()).most_common(1)
    return Reason(
        _EVERY_CLIENT_LOST, count=count, clients=len(clients), step=step or "the start", round=number, action=action
    )


# Which faults struck whom, and when: read off the world of a run.


class FaultRecord:
    """The effects of a run's faults, read from its world; `faults` are the expanded faults of each [[fault]]."""

    def __init__(self, world: World, faults: Sequence[tuple[Fault, ...]]) -> None:
        self._world, self._faults = world, faults
        self._falls: dict[str, list[Fired]] = {}
        self._known = 0  # of those that have struck, those that are in it

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        number_of = {id(fault): number for number, made in enumerate(self._faults) for fault in made}
        return [
            Strike(number_of.get(id(f.fault), -1), f.fault.kind, f.time, f.party, f.peer, f.step, f.message)
            for f in self._world.faults.fired
        ]

    def silent(self) -> dict[int, str]:
        """Each [[fault]] that has never struck, by its number, with the reason in words."""
        struck = {strike.fault for strike in self.strikes()}
        return {number: _missed(made) for number, made in enumerate(self._faults) if number not in struck}

    def fall(self, party: str, begin: float, end: float) -> Fired | None:
        """The last time between `begin` and `end` (seconds, both included) at which a fault took `party` down."""
        falls = [fired for fired in self.fallen.get(party, ()) if begin <= fired.time <= end]
        return falls[-1] if falls else None

    @property
    def fallen(self) -> Mapping[str, Sequence[Fired]]:
        """The faults that took parties down, by party, in order."""
        fired = self._world.faults.fired
        for one in fired[self._known :]:
            if isinstance(one.fault, PartyFault) and one.fault.spell == "down":
                self._falls.setdefault(one.party, []).append(one)
        self._known = len(fired)
        return self._falls

    def gone(self, party: str) -> str:
        """The way in which `party`, which is down, went down."""
        fall = self.fall(party, 0.0, self._world.loop.time())
        return fall.fault.went if fall is not None and isinstance(fall.fault, PartyFault) else "crashed"

    def noticed(self, loss: Loss, began: float) -> Loss:
        """Complete a `loss` that the server reported in a round that `began` then, by the step at which the party went
        down."""
        fall = self.fall(loss.party, began, loss.time)
        if fall is None or fall.step in ("", loss.step):
            return loss
        return Loss(loss.party, fall.step, f"missed at {loss.step}: {loss.action}", loss.round, loss.time)


def _missed(made: tuple[Fault, ...]) -> str:
    """The reason why a fault did not strike, in words."""
    if not made or len(made) > 1:
        return "the availability trace took nobody down before the run ended"
    (fault,) = made
    who = f"the {fault.kind} of {fault.get('party')}"
    if isinstance(fault, MessageFault):
        return f"{who} did not strike: no such message was sent while it could"
    return f"{who} did not strike: the run did not reach the point where it would"


C = TypeVar("C", bound=CalledClient)


class EndingsObserver(Generic[C]):
    """An observer that knows the faults that struck, and the end of each client's part."""

    def __init__(self, world: World, clients: Sequence[C], faults: Sequence[tuple[Fault, ...]]) -> None:
        self.world = world
        self._fault_record = FaultRecord(world, faults)
        self._named = Present(clients)
        self.helpers: Sequence[Device] = ()  # of parties besides the server and its clients

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
        """The losses that the `server` reported, with the steps at which parties went down, followed by unnoticed ones.

        `unmissed`: the text for unnoticed ones. `round_at`: the number of the round at a virtual time.
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
        """The end of the part of each client and helper; `noted`: also record it in the trace."""
        devices = dict(self._named.devices) | {device.name: device for device in self.helpers}
        found = {n: one.seen("ending") if one.alive else self._fault_record.gone(n) for n, one in devices.items()}
        for name, ending in found.items() if noted else ():
            self.world.note("outcome", name, note=ending)
        return found


def returned(server: Any) -> str:
    """The reason for the loss of a `server` that returned to a run of one round."""
    return "it is back, and the run ended" if server.aborted else "it is back before it began"
