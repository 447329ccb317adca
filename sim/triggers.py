"""The triggers of faults: at which moments of a run they are applied."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from operator import itemgetter
from typing import Any

import numpy as np

from tacit.sim.faults import Fault, Fired, LinkFault, MessageFault, PartyFault
from tacit.sim.streams import generator

__all__ = ["Faults", "Population"]

_WILD = frozenset("*?[")

_ROUNDS = 16
"""The most rounds whose draws are kept; parties of asynchronous protocols are in different rounds."""


@dataclass(frozen=True)
class Population:
    """The `parties` among which faults with a share or a count are drawn, in order, and the `steps` of a round."""

    parties: Sequence[str] = ()
    steps: Sequence[str] = ()


class Faults:
    """All faults of a run, and the counts of their triggers. `fired` lists the applied faults, in order.

    Faults with a share or a count draw from the `population` in each round.
    """

    def __init__(self, faults: Iterable[Fault] = (), seed: int = 0, population: Population | None = None) -> None:
        numbered = list(enumerate(faults))
        self._seed = seed
        self._of_parties = [(number, fault) for number, fault in numbered if isinstance(fault, PartyFault)]
        self._of_messages = [(number, fault) for number, fault in numbered if isinstance(fault, MessageFault)]
        self._steps = [item for item in self._of_parties if item[1].start is not None or item[1].after is not None]
        self._drawn = [item for item in self._of_parties if item[1].is_drawn]
        self._population = population or Population()
        self._draws: dict[tuple[int, int], dict[str, int]] = {}  # by number and round: the place of the step by party
        self._struck: dict[tuple[int, str], int] = {}  # by number and party: the last round in which it was struck
        self._sends = [item for item in self._of_parties if item[1].message]
        self._timed: dict[str, list[tuple[int, PartyFault]]] = {}  # by name or pattern
        for number, fault in self._of_parties:
            if fault.time is not None:
                self._timed.setdefault(fault.party, []).append((number, fault))
        patterns = [translate(pattern) for pattern in self._timed if set(pattern) & _WILD]
        self._patterns = re.compile("|".join(patterns)) if patterns else None
        self._reached: Counter[tuple[str, str]] = Counter()
        self._sent: Counter[tuple[str, str]] = Counter()
        self._earlier: dict[tuple[str, str, str], tuple[int, int]] = {}  # the round that counts, the count before it
        self._by_round = any(fault.round is not None for _, fault in self._of_parties)
        self._matched: Counter[int] = Counter()
        self._streams: dict[tuple[int, str, str], np.random.Generator] = {}
        self.fired: list[Fired] = []

    @property
    def of_links(self) -> bool:
        """True if any fault concerns messages or links, so that the network must check each message."""
        return bool(self._of_messages) or any(isinstance(fault, LinkFault) for _, fault in self._of_parties)

    def timed(self, party: str) -> list[PartyFault]:
        """The faults of `party` that a virtual time triggers."""
        if not self._timed:
            return []
        numbered = self._timed.get(party, [])
        if self._patterns is not None and self._patterns.match(party):
            for pattern, faults in self._timed.items():
                if pattern != party and faults[0][1].applies_to(party):
                    numbered = numbered + faults
            numbered.sort(key=itemgetter(0))
        return [fault for _, fault in numbered]

    def reached(self, party: str, step: str) -> int:
        """The number of times that `party` has reached the `step`, counted only if a fault needs it."""
        return self._reached[party, step]

    def at_step(
        self, party: str, step: str, when: str, round_number: int, number: int | None = None
    ) -> list[PartyFault]:
        """The faults that are triggered now, as `party` is `when` ("before" or "after") the `step`.

        `round_number` is the round in which the step was begun. `number` is the occurrence of the step that has ended,
        needed if a party takes the step several times at once; the default is the last.
        """
        if not self._steps:
            return self._due_by_draw(party, step, round_number) if self._drawn and when == "before" else []
        if when == "before":
            self._reached[party, step] += 1
            self._enter(("step", party, step), round_number, self._reached[party, step])
        side = "start" if when == "before" else "after"
        at = [item for item in self._steps if getattr(item[1], side) == step and item[1].applies_to(party)]
        due = self._due(at, ("step", party, step), number or self._reached[party, step])
        if self._drawn and when == "before":
            due += self._due_by_draw(party, step, round_number)
        return due

    @property
    def strike_sends(self) -> bool:
        """True if a fault is triggered by the sending of messages."""
        return bool(self._sends)

    def at_send(self, party: str, message: str, round_number: int) -> list[PartyFault]:
        """The faults that are triggered now, as `party` is about to send a message of the type `message` in a round."""
        if not self._sends:
            return []
        self._sent[party, message] += 1
        self._enter(("send", party, message), round_number, self._sent[party, message])
        due = [item for item in self._sends if item[1].message == message and item[1].applies_to(party)]
        return self._due(due, ("send", party, message), self._sent[party, message])

    def of_message(
        self, sender: str, receiver: str, message: str, now: float, round_number: int, *, again: bool
    ) -> list[MessageFault]:
        """The faults that apply to a message as it is sent; `again`: a retransmitted copy."""
        applied = []
        for number, fault in self._of_messages:
            if not fault.matches(sender, receiver, message, now, round_number):
                continue
            certain = fault.occurrence or (1 if fault.probability is None and fault.time is None else 0)
            if again and (certain or not fault.again):
                continue
            self._matched[number] += 1
            if certain:
                applies = self._matched[number] == certain
            else:
                applies = fault.probability is None or self._chance(number, sender, fault.probability)
            if applies:
                applied.append(fault)
        return applied

    def bit(self, fault: Fault, sender: str, bits: int) -> int:
        """The index of the bit, of `bits` bits of a message, that the `fault` flips."""
        number = next(number for number, other in self._of_messages if other is fault)
        return int(self._stream(number, sender, "bit").integers(bits))

    def state(self) -> dict[str, Any]:
        """The counts so far, and the state of each random stream."""
        return {
            "reached": list(self._reached.items()),
            "sent": list(self._sent.items()),
            "matched": list(self._matched.items()),
            "earlier": list(self._earlier.items()),
            "streams": [(key, _position(stream)) for key, stream in self._streams.items()],
            "struck": list(self._struck.items()),
            "fired": self.fired,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`."""
        self._reached.update(dict(state["reached"]))
        self._sent.update(dict(state["sent"]))
        self._matched.update(dict(state["matched"]))
        self._earlier.update(dict(state["earlier"]))
        self._struck.update((tuple(key), round_number) for key, round_number in state.get("struck", ()))
        self.fired[:] = state["fired"]
        for key, position in state["streams"]:
            self._stream(*key).bit_generator.state = _from_position(position)

    @property
    def all(self) -> dict[str, Fault]:
        """Every fault under a unique name."""
        return {f"fault {number}": fault for number, fault in (*self._of_parties, *self._of_messages)}

    def _enter(self, place: tuple[str, str, str], round_number: int, count: int) -> None:
        """Note that the `count`-th occurrence of a step or message at `place` is the first in a round, if it is."""
        current = max(1, round_number)  # enrolment, before the first round, belongs to it
        if self._by_round and self._earlier.get(place, (0, 0))[0] != current:
            self._earlier[place] = current, count - 1

    def _due(self, faults: list[tuple[int, PartyFault]], place: tuple[str, str, str], count: int) -> list[PartyFault]:
        current, earlier = self._earlier.get(place, (0, 0))
        due = []
        for number, fault in faults:
            if fault.round not in (None, current):
                continue
            if fault.probability is not None:
                applies = self._chance(number, place[1], fault.probability)
            else:
                applies = count - (earlier if fault.round else 0) == (fault.occurrence or 1)
            if applies:
                due.append(fault)
        return due

    def _due_by_draw(self, party: str, step: str, round_number: int) -> list[PartyFault]:
        """The faults with a share or a count that strike `party` before this step of its round."""
        current, due = max(1, round_number), list[PartyFault]()
        for number, fault in self._drawn:
            steps = self._population.steps if fault.steps is None else fault.steps
            if step not in steps or fault.round not in (None, current) or not fault.applies_to(party):
                continue
            place = self._drawn_in(number, fault, current, len(steps)).get(party)
            if place is not None and step in steps[place:] and self._struck.get((number, party), 0) < current:
                self._struck[number, party] = current
                due.append(fault)
        return due

    def _drawn_in(self, number: int, fault: PartyFault, round_number: int, steps: int) -> dict[str, int]:
        """The parties that a fault strikes in a round, with the place of the step from which on it does."""
        key = number, round_number
        if key not in self._draws:
            names = [name for name in self._population.parties if fault.applies_to(name)]
            stream = generator(self._seed, "fault", number, "share", round_number)
            chances, places = stream.random(len(names)), (stream.random(len(names)) * steps).astype(int)
            if fault.count is None:
                struck = np.flatnonzero(chances < (fault.share or 0.0))
            else:
                struck = np.sort(np.argsort(chances, kind="stable")[: fault.count])
            if len(self._draws) == _ROUNDS:
                del self._draws[next(iter(self._draws))]
            self._draws[key] = {names[one]: int(places[one]) for one in struck}
        return self._draws[key]

    def _chance(self, number: int, party: str, probability: float) -> bool:
        return self._stream(number, party, "chance").random() < probability

    def _stream(self, number: int, party: str, purpose: str) -> np.random.Generator:
        key = (number, party, purpose)
        if key not in self._streams:
            self._streams[key] = generator(self._seed, "fault", number, party, purpose)
        return self._streams[key]


def _position(stream: np.random.Generator) -> list[Any]:
    """The state of a Philox generator."""
    state: Any = stream.bit_generator.state
    inner = state["state"]
    return [
        *(array.tolist() for array in (inner["counter"], inner["key"], state["buffer"])),
        state["buffer_pos"], state["has_uint32"], state["uinteger"],
    ]  # fmt: skip


def _from_position(position: list[Any]) -> dict[str, Any]:
    counter, key, buffer = (np.array(words, np.uint64) for words in position[:3])
    place, has_half, half = position[3:]
    return {
        "bit_generator": "Philox", "state": {"counter": counter, "key": key}, "buffer": buffer,
        "buffer_pos": place, "has_uint32": has_half, "uinteger": half,
    }  # fmt: skip
