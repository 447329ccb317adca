"""Presence as a part of every protocol: heartbeats, checks of its keys, and promises.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| presence.heartbeat | Heartbeat | client -> server | 0 | it is there; each interval, with `presence = heartbeat` |

Heartbeats are counted in a run and in its prediction. They are outside of the formula of a protocol: their number
depends on the duration of the run, one for each interval in which a client is up. `tacit.parties.presence` describes
how the server detects that clients are gone. The server learns when each client is present, and no value (semi-honest
parties); thresholds of sums are those of the protocol.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tacit.parties.presence import BEAT, Heartbeat
from tacit.protocols.parts import Choice, Part, Step
from tacit.protocols.promises import Affected, Promise, Trial
from tacit.sim.conditions import CONNECTION, HEARTBEAT
from tacit.sim.setting_error import Problem
from tacit.sim.trace import Fact
from tacit.sim.units import duration
from tacit.sim.wire import Message

__all__ = ["PRESENCE"]


def who_is_gone_was_affected(trial: Trial, affected: Affected) -> Iterator[str]:
    """A server considers only those clients gone that a fault affected."""
    for event in trial.events:
        if event.fact == Fact.GONE and event.party not in affected:
            yield f"{event.party} was {event.note} at {event.time:g} s, and no fault affected it"


def who_closed_was_down(trial: Trial, affected: Affected) -> Iterator[str]:
    """A server sees a connection closed only after its client's process has ended, and before it is back."""
    down = set[str]()
    for event in trial.events:
        if event.fact == Fact.DOWN:
            down.add(event.party)
        elif event.fact == Fact.OVER and event.detail == Fact.DOWN:
            down.discard(event.party)
        elif event.fact == Fact.GONE and event.party not in down:
            yield f"{event.party} was {event.note} at {event.time:g} s, and was up"


class Connections(Part):
    """The end of each connection, as the server sees it, without a message."""

    messages: Sequence[type[Message]] = ()

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return {"only clients that are down close connections": Promise(who_closed_was_down)}

    def check_tables(self, tables: Any) -> None:
        if tables.network.transport != "tcp":
            problem = f'"{CONNECTION}" needs network.transport = "tcp"; allowed here: "none", "{HEARTBEAT}"'
            raise Problem("protocol.presence", problem)


class Heartbeats(Part):
    """Messages without content from each client in each interval; their number depends on the duration of the run."""

    takes = (Step("client", BEAT, "say that it is there, each interval; with `presence = heartbeat`"),)
    messages: Sequence[type[Message]] = (Heartbeat,)

    def check_tables(self, tables: Any) -> None:
        if duration(tables.protocol.heartbeat) == 0:
            raise Problem("protocol.heartbeat", "0 s leaves no time between heartbeats; allowed: above 0 s")

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return {"only clients with faults are gone": Promise(who_is_gone_was_affected)}


PRESENCE = Choice("protocol.presence", {CONNECTION: Connections(), HEARTBEAT: Heartbeats()})
