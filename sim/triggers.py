"""When the faults of a run strike."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from sim.faults import Fault, Fired, Hold, Lose, MessageFault, Partition, PartyFault
from sim.streams import generator

__all__ = ["Faults"]


class Faults:
    """All faults of a run, and how often what triggers them has come. `fired` lists those that struck, in order."""

    def __init__(self, faults: Iterable[Fault] = (), seed: int = 0) -> None:
        numbered = list(enumerate(faults))
        self._seed = seed
        self._of_parties = [(number, fault) for number, fault in numbered if isinstance(fault, PartyFault)]
        self._of_messages = [(number, fault) for number, fault in numbered if isinstance(fault, MessageFault)]
        self._steps = [item for item in self._of_parties if item[1].before or item[1].after]
        self._sends = [item for item in self._of_parties if item[1].message]
        self._reached: Counter[tuple[str, str]] = Counter()
        self._sent: Counter[tuple[str, str]] = Counter()
        self._matched: Counter[int] = Counter()
        self._streams: dict[tuple[int, str, str], np.random.Generator] = {}
        self.fired: list[Fired] = []

    @property
    def of_links(self) -> bool:
        """Whether there are any that the network must look out for."""
        return bool(self._of_messages) or any(isinstance(fault, Partition | Hold) for _, fault in self._of_parties)

    def timed(self, party: str) -> list[PartyFault]:
        """The faults of `party` at a virtual time."""
        return [fault for _, fault in self._of_parties if fault.time is not None and fault.strikes(party)]

    def at_step(self, party: str, step: str, when: str) -> list[PartyFault]:
        """The faults that are due now that `party` is `when` ("before" or "after") the `step`."""
        if not self._steps:
            return []
        if when == "before":
            self._reached[party, step] += 1
        due = [item for item in self._steps if getattr(item[1], when) == step and item[1].strikes(party)]
        return self._due(due, party, self._reached[party, step])

    def at_send(self, party: str, message: str) -> list[PartyFault]:
        """The faults that are due now that `party` is about to send a message of the type `message`."""
        if not self._sends:
            return []
        self._sent[party, message] += 1
        due = [item for item in self._sends if item[1].message == message and item[1].strikes(party)]
        return self._due(due, party, self._sent[party, message])

    def of_message(self, sender: str, receiver: str, message: str, now: float, *, again: bool) -> list[MessageFault]:
        """The faults that strike a message as it is sent; `again`: one more copy of it, because one was lost."""
        struck = []
        for number, fault in self._of_messages:
            if not fault.matches(sender, receiver, message, now):
                continue
            certain = fault.occurrence or (1 if fault.probability is None and fault.time is None else 0)
            if again and (certain or not isinstance(fault, Lose)):
                continue
            self._matched[number] += 1
            if certain:
                strikes = self._matched[number] == certain
            else:
                strikes = fault.probability is None or self._chance(number, sender, fault.probability)
            if strikes:
                struck.append(fault)
        return struck

    def bit(self, fault: Fault, sender: str, bits: int) -> int:
        """Which of so many `bits` of a message the `fault` flips."""
        number = next(number for number, other in self._of_messages if other is fault)
        return int(self._stream(number, sender, "bit").integers(bits))

    def _due(self, faults: list[tuple[int, PartyFault]], party: str, count: int) -> list[PartyFault]:
        return [
            fault
            for number, fault in faults
            if (
                count == (fault.occurrence or 1)
                if fault.probability is None
                else self._chance(number, party, fault.probability)
            )
        ]

    def _chance(self, number: int, party: str, probability: float) -> bool:
        return self._stream(number, party, "chance").random() < probability

    def _stream(self, number: int, party: str, purpose: str) -> np.random.Generator:
        key = (number, party, purpose)
        if key not in self._streams:
            self._streams[key] = generator(self._seed, "fault", number, party, purpose)
        return self._streams[key]
