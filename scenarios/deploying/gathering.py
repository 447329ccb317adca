"""Combines the folders of a deployed run's processes into one folder, like that of a simulated run."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tacit.parties.life import Present
from tacit.protocols.experiment.experiment import Checkpointable, Setting, parties_in
from tacit.protocols.experiment.simulated import Simulated
from tacit.protocols.outcome import Reason
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.deploying.gathered import Gathered, gather_events, parts_in
from tacit.scenarios.deploying.plain_state import Ending, read_ending, restore_ending, seen_by_observer
from tacit.scenarios.files.fault_checks import faults_of
from tacit.scenarios.files.plugins import use_plugins
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.folder import FolderError, Result, RunFolder
from tacit.scenarios.running.prediction import client_seconds
from tacit.scenarios.running.process import one_thread
from tacit.scenarios.running.record_format import SCHEMA, TABLES
from tacit.scenarios.running.recorder import recorded
from tacit.scenarios.running.runner import result_of
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.conditions import Statistics
from tacit.sim.faults import Crash, Fault, Fired
from tacit.sim.trace import Fact, Trace
from tacit.sim.wire import Ledger
from tacit.sim.world import World

__all__ = ["gather"]


class _Seen:
    """A deployed run that has ended, with the attributes of a simulation that `result_of` reads."""

    engine = "processes"
    troubles = Statistics(0, {})

    def __init__(self, gathered: Gathered, observer: Any) -> None:
        self.observer, self.now = observer, gathered.seconds
        self.trace, self.ledger = Trace(), Ledger()
        self.ledger.restore(gathered.ledger)


def gather(scenario: Scenario, name: str, folders: Sequence[Path], out: Path) -> Result:
    """Combine the `folders` of a run's processes in the folder `out`, which must hold no run.

    It needs the scenario's data for measurements. Raises FolderError if a folder does not belong to this run.
    """
    gathered = gather_events(parts_in(folders))
    endings = {one.party: one for one in _endings(folders)}
    if "server" not in {part.party for part in parts_in(folders)}:
        raise FolderError("none of the folders is the server's; without it there is no run")
    use_plugins(scenario)
    with closing(RunFolder(out, scenario, name)) as folder, one_thread():
        seen, simulated = _looked_at(scenario, gathered, endings)
        with closing(seen.world.loop):
            _write(folder.path / "run.sqlite", gathered, simulated)
            folder.write_rounds()
            simulated.keep(folder.path)
            folder.write_labels(simulated.predictions)
            result = result_of(scenario, name, seen, simulated, None, gathered.seconds)
            result.faults = [one for one in result.faults if one.fault < len(scenario.fault)]
            result.trace_hash = result.shape_hash = ""
            result.client_seconds = client_seconds(folder.path / "run.sqlite", deployed=True)
            result.folder = folder.path
            folder.make_room()
            folder.write_result(result)
    return result


def _endings(folders: Iterable[Path]) -> list[Ending]:
    try:
        return [read_ending(folder / "ending") for folder in folders if (folder / "ending").is_file()]
    except ValueError as error:
        raise FolderError(str(error)) from None


def _looked_at(scenario: Scenario, gathered: Gathered, endings: dict[str, Ending]) -> "tuple[Any, Simulated]":
    """The finished run as its observer sees it, with the parties in their final states. Raises FolderError."""
    material = material_of(scenario)
    world = World(scenario.seed)
    made = [faults_of(fault, scenario.data.clients) for fault in scenario.fault]
    falls, more = _falls(gathered, endings, made)
    experiment = PROTOCOLS[scenario.protocol.name].build(
        Setting(world, scenario, material.parts, material.named, [*made, *more])
    )
    server, clients = experiment.server, Present(experiment.clients)
    records: list[Any] = []
    try:
        for name, device in Present(parties_in(experiment)).devices.items():
            ending = endings.get(name)
            if ending is None:
                device.endpoint.alive = False
                device.party._step = next((fired.step for fired in reversed(falls) if fired.party == name), "")
            else:
                records += restore_ending(device.party, ending)
        world.faults.fired += falls
        world.loop.env.set_clock(gathered.seconds)
        observer: Any = experiment.observer
        if isinstance(observer, Checkpointable):
            if "server" in endings:
                observer.restore(seen_by_observer(endings["server"]))
        else:
            compared = getattr(observer, "compared", False) and all(name in endings for name in clients)
            for number, record in enumerate(records, 1):
                # Clients keep the oracle's inputs for the latest round only, and not if they were killed from outside.
                observer.compared = compared and number == len(records)
                for observe in server.observers:
                    observe(record)
        simulated = observer.sum_up()
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FolderError(f"the parties' endings do not fit the scenario: {error!r}") from error
    seen = _Seen(gathered, observer)
    seen.world = world  # type: ignore[attr-defined]
    return seen, simulated


def _falls(
    gathered: Gathered, endings: dict[str, Ending], made: Sequence[tuple[Fault, ...]]
) -> tuple[list[Fired], list[tuple[Fault, ...]]]:
    """The falls of parties, as applied faults: those of the scenario, and new ones, which are also returned by
    themselves.

    A party that falls by a fault records the fall itself. If a party is killed, the server records the lost connection;
    the party fell in the last step that it had entered.
    """
    falls: list[Fired] = []
    more: list[tuple[Fault, ...]] = []
    said = [one for one in gathered.events if one["fact"] == Fact.DOWN and one["detail"] == Crash.kind]
    for event in said:
        able = [one for made_of in made for one in made_of if isinstance(one, Crash) and _is_of(one, event)]
        left = [one for one in able if not any(one is of.fault and of.party == event["party"] for of in falls)]
        fault = min(left or able, key=lambda one: one.occurrence or 1, default=None)
        if fault is None:
            fault = Crash(event["party"], time=event["time"])
            more.append((fault,))
        falls.append(Fired(fault, event["time"], event["party"], "", event["step"], ""))
    for event in gathered.events:
        party = event["party"]
        if event["fact"] != Fact.DISCONNECTED or (party in endings and endings[party].alive):
            continue
        if not any(one.party == party for one in falls):
            steps = [one["step"] for one in gathered.of(party, "enter") if one["time"] <= event["time"]]
            fault = Crash(party, time=event["time"])
            more.append((fault,))
            falls.append(Fired(fault, event["time"], party, "", steps[-1] if steps else "", ""))
    return sorted(falls, key=lambda fired: fired.time), more


def _is_of(fault: Crash, event: dict[str, Any]) -> bool:
    return fault.applies_to(event["party"]) and event["note"] == f"crash {fault.trigger}"


def _write(path: Path, gathered: Gathered, simulated: Simulated) -> None:
    """Write the record of the whole run."""
    about = gathered.about | {
        "outcome": simulated.outcome, **recorded(Reason.of(simulated.reason)), "virtual_seconds": gathered.seconds
    }  # fmt: skip
    losses = [
        {"time": one.time, "round": one.round, "party": one.party, "step": one.step, "action": one.action}
        for one in simulated.lost
    ]
    rows = {
        "run": [{"key": key, "value": value} for key, value in about.items()],
        "files": gathered.files,
        "event_rows": gathered.events,
        **gathered.waits,
        "ended_rounds": gathered.rounds,
        "final_losses": losses,
        "contents": gathered.contents,
    }
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"BEGIN;\n{SCHEMA}COMMIT;")
        for table in TABLES:
            names = [name for name, *_ in table.columns]
            places = ", ".join("?" * len(names))
            values = [[row[name] for name in names] for row in rows[table.name]]
            connection.executemany(f"INSERT INTO {table.name} VALUES ({places})", values)
        connection.commit()
