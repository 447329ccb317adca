"""Which faults struck whom, and when: read off the world of a run."""

from collections.abc import Mapping, Sequence

from tacit.parties.server import Loss
from tacit.protocols.observing.simulated import Strike
from tacit.sim.faults import Fault, Fired, MessageFault, PartyFault
from tacit.sim.world import World

__all__ = ["FaultRecord"]


class FaultRecord:
    """What the faults of a run did, read off its world; `faults` are those that each [[fault]] stands for."""

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
        """Each [[fault]] that has not struck once, by its number, with why it did not, in words."""
        struck = {strike.fault for strike in self.strikes()}
        return {number: _missed(made) for number, made in enumerate(self._faults) if number not in struck}

    def fall(self, party: str, begin: float, end: float) -> Fired | None:
        """The last time between `begin` and `end` (seconds, both included) that a fault took `party` down."""
        falls = [fired for fired in self.fallen.get(party, ()) if begin <= fired.time <= end]
        return falls[-1] if falls else None

    @property
    def fallen(self) -> Mapping[str, Sequence[Fired]]:
        """What took each party down that ever fell, in order."""
        fired = self._world.faults.fired
        for one in fired[self._known :]:
            if isinstance(one.fault, PartyFault) and one.fault.spell == "down":
                self._falls.setdefault(one.party, []).append(one)
        self._known = len(fired)
        return self._falls

    def gone(self, party: str) -> str:
        """How `party`, which is down, went."""
        fall = self.fall(party, 0.0, self._world.loop.time())
        return fall.fault.went if fall is not None and isinstance(fall.fault, PartyFault) else "crashed"

    def noticed(self, loss: Loss, began: float) -> Loss:
        """A `loss` that the server reported in a round that `began` then, with the step at which the party fell."""
        fall = self.fall(loss.party, began, loss.time)
        if fall is None or fall.step in ("", loss.step):
            return loss
        return Loss(loss.party, fall.step, f"missed at {loss.step}: {loss.action}", loss.round, loss.time)


def _missed(made: tuple[Fault, ...]) -> str:
    """Why a fault did not strike, in words."""
    if not made or len(made) > 1:
        return "the availability trace took nobody down before the run ended"
    (fault,) = made
    who = f"the {fault.kind} of {fault.get('party')}"
    if isinstance(fault, MessageFault):
        return f"{who} did not strike: no such message was sent while it could"
    return f"{who} did not strike: the run did not reach the point where it would"
