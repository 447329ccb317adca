"""A sized run that goes by its plan: the ledger, the events and the virtual time of a run, and none of its results.

Links, processors and waits are those of `sim.planned_course`; what parties would send and compute is what the protocol
declares as planned. Where a pair has thousands of messages alike, some of them may be planned as one that takes as long
(`sim.planned.PlannedMessage.times`). The ledger counts each of them; the record has one row for all, and the `value` of
its hops says how many they are.
"""

from collections.abc import Iterable, Mapping

from parties.data.splits import Shard, named
from protocols.observing.parts import Parts
from protocols.observing.simulated import Simulated, Strike
from scenarios.files.by_plan import goes_by_plan
from scenarios.files.plugins import use_plugins
from scenarios.observing.splits import parts_of, split
from scenarios.running.prediction import course_of
from scenarios.running.process import spared_old_objects
from scenarios.schema.scenario import Scenario
from sim.conditions import Statistics
from sim.planned import FIRST, PlannedMessage, PlannedWork
from sim.trace import Event, Sink, Trace
from sim.wire import Ledger, Packet, payload_size

__all__ = ["PlannedSimulation", "simulation_of"]


def simulation_of(scenario: Scenario, sinks: Iterable[Sink] = ()) -> "PlannedSimulation | None":
    """The simulation of a run that goes by its plan; None for any other run."""
    if scenario.fidelity != "sized":
        return None
    use_plugins(scenario)
    parts = parts_of(scenario)
    shards = named(split(parts.held, scenario.data, scenario.seed))
    return PlannedSimulation(scenario, parts, shards, sinks) if goes_by_plan(scenario, shards) else None


class _NoObserver:
    def strikes(self) -> list[Strike]:
        """No fault is planned."""
        return []


class PlannedSimulation:
    """The part of a `Simulation` that the plan of a `scenario` among clients with `shards` can fill."""

    engine = "inline"
    observer = _NoObserver()
    planned = done = 0.0
    step = "the plan"
    waits_for: tuple[str, ...] = ()
    round = 1, 1
    troubles = Statistics(0, {})

    def __init__(
        self, scenario: Scenario, parts: Parts, shards: Mapping[str, Shard], sinks: Iterable[Sink] = ()
    ) -> None:
        self._setting = scenario, parts, shards
        self.ledger, self.trace, self.now = Ledger(), Trace(sinks), 0.0
        self._jobs: dict[tuple[str, str], int] = {}

    def run(self) -> Simulated:
        """Go through the plan. Raises ScenarioError where the protocol has none, and what a sink raises."""
        with spared_old_objects():
            course = course_of(*self._setting, onlook=self)
        self.now = course.seconds
        return Simulated(outcome="completed", reason="")

    def hop(self, now: float, one: PlannedMessage, number: int, receiver: str, size: int, near: str, far: str) -> None:
        """Enter a hop of a message into the ledger and the trace (`sim.planned.Onlook`)."""
        packet, relayed = _packet(one, receiver, size), near != one.sender
        self.ledger.count(packet, near, far, relayed, one.times)
        self._note("relay" if relayed else "send", now, packet, number, near, far, one.times)

    def arrived(self, now: float, one: PlannedMessage, number: int, receiver: str, size: int) -> None:
        """Trace the end of its way."""
        self._note("deliver", now, _packet(one, receiver, size), number, one.sender, receiver, one.times)

    def job(self, now: float, one: PlannedWork, seconds: float) -> None:
        """Trace the begin of a job."""
        index = self._jobs[one.party, one.step] = self._jobs.get((one.party, one.step), 0) + 1
        self.now = now
        self.trace.add(Event(now, "compute", one.party, step=one.step, value=seconds, note=str(index)))

    def close(self) -> None:
        """Nothing goes on that would have to be stopped."""

    def _note(self, kind: str, now: float, packet: Packet, number: int, near: str, far: str, times: int) -> None:
        self.now = now
        event = Event(
            now, kind, near, far, packet.protocol, packet.step, packet.type, packet.round, packet.attempt,
            packet.payload, packet.sealing, packet.envelope, "", float(times) if times > 1 else 0.0, b"",
            number, number, 2 if near != packet.sender else 1, packet.sender, packet.receiver,
        )  # fmt: skip
        self.trace.add(event)


def _packet(one: PlannedMessage, receiver: str, size: int) -> Packet:
    payload = payload_size(one.message)
    return Packet(
        head=b"", body=b"", digest=b"", sender=one.sender, receiver=receiver, incarnation=FIRST,
        protocol=one.message.protocol, step=one.step, type=type(one.message).__name__, round=one.round,
        attempt=one.attempt, sealed=one.sealing > 0, payload=payload, sealing=one.sealing,
        envelope=size - payload - one.sealing,
    )  # fmt: skip
