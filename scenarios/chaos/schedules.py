"""The faults that `tacit chaos` tries: crashes at every step that was taken, pairs of them, and random mixtures.

Nothing here knows a protocol: which steps a party takes and which messages it sends, and how often, is read off the
trace of a run (`Course`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from msgspec import Struct

from tacit.scenarios.schema.scenario import Fault
from tacit.sim.streams import generator
from tacit.sim.trace import Event

__all__ = ["Course", "Schedule", "random_schedules", "single_crashes", "text"]

Schedule = tuple[Fault, ...]

_MOST_FAULTS = 4


class Course(Struct, frozen=True):
    """The course of a run that took `seconds` of virtual time.

    `steps`: party, step, how often it was entered. `messages`: sender, type, how often.
    """

    steps: tuple[tuple[str, str, int], ...]
    messages: tuple[tuple[str, str, int], ...]
    seconds: float

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Course":
        """The course of the run that left these events."""
        steps: Counter[tuple[str, str]] = Counter()
        messages: Counter[tuple[str, str]] = Counter()
        seconds = 0.0
        for event in events:
            seconds = event.time
            if event.kind == "enter":
                steps[event.party, event.step] += 1
            elif event.kind == "send":
                messages[event.party, event.type] += 1
        return cls(
            tuple((*key, count) for key, count in steps.items()),
            tuple((*key, count) for key, count in messages.items()),
            seconds,
        )


def text(fault: Fault) -> str:
    """The fault in one line, such as ``crash client/3 before lsh.hash``."""
    words = [fault.kind, fault.party or "*"]
    for key in ("peer", "at", "before", "after", "message", "time", "occurrence", "round", "probability",
                "back_after", "lasts", "factor", "by"):  # fmt: skip
        value = getattr(fault, key)
        if value not in (None, "", "*"):
            words.append(f"{key.replace('_', ' ')} {value}")
    return " ".join([*words, "one way"] if fault.one_way else words)


def single_crashes(course: Course, parties: Iterable[str] | None = None) -> Iterator[Schedule]:
    """A crash before and after each step that was taken, each time that it was; of `parties` only, if given."""
    chosen = None if parties is None else set(parties)
    for party, step, count in course.steps:
        if chosen is None or party in chosen:
            for occurrence in range(1, count + 1):
                later = None if occurrence == 1 else occurrence
                yield (Fault(party=party, before=step, occurrence=later),)
                yield (Fault(party=party, after=step, occurrence=later),)


def random_schedules(course: Course, count: int, seed: int, deadline: float) -> Iterator[Schedule]:
    """`count` schedules of one to four faults of all kinds, from the streams (seed, "chaos", number).

    Outages last from a part of the run to more than `deadline`, the longest wait of the server in seconds.
    """
    for number in range(count):
        draw = _Draw(course, generator(seed, "chaos", number), deadline, powerless=number % 4 == 3)
        yield tuple(draw.fault() for _ in range(draw.integer(1, _MOST_FAULTS)))


class _Draw:
    def __init__(
        self, course: Course, random: np.random.Generator, deadline: float, *, powerless: bool = False
    ) -> None:
        self._down: Literal["crash", "power"] = "power" if powerless else "crash"
        self._course, self._random, self._deadline = course, random, deadline
        self._parties = list(dict.fromkeys(party for party, _, _ in course.steps))
        self._clients = [party for party in self._parties if party != "server"]

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self._random.integers(low, high + 1))

    def fault(self) -> Fault:
        kinds = (
            self._crash, self._leave, self._pause, self._slow, self._link, self._link, self._lose, self._duplicate,
            self._delay, self._corrupt,
        )  # fmt: skip
        return kinds[self.integer(0, len(kinds) - 1)]()

    def _one(self, options: list[str]) -> str:
        return options[self.integer(0, len(options) - 1)]

    def _chance(self, share: float) -> bool:
        return float(self._random.random()) < share

    def _seconds(self, low: float, high: float) -> float:
        """Between the two, small ones as likely as large ones."""
        return round(float(np.exp(self._random.uniform(np.log(low), np.log(high)))), 3)

    def _outage(self) -> float:
        return self._seconds(max(self._course.seconds / 10, 0.001), 3 * self._deadline)

    def _party(self, server: float = 0.05) -> str:
        """A client, or with a small chance the server."""
        return "server" if self._chance(server) else self._one(self._clients)

    def _trigger(self, party: str) -> dict[str, object]:
        """The time of a fault of `party`: at one of its own steps, messages, or at a time."""
        steps = [(step, count) for who, step, count in self._course.steps if who == party]
        messages = [(kind, count) for who, kind, count in self._course.messages if who == party]
        way = self.integer(0, 4)
        if way == 4 or not steps:
            return {"time": round(float(self._random.uniform(0, self._course.seconds)), 3)}
        table, key = (messages, "message") if way == 3 and messages else (steps, ("before", "after")[way % 2])
        name, count = table[self.integer(0, len(table) - 1)]
        if self._chance(0.2):
            return {key: name, "probability": 0.5}
        occurrence = self.integer(1, count)
        return {key: name} if occurrence == 1 else {key: name, "occurrence": occurrence}

    def _crash(self) -> Fault:
        party = self._party(0.15)
        comes_back = self._chance(0.8 if party == "server" else 0.5)
        kind = "crash" if party == "server" else self._down
        return Fault(kind=kind, party=party, **self._trigger(party), back_after=self._outage() if comes_back else None)  # type: ignore[arg-type]

    def _leave(self) -> Fault:
        party = self._party()
        return Fault(kind="leave", party=party, **self._trigger(party))  # type: ignore[arg-type]

    def _pause(self) -> Fault:
        party = self._party(0.1)
        # A server that is paused for long is as good as lost to everybody.
        lasts = min(self._outage(), self._deadline / 4) if party == "server" else self._outage()
        return Fault(kind="pause", party=party, **self._trigger(party), lasts=lasts)  # type: ignore[arg-type]

    def _slow(self) -> Fault:
        party = self._one(self._clients)
        lasts = self._outage() if self._chance(0.5) else None
        return Fault(kind="slow", party=party, **self._trigger(party), factor=self._seconds(1, 1000), lasts=lasts)  # type: ignore[arg-type]

    def _ends(self) -> dict[str, object]:
        """A client, and the server, another client or everybody."""
        party = self._one(self._clients)
        others = [client for client in self._clients if client != party]
        peers = ["server", self._one(others or ["server"]), "client/*", "*"]
        return {"party": party, "peer": peers[self.integer(0, 7) // 2 if self._chance(0.4) else self.integer(0, 1)]}

    def _link(self) -> Fault:
        kind = ("partition", "hold")[self.integer(0, 1)]
        ends = self._ends()
        lasts = self._outage() if kind == "hold" or self._chance(0.8) else None
        trigger = self._trigger(str(ends["party"]))
        return Fault(kind=kind, **ends, **trigger, one_way=self._chance(0.3), lasts=lasts)  # type: ignore[arg-type]

    def _messages(self) -> dict[str, object]:
        """The messages that a fault applies to: some of one type, from one party or from all."""
        party, kind, _ = self._course.messages[self.integer(0, len(self._course.messages) - 1)]
        count = sum(times for _, other, times in self._course.messages if other == kind)
        if self._chance(0.3):
            return {"party": party, "message": kind, "probability": 0.3}
        return {"message": kind, "occurrence": self.integer(1, count)}

    def _lose(self) -> Fault:
        return Fault(kind="lose", **self._messages())  # type: ignore[arg-type]

    def _duplicate(self) -> Fault:
        return Fault(kind="duplicate", **self._messages())  # type: ignore[arg-type]

    def _delay(self) -> Fault:
        return Fault(kind="delay", **self._messages(), by=self._outage())  # type: ignore[arg-type]

    def _corrupt(self) -> Fault:
        return Fault(kind="corrupt", **self._messages())  # type: ignore[arg-type]
