"""The random parts of faults, drawn from the course of a run without faults.

Nothing here knows a protocol: which steps a party takes and which messages it sends, and how often, is read off the
trace of a run (`Course`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from tacit.parties.fleet.fleet import HELPER
from tacit.sim.faults import ANY
from tacit.sim.trace import Event

__all__ = ["Course", "Draw", "DrawEachRound"]


class Course(Struct, frozen=True):
    """The course of a run that took `seconds` of virtual time.

    `steps`: (party, step, number of entries). `messages`: (sender, type, number).
    """

    steps: tuple[tuple[str, str, int], ...]
    messages: tuple[tuple[str, str, int], ...]
    seconds: float

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Course":
        """The course of the run with these events."""
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


class Draw:
    """Draws the parts of a random fault for a run with that `course`: parties, times and durations.

    `deadline`: the longest wait of the server in seconds. `clients` are the clients that took part.
    """

    def __init__(self, course: Course, random: np.random.Generator, deadline: float) -> None:
        self.course, self._random, self.deadline = course, random, deadline
        parties = list(dict.fromkeys(party for party, _, _ in course.steps))
        self.clients = [party for party in parties if party.startswith("client/")]
        self.helpers = [party for party in parties if party == HELPER]

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from `low` to `high`, both included."""
        return int(self._random.integers(low, high + 1))

    def option(self, options: list[str]) -> str:
        """Draw one of the `options`."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, share: float) -> bool:
        """Return true with the probability `share`."""
        return float(self._random.random()) < share

    def seconds(self, low: float, high: float) -> float:
        """Draw a number of seconds from `low` to `high`, uniform in the logarithm."""
        return round(float(np.exp(self._random.uniform(np.log(low), np.log(high)))), 3)

    def outage(self) -> float:
        """Draw a duration in seconds, from a part of the run to more than the deadline."""
        return self.seconds(max(self.course.seconds / 10, 0.001), 3 * self.deadline)

    def party(self, server: float = 0.05) -> str:
        """Draw a party: a client or, with a small probability, the server or the helper, if there is one."""
        if self.helpers and self.chance(server):
            return HELPER
        return "server" if self.chance(server) else self.option(self.clients)

    def client(self) -> str:
        """Draw a client."""
        return self.option(self.clients)

    def trigger(self, party: str) -> dict[str, Any]:
        """Draw the trigger of a fault of `party`: one of its steps or messages, or a time."""
        steps = [(step, count) for who, step, count in self.course.steps if who == party]
        messages = [(kind, count) for who, kind, count in self.course.messages if who == party]
        way = self.integer(0, 4)
        if way == 4 or not steps:
            return {"time": round(float(self._random.uniform(0, self.course.seconds)), 3)}
        table, key = (messages, "message") if way == 3 and messages else (steps, ("before", "after")[way % 2])
        name, count = table[self.integer(0, len(table) - 1)]
        if self.chance(0.2):
            return {key: name, "probability": 0.5}
        occurrence = self.integer(1, count)
        return {key: name} if occurrence == 1 else {key: name, "occurrence": occurrence}

    def ends(self) -> dict[str, Any]:
        """Draw two ends: a client or a helper; and the server, another client or all parties."""
        party = HELPER if self.helpers and self.chance(0.15) else self.option(self.clients)
        others = [client for client in self.clients if client != party]
        peers = ["server", self.option(others or ["server"]), "client/*", "*"]
        return {"party": party, "peer": peers[self.integer(0, 7) // 2 if self.chance(0.4) else self.integer(0, 1)]}

    def messages(self) -> dict[str, Any]:
        """Draw the messages that a fault applies to: some of one type, from one party or from all."""
        party, kind, _ = self.course.messages[self.integer(0, len(self.course.messages) - 1)]
        count = sum(times for _, other, times in self.course.messages if other == kind)
        if self.chance(0.3):
            return {"party": party, "message": kind, "probability": 0.3}
        return {"message": kind, "occurrence": self.integer(1, count)}


class DrawEachRound(Draw):
    """Draws the parts of a fault that strikes a share or a number of the clients, drawn again in each round."""

    def client(self) -> str:
        """The pattern of all clients."""
        return "client/*"

    def party(self, server: float = 0.0) -> str:
        """The pattern of all clients."""
        return self.client()

    def trigger(self, party: str) -> dict[str, Any]:
        """Draw a share of up to a half of the clients, or a number of them, and one, two or all of their steps."""
        taken = list(dict.fromkeys(step for who, step, _ in self.course.steps if who in self.clients))
        steps = [self.option(taken) for _ in range(self.integer(0, 2))]
        most = max(1, len(self.clients) // 2)
        keys = {"count": self.integer(1, most)} if self.chance(0.5) else {"share": self.integer(1, 5) / 10}
        return keys | {"step": tuple(dict.fromkeys(steps)) or ANY}

    def ends(self) -> dict[str, Any]:
        """Draw the other end of the clients' links: the server or all parties."""
        return {"party": self.client(), "peer": "server" if self.chance(0.8) else "*"}
