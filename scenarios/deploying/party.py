"""One party of a deployed run in this process: its world, its program, its data, and the files in its folder.

| file | holds |
| --- | --- |
| ``scenario.toml`` | the scenario with every default filled in |
| ``state.json`` | the state from which a server continues after a restart; for a client its incarnation |
| ``record-N.sqlite`` | the events at the party, one file for each start of its process |
| ``lasting`` | the secret of randomised labels and hash bits, for all incarnations |
| ``disk`` | the state that survives the party's fall |
| ``faults`` | the progress of the scenario's faults, for a party that one of them has killed |
| ``ending`` | the end of the party and its results, for observers after the run |
"""

import asyncio
import importlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tomli_w

from tacit.parties.data.files import check_against_outline, load_file
from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard, Shards, named
from tacit.parties.datasets.content import DataError
from tacit.parties.fleet.fleet import Fleet
from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair
from tacit.protocols.experiment.experiment import Checkpointable, Parts, Setting, parties_in
from tacit.protocols.identities import Identities, given
from tacit.protocols.outcome import Reason
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console.progress import progress
from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.plain_state import (
    DiskFile,
    ending_of,
    lasting_secret,
    read_ending,
    restore_observed,
    seen_by_observer,
    write_ending,
)  # fmt: skip
from tacit.scenarios.files.fault_checks import faults_of, population_of
from tacit.scenarios.files.plugins import use_plugins
from tacit.scenarios.files.splits import data_of, parts_of, split
from tacit.scenarios.running.process import one_thread
from tacit.scenarios.running.recorder import Ending, Recorder
from tacit.scenarios.running.runner import about
from tacit.scenarios.running.simulation import watching_of
from tacit.scenarios.schema.scenario import Scenario, as_table
from tacit.sim.compute import Engine
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.network import DeployedEndpoint, Line
from tacit.sim.deployed.world import DeployedWorld
from tacit.sim.faults import Crash, optional
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Fact

__all__ = ["OwnShards", "PartyRun", "own_data"]


class PartyRun:
    """The party `name` of the scenario `title`, in the folder that the `options` name.

    The data are read immediately; `make` makes the party. Raises DataError, and ValueError for a damaged folder.
    """

    def __init__(self, scenario: Scenario, title: str, name: str, engine: Engine, options: ProcessOptions) -> None:
        self.scenario, self.title, self.name, self.path = scenario, title, name, options.path
        self._engine, self._seeded, self._with_faults = engine, options.seeded, options.with_faults
        self._log, self._logged = options.log, 0
        path = self.path
        path.mkdir(parents=True, exist_ok=True)
        own = msgspec.structs.replace(scenario, name=title, entropy="seeded" if self._seeded else "os")
        (path / "scenario.toml").write_text(tomli_w.dumps(as_table(own)), encoding="utf-8")
        use_plugins(scenario)
        self._parts, self._shards = own_data(scenario, name, options.data)
        warm_up(scenario)
        self._records: list[Any] = []
        self._began = time.thread_time()
        self.recorder: Recorder | None = None
        self.changed = asyncio.Event()

    def make(
        self, loop: RealLoop, line: Line, run_id: bytes, incarnation: int, identities: Identities | None = None
    ) -> None:
        """Make the world and the party, as the given incarnation; `begin` starts its program.

        `identities`: the long-term keys, if clients sign with keys that are not drawn from the seed.
        """
        scenario, parts, shards = self.scenario, self._parts, self._shards
        number = 1 + len(list(self.path.glob("record-*.sqlite")))
        self.recorder = recorder = Recorder(
            self.path / f"record-{number}.sqlite",
            about=about(scenario, self.title) | {"party": self.name, "entropy": "seeded" if self._seeded else "os"},
        )
        faults = [fault for one in scenario.fault for fault in faults_of(fault=one, clients=scenario.data.clients)]
        own = [fault for fault in faults if isinstance(fault, Crash)] if self._with_faults else []
        self.world = world = DeployedWorld(
            loop,
            self.name,
            line,
            run_id,
            scenario.seed,
            engine=self._engine,
            threads=Fleet(scenario).of(self.name).cores,
            before=_limit_threads,
            faults=own,
            sinks=[recorder, self._log_round],
            taps=Taps(delivered=[recorder.tap], waits=[recorder.wait]),
            seeded=self._seeded,
            lasting=b"" if self._seeded else lasting_secret(self.path),
            watching=watching_of(scenario.protocol),
            population=population_of(scenario),
        )
        token = given.set(identities)
        self._experiment = PROTOCOLS[scenario.protocol.name].build(
            Setting(world, scenario, parts, named(shards), [(fault,) for fault in own])
        )
        given.reset(token)
        server = self._experiment.server
        self.device = Present(parties_in(self._experiment)).devices[self.name]
        endpoint = self.device.endpoint
        assert isinstance(endpoint, DeployedEndpoint)
        endpoint.incarnation = incarnation
        if own:
            endpoint.on_fall = self._kill
            self._faults = DiskFile(self.path / "faults")
            if "state" in self._faults:
                world.faults.restore(self._faults["state"])
        self.device.disk = DiskFile(self.path / "disk")
        if self.name == "server":
            if not isinstance(self._experiment.observer, Checkpointable):
                server.observers.clear()  # this observer needs the clients; `gathering` calls it after the run
                server.observers.append(self._records.append)
            server.observers.insert(0, lambda record: recorder.end_round(loop.time(), server, record))
            server.observers.append(self._log_end)
            # In case the process is killed from outside.
            server.observers.append(lambda record: self._write_ending(alive=False))
        self._go_on_observing(incarnation)

    def _log_round(self, event: Event) -> None:
        """Log the round in which this party takes its first step."""
        number = self.device.party.round if event.kind == "enter" and event.party == self.name else 0
        if number > self._logged:
            self._logged = number
            self._log(f"round {number}: begins with step {event.step}")

    def _log_end(self, record: Any) -> None:
        """Log the end of a round of the server."""
        number, problem = getattr(record, "number", 1), getattr(record, "lost", "")
        self._log(f"round {number}: {f'lost: {problem}' if problem else 'has ended'}")

    @property
    def aborted(self) -> str:
        """The reason why the run was aborted, as far as this party knows; "" if it was not."""
        if self.recorder is None:
            return ""
        party: Any = self.device.party
        if self.name == "server":
            return str(getattr(party, "aborted", ""))
        kind, _, reason = str(getattr(party, "ending", "")).partition(": ")
        return reason if kind == "aborted" else ""

    def _go_on_observing(self, incarnation: int) -> None:
        """Restore what observers recorded of earlier incarnations."""
        path, observer = self.path / "ending", self._experiment.observer
        if incarnation == 1 or not path.is_file():
            return
        ending = read_ending(path)
        self._records += restore_observed(self.device, ending)
        seen = seen_by_observer(ending)
        if seen is not None and isinstance(observer, Checkpointable):
            observer.restore(seen)

    def begin(self) -> None:
        """Begin the party's program."""
        self._began = time.thread_time()
        incarnation = self.device.endpoint.incarnation
        if incarnation > 1:
            note = f"rejoin as incarnation {incarnation}"
            self.world.note("fault", self.name, note=note, fact=Fact.OVER, detail=Fact.DOWN)
        self.device.start(lambda device: self.changed.set(), again=incarnation > 1)

    def lose(self, why: str) -> None:
        """Make the party go down, like a crash in the simulator: its memory is lost."""
        endpoint = self.device.endpoint
        assert isinstance(endpoint, DeployedEndpoint)
        on_fall, endpoint.on_fall = endpoint.on_fall, None
        self.device.crash(why)
        endpoint.on_fall = on_fall

    def come_back(self, incarnation: int) -> None:
        """Make a party that went down return as the given incarnation."""
        self.device.endpoint.incarnation = incarnation - 1
        self.device.rejoin()

    @property
    def over(self) -> bool:
        """True if the party's program has ended. Raises the error that ended it, if any."""
        if self.device.rest is None and self.device.party.failure is not None:
            raise self.device.party.failure
        return self.device.finished

    @property
    def idle(self) -> bool:
        """True if the party only waits for a round to begin."""
        return self.device.idle

    def close(self, error: BaseException | None = None) -> None:
        """Write the final state of the party, and the `error` that ended it, if any; stop its activities."""
        if self.recorder is not None:
            self._write_ending(alive=self.device.alive)
            error = error or self.device.party.failure
        self.close_record(error)

    def _write_ending(self, *, alive: bool) -> None:
        party: Party = self.device.party
        observer = self._experiment.observer
        seen = observer.state() if self.name == "server" and isinstance(observer, Checkpointable) else None
        ending = ending_of(party, self._records, seen, time.thread_time() - self._began)
        write_ending(self.path / "ending", msgspec.structs.replace(ending, alive=alive))

    def close_record(self, error: BaseException | None) -> None:
        """Write the rest of the record, and stop all activities."""
        if self.recorder is not None:
            reason = Reason("" if error is None else f"{type(error).__name__}: {error}")
            self.recorder.close(Ending("failed" if error else "completed", reason, self.world.loop.time()))
            self.world.computing.close()
        self._engine.close()

    def _kill(self) -> None:
        """Kill this process like a crash. The state of observers is not part of the party, and is stored."""
        assert self.recorder is not None
        self.recorder.flush()
        self._faults["back_after"] = optional(getattr(self.world.faults.fired[-1].fault, "back_after", None))
        self._faults["state"] = self.world.faults.state()
        self.device.endpoint.alive = False
        self._write_ending(alive=False)
        os.kill(os.getpid(), signal.SIGKILL)


def warm_up(scenario: Scenario) -> None:
    """Import and warm up the libraries for the party's jobs, so that the first job is not slower."""
    names = (
        ["scipy.sparse.linalg", "sklearn.tree", "sklearn.ensemble"] if PROTOCOLS[scenario.protocol.name].learns else []
    )
    if PROTOCOLS[scenario.protocol.name].trains_networks(scenario):
        names += ["tacit.parties.learning.sgd", "tacit.parties.learning.adam", "tacit.parties.learning.inference"]
    for name in names:
        importlib.import_module(name)
    KeyPair(os.urandom(KEY_BYTES))  # the first key takes some milliseconds


def _limit_threads() -> None:
    """Make sums in this thread use one thread, as in the simulator."""
    one_thread().__enter__()


class OwnShards(Shards):
    """The share of client `own` (None: of no client), and only the numbers of points and labels of all other
    clients."""

    def __init__(self, all_shards: Shards, empty: Dataset, own: int | None) -> None:
        self.labels, self.points = all_shards.labels, all_shards.points
        self._number, self._own = own, None if own is None else all_shards[own]
        none = np.zeros(0, np.int64)
        self._other = Shard(empty.points, none, np.zeros(0, np.bool_), none)

    def _share(self, client: int) -> Shard:
        return self._own if self._own is not None and client == self._number else self._other

    def digest(self) -> bytes:
        raise TypeError("the shares of other clients are not here")


def own_data(scenario: Scenario, party: str, file: Path | None = None) -> tuple[Parts, OwnShards]:
    """The data that `party` knows: its own share, public points, and at the server the test data.

    The split follows from the scenario's seed, so that each process computes its share by itself. A client's points are
    those of `file`, if given: then the scenario's data are an outline (`tacit.parties.data.files`), with the file's
    numbers of rows and labels for that client. Raises DataError.
    """
    parts = parts_of(scenario)
    number = int(party.removeprefix("client/")) if party.startswith("client/") else None
    held, empty = parts.held, parts.held.take(slice(0))
    if file is not None and number is not None:
        held = _with_own(scenario, held, number, file)
    own = OwnShards(split(held, data_of(scenario), scenario.seed), empty, number)
    if party == "server":
        return replace(parts, held=empty), own
    return Parts(empty, public=parts.public), own


def _with_own(scenario: Scenario, outline: Dataset, number: int, file: Path) -> Dataset:
    """The `outline` with the points and labels of one client replaced by those of `file`. Raises DataError."""
    data = scenario.data
    if not data.path or data.partition != "natural" or outline.clients is None or data.test is not None:
        raise DataError(
            f'{file}: a file of one\'s own needs a scenario with data.partition = "natural", without data.test, whose '
            "data.path is what `tacit outline` has written of all clients' files"
        )
    own = load_file(file, data.label_column, data.client_column).with_features(data.features, progress)
    if number >= len(outline.client_names or ()):
        known = len(outline.client_names or ())
        raise DataError(f"{file}: {data.path} is an outline of {known} clients, of which none is client/{number}")
    rows = np.flatnonzero(outline.clients == number)
    check_against_outline(file, own, outline, f"the outline of client/{number}")
    for what, one, other in (
        ("rows", len(own.labels), len(rows)),
        ("rows with a label", (own.labels >= 0).sum(), (outline.labels[rows] >= 0).sum()),
    ):
        if one != other:
            raise DataError(f"{file}: {one} {what}; the outline of client/{number} has {other}")
    unknown = [name for name in own.classes if name not in outline.classes]
    if unknown:
        raise DataError(f"{file}: no outline has the class {unknown[0]!r}; they have {', '.join(outline.classes)}")
    codes = np.array([outline.classes.index(name) for name in own.classes] + [-1])
    points, labels = outline.points.copy(), outline.labels.copy()
    points[rows], labels[rows] = own.points, codes[own.labels]
    return replace(outline, points=points, labels=labels)
