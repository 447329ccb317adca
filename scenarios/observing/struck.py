"""Which faults struck whom, and when, and how clients ended: what every observer has to say."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from parties.life import Present
from parties.server import Loss
from protocols.rounds import CalledClient
from scenarios.observing.simulated import Strike
from sim.faults import Crash, Fault, Fired, Leave, MessageFault
from sim.world import World

__all__ = ["EndingsObserver", "Struck"]


class Struck:
    """Reads off the world what faults did; `faults` are those that each [[fault]] stands for."""

    def __init__(self, world: World, faults: Sequence[tuple[Fault, ...]]) -> None:
        self._world, self._faults = world, faults

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        number_of = {id(fault): number for number, made in enumerate(self._faults) for fault in made}
        return [
            Strike(number_of[id(f.fault)], f.fault.kind, f.time, f.party, f.peer, f.step, f.message)
            for f in self._world.faults.fired
        ]

    def silent(self) -> dict[int, str]:
        """What did not come, of each [[fault]] that has not struck once."""
        struck = {strike.fault for strike in self.strikes()}
        return {number: _missed(made) for number, made in enumerate(self._faults) if number not in struck}

    def fall(self, party: str, begin: float, end: float) -> Fired | None:
        """The last time between `begin` and `end` (seconds, both included) that a fault took `party` down."""
        falls = [
            fired
            for fired in self._world.faults.fired
            if fired.party == party and isinstance(fired.fault, Crash | Leave) and begin <= fired.time <= end
        ]
        return falls[-1] if falls else None

    def gone(self, party: str) -> str:
        """How `party`, which is down, went."""
        fall = self.fall(party, 0.0, self._world.loop.time())
        return "left" if fall is not None and isinstance(fall.fault, Leave) else "crashed"

    def noticed(self, loss: Loss, began: float) -> Loss:
        """A `loss` that the server told of in a round that `began` then, with the step at which the party fell."""
        fall = self.fall(loss.party, began, loss.time)
        if fall is None or fall.step in ("", loss.step):
            return loss
        return Loss(loss.party, fall.step, f"missed at {loss.step}: {loss.action}", loss.round, loss.time)


C = TypeVar("C", bound=CalledClient)


class EndingsObserver(Generic[C]):
    """What observers of all protocols have in common: which faults struck, and how each client's part ended."""

    def __init__(self, world: World, clients: Sequence[C], faults: Sequence[tuple[Fault, ...]]) -> None:
        self.world = world
        self._struck = Struck(world, faults)
        self._named = Present(clients)

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        return self._struck.strikes()

    def endings(self, *, noted: bool = True) -> dict[str, str]:
        """How each client's part ended; `noted` in the trace."""
        found = {n: one.ending if one.alive else self._struck.gone(n) for n, one in self._named.items()}
        for name, ending in found.items() if noted else ():
            self.world.note("outcome", name, note=ending)
        return found


def _missed(made: tuple[Fault, ...]) -> str:
    """That a fault never came, in words."""
    if not made or len(made) > 1:
        return "the availability trace took nobody down before the run ended"
    (fault,) = made
    who = f"the {fault.kind} of {fault.party}"
    if isinstance(fault, MessageFault):
        return f"{who} never came: no such message was sent when it might strike"
    return f"{who} never came: it did not get to where it should strike"
