"""The parties that the faults of a run affect, and until when. A party that no fault affects must not be lost or miss
anything."""

import math
from collections.abc import Iterable, Iterator

from tacit.parties.fleet.fleet import HELPER
from tacit.protocols.promises import falls
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.fault_kinds import Reach, affected
from tacit.scenarios.chaos.trial import Trial
from tacit.sim.conditions import HEARTBEAT
from tacit.sim.trace import Fact
from tacit.sim.transport import BY_FAULT, CUT, ON_LINK
from tacit.sim.units import duration

__all__ = ["Affected"]

_LOST_FOR_FAULTS = (BY_FAULT, CUT)
"""The notes in the trace of a message copy that a fault lost, and that a reliable transport sends again."""

_WITH_THE_SERVER = (
    "the sender was gone before it was sent",
    "the receiver is down",
    "the relay server is down",
    "sent to an earlier incarnation of the receiver",
    "sent to an earlier incarnation of the relay",
    "from an earlier incarnation of the sender",
)
"""The notes in the trace of a message that was lost because the server, or the other end, was down."""


class Affected:
    """The virtual time until which each affected party is affected by faults; infinity means to the end.

    Byzantine clients are affected to the end.

    A fault of a link affects the clients and helpers at its ends. A paused server affects everybody if the pause lasts
    half of a deadline or more, and otherwise no client; a slow server affects everybody. Losses of a link without a
    fault affect the client at its end if they cost it a quarter of a deadline or more, or the time of the heartbeats
    that it may miss. The cost is the time within one deadline in which messages from or to the client were being
    retransmitted. A lost datagram affects the client immediately. A server that crashes or leaves affects the clients
    that lost messages with it, sent or still to be received. Further parties are affected by the rules of the
    protocol (`suffering`): for example, a client whose block is missing because of another client may have to leave the
    graph as well.
    """

    def __init__(self, trial: Trial) -> None:
        self._clients = [client.name for client in trial.simulation.clients]
        helpers = PROTOCOLS[trial.scenario.protocol.name].helpers(trial.scenario)
        network = trial.scenario.network
        own = duration(network.retransmission_timeout)
        self._timeout, self._longest = {"reliable": (own, 60.0), "tcp": (1.0, 120.0)}.get(network.transport, (0.0, 0.0))
        self._deadline = duration(trial.scenario.protocol.deadline)
        self._patience = self._deadline / 4
        if trial.scenario.protocol.presence == HEARTBEAT:  # a client may miss only this many heartbeats
            keys = trial.scenario.protocol
            self._patience = min(self._patience, (keys.heartbeat_misses - 1) * duration(keys.heartbeat))
        self._reach = Reach([*self._clients, *helpers], self._deadline, self._timeout)
        self.until: dict[str, float] = {}
        for fired in trial.fired:
            self._add(*affected(self._reach, fired))
        for parties, until in self._resent(trial):
            self._add(parties, until)
        for client, until in self._held_up(trial):
            self._add([client], until)
        if falls(trial):
            for event in trial.events:
                if event.note in _WITH_THE_SERVER and "server" in (event.party, event.peer):
                    self._add(self._reach.link(event.party, event.peer), event.time)
        for clients, time in PROTOCOLS[trial.scenario.protocol.name].suffering(trial.scenario, trial):
            if len(clients) == 1 or any(client in self for client in clients):
                self._add(clients, time)

    def __contains__(self, party: str) -> bool:
        return party in self.until

    @property
    def clients(self) -> set[str]:
        """The clients that were affected."""
        return set(self.until) - {"server", HELPER}

    def well_since(self, party: str, time: float) -> bool:
        """Return true if no fault affects `party` at `time` or later."""
        return self.until.get(party, -math.inf) < time

    def _add(self, parties: Iterable[str], until: float) -> None:
        for party in parties:
            self.until[party] = max(until, self.until.get(party, -math.inf))

    def _resent(self, trial: Trial) -> Iterator[tuple[list[str], float]]:
        """Yield the parties that wait for a lost copy, and the time at which the copy has been sent again, with the
        spacing of RFC 6298.

        The receiver gets no later message before that copy. The trace has the number of earlier retransmissions.
        """
        tries: dict[bytes, int] = {}
        for event in trial.events:
            if event.fact == Fact.AGAIN:
                tries[event.digest] = event.number
            elif event.kind == "lose" and event.note in _LOST_FOR_FAULTS:
                wait = min(self._timeout * 2 ** tries.get(event.digest, 0), self._longest)
                yield self._reach.link(event.party, event.peer), self._reach.settled(event.time + wait, 0.0)

    def _held_up(self, trial: Trial) -> Iterator[tuple[str, float]]:
        """Yield the clients that losses of their links delay for too long, and the time until which each is
        affected."""
        if not trial.events:
            return
        spans: dict[str, list[tuple[float, float]]] = {}
        arrived: dict[tuple[int, int], float] = {}
        for event in reversed(trial.events):
            if event.kind in ("deliver", "drop") or (event.kind == "relay" and not event.note):
                arrived[event.message, event.hop - (event.kind == "relay")] = event.time
            elif event.kind == "resend" or (event.kind == "lose" and event.note == ON_LINK):
                for client in self._reach.link(event.party, event.peer):
                    end = arrived.get((event.message, event.hop), trial.events[-1].time)
                    spans.setdefault(client, []).append((event.time, end if self._timeout else event.time))
        for client, found in spans.items():
            for _, end in found:
                total, since = 0.0, end - self._deadline
                for began, ended in sorted(found):
                    total += max(min(ended, end) - max(began, since), 0.0)
                    since = max(since, ended)
                if not self._timeout or total >= self._patience:
                    yield client, self._reach.settled(end, 0.0)
