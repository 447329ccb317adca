"""When the faults of a run strike."""

from collections.abc import Iterable

from sim.faults import Crash, Fault

__all__ = ["Faults"]


class Faults:
    """All faults of a run. `fired` lists those that happened, in order."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = [fault for fault in faults if isinstance(fault, Crash)]
        self._reached: dict[tuple[str, str], int] = {}
        self.fired: list[Fault] = []

    def timed(self, party: str) -> list[Crash]:
        """The crashes of `party` at a virtual time."""
        return [fault for fault in self._faults if fault.party == party and fault.time is not None]

    def at_step(self, party: str, step: str, when: str) -> Crash | None:
        """The crash that is due now that `party` is `when` ("before" or "after") the `step`, if there is one."""
        if when == "before":
            self._reached[party, step] = self._reached.get((party, step), 0) + 1
        reached = self._reached.get((party, step), 0)
        for fault in self._faults:
            if fault.party == party and getattr(fault, when) == step and (fault.occurrence or 1) == reached:
                return fault
        return None
