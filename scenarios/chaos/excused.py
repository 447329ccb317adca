"""The parties that the faults of a run affect, and until when: nobody else may be lost, or miss anything."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from scenarios.chaos.trial import Trial
from scenarios.observing.faults import matching
from sim.faults import (
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
    Pause,
    Slow,
)
from sim.units import duration

__all__ = ["Affected"]

_LOST = ("lost on the link", "lost by a fault", "cut off by a partition")
"""How the trace says that a copy was lost where a reliable transport sends it again."""

_SENT_AGAIN = "sent again: "

_LONGEST_WAIT = 60.0
"""Seconds between two copies; written down here once more, as promises share no code with what they check."""


class Affected:
    """For each party that a fault affected, the virtual time until when it is affected, infinity for good.

    A fault of a link affects its ends that are clients. A server that is slow or paused for less than half of a
    deadline affects no client; for longer, it affects everybody. Of two clients that are up, and
    whose block is missing because of one, the other may have to leave the graph as well.
    """

    def __init__(self, trial: Trial) -> None:
        self._clients = [client.name for client in trial.simulation.clients]
        network = trial.scenario.network
        self._timeout = duration(network.retransmission_timeout) if network.transport == "reliable" else 0.0
        self._deadline = duration(trial.scenario.protocol.deadline)
        self.until: dict[str, float] = {}
        for fired in trial.fired:
            ends, until = _SUFFERING[type(fired.fault)](self, fired)
            self._add(ends, until)
        for parties, until in self._resent(trial):
            self._add(parties, until)
        for pair, time in _without_block(trial):
            if any(client in self for client in pair):
                self._add(pair, time)

    def __contains__(self, party: str) -> bool:
        return party in self.until

    @property
    def clients(self) -> set[str]:
        """The clients that were affected."""
        return set(self.until) - {"server"}

    def well_since(self, party: str, time: float) -> bool:
        """Whether no fault affects `party` at `time` or later."""
        return self.until.get(party, -math.inf) < time

    def _add(self, parties: Iterable[str], until: float) -> None:
        for party in parties:
            self.until[party] = max(until, self.until.get(party, -math.inf))

    def _resent(self, trial: Trial) -> Iterator[tuple[list[str], float]]:
        """The parties that wait for a copy that was lost, and until when it has been sent again, as RFC 6298 spaces it.

        A receiver gets nothing that was sent after it before. The trace says how often it was sent already.
        """
        tries: dict[bytes, int] = {}
        for event in trial.events:
            if event.note.startswith(_SENT_AGAIN):
                tries[event.digest] = int(event.note.removeprefix(_SENT_AGAIN))
            elif event.kind == "lose" and event.note in _LOST:
                wait = min(self._timeout * 2 ** tries.get(event.digest, 0), _LONGEST_WAIT)
                yield self._link(event.party, event.peer), self._settled(event.time + wait, 0.0)

    def _settled(self, time: float, lasts: float) -> float:
        """The time at which a link that was cut until `time`, for `lasts` seconds, has nothing more to send again."""
        return time + (2 * lasts + 4 * self._timeout if self._timeout else 0.0)

    def _link(self, *ends: str) -> list[str]:
        """The ends of a link that are clients."""
        return [end for end in ends if end in self._clients]

    # One for each kind of fault: who suffers, and until when.

    def crash(self, fired: Fired) -> tuple[list[str], float]:
        assert isinstance(fired.fault, Crash)
        back = fired.fault.back_after
        return [fired.party], math.inf if back is None else fired.time + back

    def leave(self, fired: Fired) -> tuple[list[str], float]:
        return [fired.party], math.inf

    def pause(self, fired: Fired) -> tuple[list[str], float]:
        assert isinstance(fired.fault, Pause)
        everybody = fired.party == "server" and fired.fault.lasts >= self._deadline / 2
        short = fired.party == "server" and not everybody
        return (
            self._clients if everybody else [] if short else [fired.party],
            fired.time + fired.fault.lasts,
        )

    def slow(self, fired: Fired) -> tuple[list[str], float]:
        assert isinstance(fired.fault, Slow)
        lasts = fired.fault.lasts
        # Computing and sending that began while it was slow are late, too.
        return (
            self._clients if fired.party == "server" else [fired.party],
            math.inf if lasts is None else fired.time + lasts + self._deadline,
        )

    def link(self, fired: Fired) -> tuple[list[str], float]:
        fault = fired.fault
        assert isinstance(fault, Partition | Hold)
        everyone = ["server", *self._clients]
        ends = {fired.party, *matching(fault.peer, everyone)}
        lasts = math.inf if fault.lasts is None else fault.lasts
        return self._link(*ends), self._settled(fired.time + lasts, lasts)

    def message(self, fired: Fired) -> tuple[list[str], float]:
        by = fired.fault.by if isinstance(fired.fault, Delay) else 0.0
        return self._link(fired.party, fired.peer), self._settled(fired.time + by, by)

    def duplicate(self, fired: Fired) -> tuple[list[str], float]:
        return [], -math.inf


def _without_block(trial: Trial) -> Iterator[tuple[tuple[str, str], float]]:
    """The pairs that lacked a part of their block when members were announced, though both answered; and when."""
    arrived: dict[tuple[object, ...], int] = {}
    for place, event in enumerate(trial.events):
        if event.kind == "deliver" and event.peer == "server":
            what = trial.blocks.get(event.digest, (event.type, event.party))
            arrived.setdefault((event.round, *what), place)
    ends: dict[int, int] = {}  # for each round, where its time for blocks was over
    for place, event in enumerate(trial.events):
        if event.kind == "send" and event.type in ("RollCall", "Members"):
            ends.setdefault(event.round, place)
    for one in trial.announcements:
        if one.type == "SeedAgreed" and one.receiver == (one.names or ("",))[0]:
            place = ends.get(one.round, len(trial.events) - 1)
            silent = {name for name in one.names or () if (one.round, "Present", name) not in arrived}
            for pair in combinations(one.names or (), 2):
                parts = [(one.round, part, *pair) for part in ("Masks", "MaskedDistances")]
                if any(arrived.get(part, place) >= place for part in parts) and not silent & set(pair):
                    yield pair, trial.events[place].time


_SUFFERING: dict[type[Fault], Callable[[Affected, Fired], tuple[list[str], float]]] = {
    Crash: Affected.crash,
    Leave: Affected.leave,
    Pause: Affected.pause,
    Slow: Affected.slow,
    Partition: Affected.link,
    Hold: Affected.link,
    Lose: Affected.message,
    Duplicate: Affected.duplicate,
    Delay: Affected.message,
    Corrupt: Affected.message,
}
