"""Builds the world that a scenario describes, and runs it."""

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tacit.parties.fleet.fleet import Fleet
from tacit.parties.learning.metrics import score_name
from tacit.parties.learning.tasks import task_of
from tacit.parties.life import Present
from tacit.parties.playing import Begin, play
from tacit.parties.registered import Registered
from tacit.protocols.experiment.experiment import Checkpointable, EndingReporter, Parts, Setting, parties_in
from tacit.protocols.experiment.simulated import ACCURACY, Ended, Ending, Simulated
from tacit.protocols.outcome import Reason
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console.progress import progress
from tacit.scenarios.files.checks import is_hollow
from tacit.scenarios.files.fault_checks import faults_of, population_of
from tacit.scenarios.files.plugins import use_plugins
from tacit.scenarios.files.splits import Material, material_of
from tacit.scenarios.running.process import one_thread, spared_old_objects
from tacit.scenarios.running.whole import check_whole, opened_record
from tacit.scenarios.schema import scenario as schema
from tacit.sim import plugged
from tacit.sim.compute import Cost, CostTable, Engine, Free, Measured, Modelled, Replayed, StandIns, processor_of
from tacit.sim.conditions import Conditions, Statistics, Watching
from tacit.sim.engines import make_engine
from tacit.sim.hollow import Meter, stand_ins
from tacit.sim.latency import parse_latency
from tacit.sim.taps import Taps
from tacit.sim.trace import Sink, Trace
from tacit.sim.units import duration
from tacit.sim.wire import Ledger
from tacit.sim.world import World

if TYPE_CHECKING:
    from tacit.parties.broken_off import BrokenOff

__all__ = [
    "Simulated",
    "Simulation",
    "conditions_of",
    "durations_of",
    "score_of",
    "watching_of",
]


# Durations of a recorded run's jobs, for a run that replays them.


def durations_of(folder: Path) -> dict[tuple[str, str, int], float]:
    """The seconds of each job by (party, step, number). Raises ValueError in one line if there is no such record."""
    path = folder / "run.sqlite"
    if not path.is_file():
        raise ValueError(f"{folder}: no run.sqlite; replayed: needs the folder of a run")
    check_whole(folder)
    try:
        with opened_record(path) as connection:
            rows = connection.execute("SELECT party, step, n, seconds FROM computing").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for *job, seconds in rows:
        if not (isinstance(seconds, float) and 0 <= seconds < math.inf):
            raise ValueError(f"{path}: the record of computations is damaged: job {job} takes {seconds!r} s")
    return {(party, step, n): seconds for party, step, n, seconds in rows}


def score_of(scenario: schema.Scenario) -> str:
    """The name of the figure that stands for the whole of a run: that of its task, or "accuracy"."""
    trains = PROTOCOLS[scenario.protocol.name].trains_networks(scenario)
    return score_name(task_of(scenario.training.task)) if trains else ACCURACY


_STAND_INS: dict[str, StandIns | None] = {
    "real": None,
    "sized": stand_ins("sized"),
    "hollow": stand_ins("hollow"),
    "predicted": stand_ins("predicted", "hollow"),
}


class Simulation:
    """One run of a scenario, with its data, other `parts`, or a whole `material` of its own. `close` also closes the
    `engine`, even one passed as an object.

    `lasting`: the secret of 32 bytes that repeatable answers are made from; it is the same in a resumed run. `hollow`:
    the run uses hollow values (`tacit.sim.hollow`), and no observer; by default if `is_hollow`. Without `hashed` the
    trace has no hashes.

    The properties can be read at any time, also from another thread and after an error.
    """

    def __init__(
        self,
        scenario: schema.Scenario,
        *,
        sinks: Iterable[Sink] = (),
        taps: Taps | None = None,
        engine: str | Engine = "auto",
        parts: Parts | None = None,
        material: Material | None = None,
        lasting: bytes = b"",
        hollow: bool | None = None,
        hashed: bool = True,
    ) -> None:
        self._scenario, sinks, taps = scenario, tuple(sinks), taps or Taps()
        use_plugins(scenario)
        material = material or material_of(scenario, parts, taken=True)
        self.shards, fleet = material.shards, material.fleet
        self.setting = scenario, material.parts, material.named
        if hollow is None:
            hollow = is_hollow(scenario, self.setting[-1])
        self._meter = Meter() if hollow else None
        faults = [faults_of(fault, scenario.data.clients) for fault in scenario.fault]
        self._engine = make_engine(engine) if isinstance(engine, str) else engine
        try:
            self._world = World(
                scenario.seed,
                conditions=conditions_of(scenario.network, fleet),
                table=CostTable.load(processor=processor_of(scenario.cost)),
                cost=_cost("free" if scenario.cost == "free" else "modelled" if hollow else scenario.cost),
                engine=self._engine,
                faults=[*chain(*faults), *fleet.crashes()],
                sinks=sinks,
                taps=taps,
                seeded=scenario.entropy == "seeded",
                stand_ins=_STAND_INS[("hollow" if hashed else "predicted") if hollow else scenario.fidelity],
                lasting=lasting,
                hollow=self._meter,
                hashed=hashed,
                watching=watching_of(scenario.protocol),
                population=population_of(scenario),
            )
            seen = {name: list(calls) for name, calls in vars(taps).items()}
            with _signing(scenario):
                self._experiment = PROTOCOLS[scenario.protocol.name].build(
                    Setting(self._world, *self.setting, faults, progress, fleet)
                )
            self.observer = self._experiment.observer
            if hollow:  # hollow values cannot be observed
                vars(taps).update(seen)
                self._ended: list[Ended] = []
                self._experiment.server.observers[:] = [self._note_ended]
            self._parties = parties_in(self._experiment)
            self._begin: Begin | None = None
        except BaseException:
            self._engine.close()
            raise

    @property
    def server(self) -> Any:
        """The server in its present incarnation."""
        return self._experiment.server.device.party

    @property
    def clients(self) -> list[Any]:
        """The clients, each in its present incarnation."""
        return list(Present(self._experiment.clients).values())

    @property
    def registered(self) -> Registered[Any]:
        """The clients, if resting ones take no memory. Raises TypeError otherwise."""
        if not isinstance(self._experiment.clients, Registered):
            raise TypeError("all clients of this run are there, also those at rest")
        return self._experiment.clients

    @property
    def now(self) -> float:
        """The virtual clock in seconds."""
        return self._world.loop.time()

    @property
    def trace(self) -> Trace:
        """The trace of all events so far."""
        return self._world.trace

    @property
    def ledger(self) -> Ledger:
        """Bytes sent so far."""
        return self._world.ledger

    @property
    def troubles(self) -> Statistics:
        """The counts of retransmitted and lost messages so far."""
        return self._world.network.statistics()

    @property
    def planned(self) -> float:
        """Modelled seconds of computing that the parties have announced."""
        return self._world.computing.planned

    @property
    def done(self) -> float:
        """Modelled seconds of computing that are finished."""
        return self._world.computing.done

    @property
    def score(self) -> str:
        """The name of the figure that stands for the whole of the run (`score_of`)."""
        return score_of(self._scenario)

    @property
    def step(self) -> str:
        """The step that the server is in."""
        return str(self.server.step_name)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The parties from which the server waits for messages."""
        return self.server.waits_for

    @property
    def round(self) -> tuple[int, int]:
        """The current round of the server, from 1, and the planned number of rounds."""
        return self.server.round, self._experiment.rounds

    @property
    def last_alike(self) -> int:
        """The number of the last round that is like the others; further ones, of another kind, follow the training."""
        return self._experiment.rounds - getattr(self.server, "further", 0)

    @property
    def engine(self) -> str:
        """The place of computations, as ``inline``, ``pool:N`` or ``ray:ADDRESS``."""
        return self._engine.name

    def run(self) -> Simulated:
        """Run to the end and return the result. Raises Deadlock, KeyboardInterrupt, and errors of a party's program."""
        if self._meter is None:
            self._experiment.plan()
        small = self._meter is not None or isinstance(self._experiment.clients, Registered)
        with one_thread(), spared_old_objects(small=small), plugged.naming_coroutines():
            self._world.loop.run(play(self._parties, self.server, self._begin))
            if self._meter is None:
                return self.observer.sum_up()
        found = self.ending()
        return Simulated(outcome=found.outcome, reason=found.reason, lost=found.lost)

    def ending(self) -> Ending:
        """The end of a run on hollow values, once it has been run."""
        if isinstance(self.observer, EndingReporter):
            return self.observer.ending(self._ended)
        reason = getattr(self.server, "aborted", "") if self.server.alive else "the server was lost"
        problems = [getattr(one.record, "lost", "") for one in self._ended]
        if not reason and problems and all(problems):
            reason = Reason("every round was lost: {why}", why=Reason.of(problems[-1]))
        held = sum(not problem for problem in problems) if problems else int(not reason)
        return Ending("aborted" if reason else "completed", reason, list(self.server.lost), held)

    def _note_ended(self, record: Any) -> None:
        self._ended.append(Ended(record, self.now, self.server.step_name))

    @property
    def most_held(self) -> int:
        """The most bytes of messages that were in flight or not yet read at any time of a hollow run."""
        return 0 if self._meter is None else self._meter.most

    def after_rounds(self, call: Callable[[int], None]) -> None:
        """Call `call` with the number of each round as it ends, if the run can be restored."""
        if isinstance(self.observer, Checkpointable):
            self.observer.after_round = call

    def state(self, spill: BinaryIO | None = None) -> dict[str, Any]:
        """The state of the run after a round; parts of it in the file `spill` (`tacit.sim.snapshot.Snapshot.take`).

        Raises NotPlain while a party has work in progress.
        """
        assert isinstance(self.observer, Checkpointable)
        return self._broken_off(self.observer).take(self.observer.state(), spill)

    def restore(self, state: dict[str, Any], longer: float = 0.0) -> None:
        """Continue from a `state` of the same scenario, which must be valid.

        `longer`: the virtual seconds by which the parties wait longer than when the state was taken, as the run now has
        more rounds.
        """
        assert isinstance(self.observer, Checkpointable)
        broken_off = self._broken_off(self.observer)
        self.observer.restore(broken_off.restore(state, longer))
        self._begin = broken_off.begin

    def _broken_off(self, observer: Checkpointable) -> "BrokenOff":
        from tacit.parties.broken_off import BrokenOff

        return BrokenOff(self._world, self._parties, self.server, observer.kinds)

    def close(self) -> None:
        """Stop all tasks and workers that still run."""
        self._engine.close()
        self._world.loop.finish()


def conditions_of(network: schema.Network, fleet: Fleet) -> Conditions:
    """The links of the network."""
    return Conditions(
        network.topology,
        parse_latency(network.latency),
        duration(network.jitter),
        network.loss,
        network.transport,
        duration(network.retransmission_timeout),
        None if fleet.is_uniform else fleet,
        fleet.counts_energy,
    )


def watching_of(keys: schema.ProtocolKeys) -> Watching | None:
    """The way in which the server detects lost clients; None if it does not."""
    if keys.presence == "none":
        return None
    return Watching(keys.presence, duration(keys.heartbeat), keys.heartbeat_misses)


def _cost(text: str) -> Cost:
    kind, _, folder = text.partition(":")
    makers: dict[str, Callable[[], Cost]] = {
        "free": Free,
        "modelled": Modelled,
        "measured": Measured,
        "replayed": lambda: Replayed(durations_of(Path(folder))),
    }
    return makers[kind]()


@contextmanager
def _signing(scenario: schema.Scenario) -> Iterator[None]:
    """Inside this context, the clients of a run that signs are built with the keys of the run."""
    if scenario.protocol.identity == "none":
        yield
        return
    from tacit.protocols.identities import given, identities_of

    token = given.set(identities_of(scenario))
    try:
        yield
    finally:
        given.reset(token)
