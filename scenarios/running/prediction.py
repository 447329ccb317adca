"""Payloads of a run by formula, which `tacit bytes` compares with the measured ones; the energy of a run's clients; and
predictions of runs.

The memory of this process, as its operating system counts it, and the estimated memory of a run.

The constants were measured on Linux x86-64 by `peak_memory` of runs with the engine inline, each in a new process.
"""

import json
import resource
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.energy import Energy, EnergyMeter
from tacit.parties.fleet.fleet import Fleet
from tacit.parties.server import Loss
from tacit.protocols.experiment.experiment import AWAKE, Parts
from tacit.protocols.outcome import Reason
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.plugins import failure_reason
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.folder import ByteRow
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.running.whole import opened_record
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.setting_error import Problem
from tacit.sim.shares import rounded_up
from tacit.sim.tcp import SET_UP, SET_UP_NAME, headers
from tacit.sim.toml_text import toml
from tacit.sim.trace import Event
from tacit.sim.wire import LedgerRow

__all__ = [
    "Prediction", "client_seconds", "energy_meter", "energy_of", "payloads_of", "peak_memory", "predict_run",
    "predicted", "predicted_memory", "seconds_in",
]  # fmt: skip


def predicted(folder: Path, types: Collection[str] = ()) -> dict[str, int]:
    """Return the payload of each message type in the run in `folder`, by formula; 0 for those of `types` without a
    formula.

    Types whose number depends on the run are left out. The payloads are read from ``result.json``; if it has none,
    because an earlier version wrote it, the data is loaded and split again.

    The result is empty if the formulas do not apply or lack a value: a party was lost, the run did not complete, its
    protocol has no formula here, or its scenario or data can no longer be read. Raises ScenarioError if a plugin's
    formula fails.
    """
    try:
        result = json.loads((folder / "result.json").read_bytes())
        if result["outcome"] != "completed" or result["lost"]:
            return {}
        found = msgspec.convert(result.get("formula"), dict[str, int | None] | None)
        if found is None:
            scenario = read(folder).scenario
            parts, shards = (material := material_of(scenario)).parts, material.named
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    try:
        sizes = payloads_of(scenario, parts, shards) if found is None else found
    except Problem as error:
        raise ScenarioError(str(folder), error.key, error.problem) from error
    whole = {**dict.fromkeys(types, 0), **sizes} if sizes else {}
    return {kind: size for kind, size in whole.items() if size is not None}


BASE = 119_000_000
"""Bytes of Python, numpy and Tacit in a run of XCLP in the clear among ten clients, without its n^2 numbers."""

PER_CLIENT = 110_000
"""Bytes of a party with its links, from runs with a hundred and with ten clients and a network of 2.6 kB."""

AT_REST = 5_500
"""Bytes of a resting client among a hundred thousand, while its first message and answer are in flight; and as many
again while it is called."""

HELD_AT_ONCE = 1 / 3
"""The part of a cohort's shards that is held at the same time, from cohorts of 150 to 10,000 clients."""

HELD_COPIES = 1.5
"""Bytes held for each byte of a message, with the objects made from it at both ends, from IKNP among eight clients."""


def peak_memory() -> int:
    """Return the most bytes of memory that this process has held so far, without its workers'."""
    try:
        # On Linux getrusage's maximum includes the memory of the process that started this one.
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def predicted_memory(scenario: Scenario, parts: Parts, shards: Mapping[str, Shard], held: int) -> int:
    """Estimate the most bytes that a run of `scenario` holds, with nobody lost, in one process and on the processor.

    `held`: the most bytes of messages at the same time.
    """
    protocol = PROTOCOLS[scenario.protocol.name]
    sets = (getattr(parts, name) for name in parts.__dataclass_fields__)
    points = sum(_size(one) for one in sets if one is not None)
    used = max(protocol.memory(scenario, parts, shards), int(HELD_COPIES * held))
    count, held_points, clients = len(shards), 2 * points, PER_CLIENT * len(shards)
    if protocol.rests and count > AWAKE:  # a client at rest has no shard of its own
        share = protocol.share(scenario)
        cohort = rounded_up(share, count)
        with_keys = AWAKE + (cohort if protocol.sums(scenario, cohort) else 0)
        held_points = int((1 + share * HELD_AT_ONCE) * points)
        clients = PER_CLIENT * min(count, with_keys) + AT_REST * (count + cohort)
    return BASE + protocol.loaded(scenario) + held_points + clients + used


def _size(points: Dataset) -> int:
    """Return the bytes of the arrays of `points`; the shards' copies take the same again."""
    return sum(int(getattr(value, "nbytes", 0)) for value in vars(points).values())


def payloads_of(scenario: Scenario, parts: Parts, shards: Mapping[str, Shard]) -> dict[str, int | None]:
    """Return the payload by formula of each message type that has one in a run with nobody lost; {} without a formula.

    A type whose number depends on the run has None. Raises Problem if a plugin's formula fails.
    """
    try:
        return dict(PROTOCOLS[scenario.protocol.name].sent_bytes(scenario, parts, shards) or {})
    except LookupError:  # a part added by a plugin may have no formula
        return {}


@dataclass(frozen=True)
class Prediction:
    """The predicted figures of a run: messages and bytes by step and type, virtual seconds, memory; and its end.

    `outcome` and `reason` are those of the run, `lost` holds the parties that its server misses, `points` counts the
    points of all clients, and `energy` is the energy that its clients use, None if it is not counted.
    """

    rows: list[ByteRow]
    virtual_seconds: float
    peak_memory: int
    outcome: str
    reason: Reason
    lost: list[Loss]
    points: int
    energy: Energy | None = None


def predict_run(scenario: Scenario, where: str = "") -> Prediction:
    """Predict a run of `scenario` with its faults and losses, by running it on hollow values.

    Raises ScenarioError, naming `where`, if that fails.
    """
    tcp = scenario.network.transport == "tcp"
    overhead: Counter[tuple[str, str]] = Counter()

    def note(event: Event) -> None:
        if event.kind in ("send", "relay"):
            overhead[event.step, event.type] += headers(event.payload + event.sealing + event.envelope)

    try:
        energy = energy_meter(scenario)
    except Problem as error:
        raise ScenarioError(where, error.key, error.problem) from error
    sinks: list[Callable[[Event], None]] = [*([note] if tcp else []), *([energy[1]] if energy else [])]
    simulation = Simulation(scenario, sinks=sinks, engine="inline", hollow=True, hashed=False)
    try:
        with closing(simulation):
            found = simulation.run()
    except Problem as error:
        raise ScenarioError(where, error.key, error.problem) from error
    except Exception as error:
        problem = f"{toml(scenario.protocol.name)} fails where it is predicted: {failure_reason(error)}"
        raise ScenarioError(where, "protocol.name", problem) from error
    rows = _by_type(simulation.ledger.rows(), overhead)
    if tcp:
        connected = {frozenset((row.sender, row.receiver)) for row in simulation.ledger.rows()}
        rows.append(ByteRow("", SET_UP_NAME, 0, 0, 0, 0, SET_UP * len(connected)))
    memory = predicted_memory(*simulation.setting, simulation.most_held)
    points = sum(counted(simulation.setting[-1])[0].values())
    used = energy[0].energy(energy[1].found()) if energy else None
    return Prediction(rows, simulation.now, memory, found.outcome, Reason.of(found.reason), found.lost, points, used)


def _may_count_energy(scenario: Scenario) -> bool:
    """Return False if no table names a radio or a processor, so that no energy is counted and no fleet is needed."""
    device = scenario.device
    own = any(one.radio or one.processor or one.file for one in scenario.client)
    return own or bool(device.radio or device.processor)


def energy_meter(scenario: Scenario) -> tuple[Fleet, EnergyMeter] | None:
    """The fleet of `scenario`, and a sink of events that counts the energy of its clients; None if it counts none.

    Raises Problem for files of devices that cannot be read.
    """
    if not (_may_count_energy(scenario) and (fleet := Fleet(scenario)).counts_energy):
        return None
    return fleet, EnergyMeter(fleet.power)


def energy_of(scenario: Scenario, record: Path) -> Energy | None:
    """Return the clients' energy in a run with the `record`, its ``run.sqlite``; None if the scenario counts no energy.

    The record of a resumed run covers all its parts. Raises sqlite3.Error, and Problem for files of devices that can no
    longer be read.
    """
    if (found := energy_meter(scenario)) is None:
        return None
    fleet, meter = found
    with opened_record(record) as connection:
        events = connection.execute(
            "SELECT time, kind, party, peer, payload, sealing, envelope, value FROM events "
            "WHERE kind IN ('send', 'relay', 'deliver', 'carry', 'compute', 'stretch') ORDER BY rowid"
        )
        for time, kind, party, peer, payload, sealing, envelope, value in events:
            sizes = {"payload": payload, "sealing": sealing, "envelope": envelope}
            meter(Event(time, kind, party, peer, **sizes, value=value))
    return fleet.energy(meter.found())


def client_seconds(record: Path, *, deployed: bool = False) -> float | None:
    """Return the virtual seconds of one core that all clients compute together in a run with the `record`.

    The record of a resumed run covers all its parts. `deployed`: the seconds of processor time that the jobs of clients
    took, over all their incarnations; None if the record has none. Raises sqlite3.Error.
    """
    with opened_record(record) as connection:
        return seconds_in(connection, deployed=deployed)


def seconds_in(record: sqlite3.Connection, *, deployed: bool = False) -> float | None:
    """Return `client_seconds` of an open `record`."""
    query = "SELECT SUM(value) FROM events WHERE kind = ? AND party LIKE 'client/%'"
    (found,) = record.execute(query, ["processor" if deployed else "compute"]).fetchone()
    return found if deployed else found or 0.0


def _by_type(rows: Iterable[LedgerRow], headers: Mapping[tuple[str, str], int]) -> list[ByteRow]:
    """Return the sums over senders and receivers, in the order of the first message."""
    found: dict[tuple[str, str], list[LedgerRow]] = {}
    for row in rows:
        found.setdefault((row.step, row.type), []).append(row)

    def total(alike: Iterable[LedgerRow], column: str) -> int:
        return sum(getattr(row, column) for row in alike)

    return [
        ByteRow(
            *key,
            total(alike, "messages"),
            total(alike, "payload"),
            total(alike, "sealing"),
            total(alike, "envelope"),
            headers.get(key, 0),
        )
        for key, alike in found.items()
    ]
