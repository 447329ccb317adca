"""The chaos part of each kind of fault (`tacit.sim.faults`): its random choice, and the parties that it affects.

A kind has an entry in `CHAOS`; other modules of chaos do not name kinds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.scenarios.chaos.drawing import Draw, DrawEachRound
from tacit.scenarios.files.fault_checks import matching
from tacit.sim.faults import (
    Corrupt,
    Crash,
    Delay,
    Duplicate,
    Fault,
    Fired,
    Hold,
    Leave,
    Lose,
    Partition,
    PartyFault,
    Pause,
    Power,
    Slow,
    optional,
    seconds,
)

__all__ = ["Reach", "affected", "fault_of_each_round", "faults_of_message", "random_fault"]


@dataclass(frozen=True)
class Reach:
    """The parameters of a fault's effect: the `clients` with the helpers, the `deadline` and the transport's `timeout`
    (0 if none) in seconds."""

    clients: Sequence[str]
    deadline: float
    timeout: float

    def settled(self, time: float, lasts: float) -> float:
        """The time at which no retransmission is left of a link that was cut until `time`, for `lasts` seconds."""
        return time + (2 * lasts + 4 * self.timeout if self.timeout else 0.0)

    def link(self, *ends: str) -> list[str]:
        """The ends of a link that are clients or helpers."""
        return [end for end in ends if end in self.clients]


Until = tuple[list[str], float]
"""The parties that a fault affects, and the virtual time in seconds until which it does; infinity means to the end."""


def random_fault(draw: Draw) -> Fault:
    """A fault of a random kind."""
    drawn = [kind.drawn for kind in CHAOS.values()]
    return drawn[draw.integer(0, len(drawn) - 1)](draw)


def fault_of_each_round(draw: DrawEachRound) -> Fault:
    """A fault of a random kind of a share or a number of the clients, drawn again in each round."""
    drawn = [functions.drawn for kind, functions in CHAOS.items() if issubclass(kind, PartyFault)]
    return drawn[draw.integer(0, len(drawn) - 1)](draw)


def affected(reach: Reach, fired: Fired) -> Until:
    """The parties that an applied fault affects, and the time until which it does."""
    return CHAOS[type(fired.fault)].affects(reach, fired.fault, fired)


def _crash(draw: Draw) -> Fault:
    return Crash(**_fall(draw))


def _power(draw: Draw) -> Fault:
    return Power(**_fall(draw))


def _fall(draw: Draw) -> dict[str, Any]:
    party = draw.party(0.15)
    comes_back = draw.chance(0.8 if party == "server" else 0.5)
    trigger = draw.trigger(party)
    return {"party": party, **trigger, "back_after": draw.outage() if comes_back else None}


def _affected_by_crash(reach: Reach, fault: Crash, fired: Fired) -> Until:
    back = optional(fault.back_after)
    return [fired.party], math.inf if back is None else fired.time + back


def _leave(draw: Draw) -> Fault:
    party = draw.party()
    return Leave(party, **draw.trigger(party))


def _affected_by_leave(reach: Reach, fault: Leave, fired: Fired) -> Until:
    return [fired.party], math.inf


def _pause(draw: Draw) -> Fault:
    party = draw.party(0.1)
    # Everybody would give up a server that is paused for long.
    lasts = min(draw.outage(), draw.deadline / 4) if party == "server" else draw.outage()
    return Pause(party, **draw.trigger(party), lasts=lasts)


def _affected_by_pause(reach: Reach, fault: Pause, fired: Fired) -> Until:
    until = fired.time + seconds(fault.lasts)
    if fired.party != "server":
        return [fired.party], until
    return list(reach.clients) if seconds(fault.lasts) >= reach.deadline / 2 else [], until


def _slow(draw: Draw) -> Fault:
    party = draw.client()
    lasts = draw.outage() if draw.chance(0.5) else None
    return Slow(party, **draw.trigger(party), factor=draw.seconds(1, 1000), lasts=lasts)


def _affected_by_slow(reach: Reach, fault: Slow, fired: Fired) -> Until:
    # Computations and transfers that began while the party was slow end late, too.
    until = math.inf if fault.lasts is None else fired.time + seconds(fault.lasts) + reach.deadline
    return list(reach.clients) if fired.party == "server" else [fired.party], until


def _link(draw: Draw) -> Fault:
    make = (Partition, Hold)[draw.integer(0, 1)]
    ends = draw.ends()
    lasts = draw.outage() if make is Hold or draw.chance(0.8) else None
    trigger = draw.trigger(ends["party"])
    return make(**ends, **trigger, one_way=draw.chance(0.3), lasts=lasts)  # type: ignore[arg-type]


def _affected_by_link(reach: Reach, fault: Partition | Hold, fired: Fired) -> Until:
    ends = {fired.party, *matching(fault.peer, ["server", *reach.clients])}
    lasts = math.inf if fault.lasts is None else seconds(fault.lasts)
    return reach.link(*ends), reach.settled(fired.time + lasts, lasts)


def _lose(draw: Draw) -> Fault:
    return Lose(**draw.messages())


def _duplicate(draw: Draw) -> Fault:
    return Duplicate(**draw.messages())


def _delay(draw: Draw) -> Fault:
    return Delay(**draw.messages(), by=draw.outage())


def _corrupt(draw: Draw) -> Fault:
    return Corrupt(**draw.messages())


def faults_of_message(party: str, message: str, occurrence: int, delay: float) -> Sequence[Fault]:
    """One fault of each kind for the `occurrence`-th `message` of `party`; a delay is of `delay` seconds."""
    where: dict[str, Any] = {"party": party, "message": message, "occurrence": occurrence}
    return Lose(**where), Duplicate(**where), Delay(**where, by=delay), Corrupt(**where)


def _affected_by_message(reach: Reach, fault: Fault, fired: Fired) -> Until:
    by = optional(fault.get("by")) or 0.0
    return reach.link(fired.party, fired.peer), reach.settled(fired.time + by, by)


def _nobody(reach: Reach, fault: Fault, fired: Fired) -> Until:
    return [], -math.inf


@dataclass(frozen=True)
class _Kind:
    """The functions of a kind of fault: `drawn` makes a random one, `affects` gives the effect of an applied one."""

    drawn: Callable[[Draw], Fault]
    affects: Callable[[Reach, Any, Fired], Until]


CHAOS: dict[type[Fault], _Kind] = {
    Crash: _Kind(_crash, _affected_by_crash),
    Power: _Kind(_power, _affected_by_crash),
    Leave: _Kind(_leave, _affected_by_leave),
    Pause: _Kind(_pause, _affected_by_pause),
    Slow: _Kind(_slow, _affected_by_slow),
    Partition: _Kind(_link, _affected_by_link),
    Hold: _Kind(_link, _affected_by_link),
    Lose: _Kind(_lose, _affected_by_message),
    Duplicate: _Kind(_duplicate, _nobody),
    Delay: _Kind(_delay, _affected_by_message),
    Corrupt: _Kind(_corrupt, _affected_by_message),
}
"""The functions of each kind of fault. Availability traces have none, because they expand to crashes."""
