"""One run observed by `tacit chaos`, with all data for checking its promises.

The observer sees more than any party: all announcements of the server, the inputs of the clients' masking jobs, and
every event. It changes nothing: the trace is that of `tacit run`.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from tacit.parties.learning import jobs
from tacit.parties.life import Present
from tacit.protocols.outcome import Reason
from tacit.protocols.parts import always_opens
from tacit.protocols.privacy.removable import Parts, Seeds
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import RoundsServer
from tacit.scenarios.files.plugins import failure_reason
from tacit.scenarios.files.splits import Material
from tacit.scenarios.running.interruption import Interruption
from tacit.scenarios.running.simulation import Simulated, Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import Engine, Work
from tacit.sim.faults import DURATIONS, Fired
from tacit.sim.trace import Event, Sink
from tacit.sim.units import duration
from tacit.sim.wire import LedgerRow, Message, Packet, decode_body, decode_frame

__all__ = ["Announcement", "Calm", "Limits", "Masking", "NoiseShown", "Overdue", "Trial", "Update", "observed"]

R = TypeVar("R")

_MOST_EVENTS = 10_000
"""The number of events assumed for a run without faults, in its own limit."""


class Overdue(KeyboardInterrupt):
    """A run takes longer than its waits allow. It derives from KeyboardInterrupt, which asyncio passes through."""


@dataclass(frozen=True)
class Calm:
    """The numbers of events and virtual seconds of a scenario's run without faults."""

    events: int
    seconds: float


@dataclass(frozen=True)
class Limits:
    """The limits of a run: virtual seconds, and events."""

    seconds: float
    events: int

    @classmethod
    def of(cls, scenario: Scenario, waits: int, calm: Calm | None) -> "Limits":
        """The limits for a run of `scenario`; `waits`: the most deadlines that a client waits in a round.

        `calm`: the numbers of the run without faults; None for that run itself.
        """
        if calm is None:
            calm = Calm(_MOST_EVENTS, 0.0)
        deadline = duration(scenario.protocol.deadline)
        rounds = PROTOCOLS[scenario.protocol.name].rounds(scenario)
        outages = sum(duration(fault.get(key) or 0.0) for fault in scenario.fault for key in DURATIONS)
        # Nobody waits for a straggler, but the run continues until the straggler has received the end of its part.
        slowest = math.prod(fault.get("factor") or 1.0 for fault in scenario.fault)
        seconds = 4 * (rounds + 1) * (waits * deadline + outages) + 3600 + 4 * slowest * calm.seconds
        return cls(seconds, 100 * calm.events + 10_000)


@dataclass(frozen=True)
class Announcement:
    """A message of the server that determines members, as sent to `receiver`.

    `names`: the members in it, None if it has no names. `place`: the number of events before it was sent.
    """

    type: str
    round: int
    attempt: int
    receiver: str
    names: tuple[str, ...] | None
    body: bytes = field(repr=False)
    place: int


@dataclass(frozen=True)
class Masking:
    """A job in which a party makes masks: the party, step, incarnation, round and attempt, and the keys of 32 bytes."""

    party: str
    step: str
    incarnation: int
    round: int
    attempt: int
    keys: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Update:
    """A job that has begun: the party, the round, and the arguments, such as those of `jobs.train`."""

    party: str
    round: int
    arguments: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True)
class NoiseShown:
    """The seeds of noise that a client has sent to the server: the party, the round and the seeds."""

    party: str
    round: int
    seeds: bytes = field(repr=False)


@dataclass(eq=False)
class Trial:
    """A run that has ended in any way: `simulated` is the result, or `error` the exception."""

    scenario: Scenario
    simulation: Simulation
    events: list[Event] = field(default_factory=list)
    announcements: list[Announcement] = field(default_factory=list)
    blocks: dict[bytes, tuple[str, str, str]] = field(default_factory=dict)
    """The packets with a part of a pair's block, by digest: message type, j, k."""
    masking: list[Masking] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    noisy: list[Update] = field(default_factory=list)
    """The jobs in which clients add noise to words of a sum (`Distributed.words`)."""
    removals: list[Update] = field(default_factory=list)
    """The jobs in which the server removes noise (`Distributed.removed`)."""
    revealed: list[NoiseShown] = field(default_factory=list)
    models: list[bytes] = field(default_factory=list)
    """The models of training: the first one, and that of each round at its end."""
    records: list[Any] = field(default_factory=list)
    """The server's record of each round."""
    simulated: Simulated | None = None
    error: BaseException | None = None

    @property
    def outcome(self) -> str:
        """The outcome, as in ``result.json``."""
        return "failed" if self.simulated is None else self.simulated.outcome

    @property
    def reason(self) -> Reason:
        """The reason, as in ``result.json``, with its facts."""
        if self.simulated is None:
            return Reason("" if self.error is None else failure_reason(self.error))
        return Reason.of(self.simulated.reason)

    @property
    def fired(self) -> list[Fired]:
        """The faults that struck."""
        return self.simulation.server.world.faults.fired

    @property
    def in_flight(self) -> int:
        """The number of messages in flight at the end."""
        return self.simulation.server.world.network.in_flight

    def always_opens(self, called: int, members: int, left: int) -> bool:
        """Return true if the sums of a round that calls `called` clients are opened over `left` of its `members`.

        However many of the others join before they are lost; where more than these numbers decide, true.
        """
        protocol = PROTOCOLS[self.scenario.protocol.name]
        return always_opens(protocol.openings(self.scenario, called), members, left)

    def again(self, function: Callable[..., R], *arguments: Any) -> R:
        """The value of `function(*arguments)`. An engine that remembers results computes it only once."""
        return self.simulation.server.world.computing.engine.submit(function, arguments).result()

    @property
    def ledger(self) -> list[LedgerRow]:
        """The rows of the ledger."""
        return self.simulation.ledger.rows()

    @cached_property
    def types(self) -> Sequence[type[Message]]:
        """The types of messages that the run may send, as its protocol declares them."""
        return PROTOCOLS[self.scenario.protocol.name].types_with(self.scenario)


def observed(
    scenario: Scenario, limits: Limits | None = None, engine: Engine | None = None, material: Material | None = None
) -> Trial:
    """Run `scenario` in this process, with its jobs in the given `engine` and its data from `material`, if any.

    Raises KeyboardInterrupt even if Python dropped the exception, because the interrupted run would seem to break a
    promise.
    """
    with Interruption() as interruption, interruption.raising():
        trial = _observed(scenario, limits, engine, material, interruption)
    if interruption.asked:
        raise KeyboardInterrupt
    return trial


def _observed(
    scenario: Scenario,
    limits: Limits | None,
    engine: Engine | None,
    material: Material | None,
    interruption: Interruption,
) -> Trial:
    events: list[Event] = []

    def check(event: Event) -> None:
        count = simulation.trace.count
        if limits is not None and (event.time > limits.seconds or count > limits.events):
            raise Overdue(f"{count} events and {event.time:g} s, and it has not ended")

    sinks: list[Sink] = [events.append, interruption, check]
    simulation = Simulation(scenario, sinks=sinks, engine=engine or "inline", material=material)
    trial = Trial(scenario, simulation, events)
    _watch(trial)
    logger = logging.getLogger("asyncio")  # it would log a traceback; the error is reported in one line
    disabled, logger.disabled = logger.disabled, True
    try:
        trial.simulated = simulation.run()
    except Overdue as error:
        trial.error = error
    except KeyboardInterrupt:
        raise
    except Exception as error:
        trial.error = error
    finally:
        try:
            simulation.close()
        finally:
            logger.disabled = disabled
    return trial


def _watch(trial: Trial) -> None:
    """Let `trial` record data that is in no event, by the taps of its world and as an observer of its server."""
    server, world = trial.simulation.server, trial.simulation.server.world
    parties: Present[Any] = Present((server, *trial.simulation.clients))
    naming = {kind.__name__: kind for kind in trial.types if kind.names_members}
    blocks = {kind.__name__: kind for kind in trial.types if kind.part_of_pair}
    revealing = {kind.__name__: kind for kind in trial.types if getattr(kind, "reveals_noise", False)}

    def sent(packet: Packet) -> None:
        if packet.sender == server.name and packet.type in naming:
            frame = decode_frame(packet.data)
            message = decode_body(frame, frame.body, naming[packet.type])
            names = getattr(message, "names", None)
            trial.announcements.append(
                Announcement(
                    packet.type, packet.round, packet.attempt, packet.receiver,
                    None if names is None else tuple(names), frame.body, len(trial.events),
                )
            )  # fmt: skip
        elif packet.type in revealing:
            frame = decode_frame(packet.data)
            seeds = decode_body(frame, frame.body, revealing[packet.type]).seeds  # type: ignore[attr-defined]
            trial.revealed.append(NoiseShown(packet.sender, packet.round, seeds))
        elif packet.type in blocks:
            frame = decode_frame(packet.data)
            peer = decode_body(frame, frame.body, blocks[packet.type]).peer  # type: ignore[attr-defined]
            first, second = sorted((packet.sender, peer), key=list(parties).index)
            trial.blocks[packet.digest] = (packet.type, first, second)

    def begun(party: str, step: str, work: Work, function: Any, arguments: tuple[Any, ...]) -> None:
        if step.endswith(".mask"):
            who = parties[party]
            keys = tuple(_keys(arguments))
            trial.masking.append(Masking(party, step, who.incarnation, who.round, who.attempt, keys))
        if function is jobs.train:
            trial.updates.append(Update(party, parties[party].round, arguments))
        if len(arguments) > 1 and isinstance(arguments[1], Seeds):
            trial.noisy.append(Update(party, parties[party].round, arguments))
        if len(arguments) > 1 and isinstance(arguments[1], Parts):
            trial.removals.append(Update(party, parties[party].round, arguments))

    def recorded(record: Any) -> None:
        trial.records.append(record)
        if trains:
            trial.models.append(trial.simulation.server.model)  # read again: the server may be another incarnation

    trains = isinstance(server, RoundsServer) and server.model is not None
    if trains:
        trial.models.append(server.model)
    world.taps.sent.append(sent)
    world.taps.begun.append(begun)
    server.observers.append(recorded)


def _keys(values: Any) -> Iterator[bytes]:
    """Yield the byte strings of 32 bytes in nested lists and tuples."""
    if isinstance(values, bytes):
        if len(values) == 32:
            yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _keys(value)
