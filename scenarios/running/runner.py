"""Runs a scenario: folder, simulation, result. The folder is complete at the end, also after an error."""

import math
import sqlite3
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.parties.learning import jobs
from tacit.protocols.experiment.experiment import PartialReporter
from tacit.protocols.experiment.simulated import ACCURACY, ResultFields
from tacit.protocols.outcome import Reason
from tacit.protocols.privacy.spent import after_resuming
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.arguments import check_type
from tacit.scenarios.files.checks import still_holds
from tacit.scenarios.files.fault_checks import vain_returns
from tacit.scenarios.files.plugins import failure_reason, recorded
from tacit.scenarios.files.reading import Source, load, name_of, read
from tacit.scenarios.files.result import MODEL, Vulnerability
from tacit.scenarios.files.source import digests_of_inputs, table_of_run
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.checkpoint import Checkpoints, check_data, check_unfinished, read_checkpoint
from tacit.scenarios.running.environment import environment, version
from tacit.scenarios.running.folder import CHECKPOINT, LAST, FolderError, Result, RunFolder, disk_problem, new_folder
from tacit.scenarios.running.interruption import Interruption, LimitReached
from tacit.scenarios.running.outlook import cautions
from tacit.scenarios.running.prediction import client_seconds, energy_of, payloads_of, peak_memory, seconds_in
from tacit.scenarios.running.recorder import Ending, Recorder, keep_participants, recording_of
from tacit.scenarios.running.simulation import Simulated, Simulation, score_of
from tacit.scenarios.running.whole import written_first
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Expect, Scenario
from tacit.sim.conditions import Statistics
from tacit.sim.setting_error import Problem
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Sink
from tacit.sim.units import duration, format_duration

__all__ = ["Watch", "about", "carry_out", "exit_code", "give_up", "result_of", "resume", "run", "unmet"]

ABORTED = 3
"""Exit code after a clear abort, when too few parties were left."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells: 128 plus the number of SIGINT."""


class Watch:
    """Observes a run: a sink of its events, and a context around it."""

    def __call__(self, event: Event) -> None:
        """Called with each event, in the thread of the simulation."""

    def watching(self, simulation: Simulation) -> AbstractContextManager[object]:
        """A context that lasts as long as the run."""
        return nullcontext()


def run(
    scenario: Source,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    engine: str | None = None,
    watch: Watch | None = None,
    limit: float | None = None,
) -> Result:
    """Check `scenario`, run it and return the result, which names its folder.

    `scenario` is one made in Python or by `load`, or a name or path as for `load`. `out` is the folder to make, by
    default ``runs/NAME-SEED-NUMBER``, with the scenario's name, or one made from its title, or the file's. `overwrite`
    replaces the folder of an earlier run at `out`, and raises FolderError for any other folder. `engine` replaces the
    scenario's; `watch` sees each event. A run that takes more than `limit` seconds of wall-clock time is ended as
    failed; the reason names its place in the code at that time.

    An error inside the run is not raised: the outcome is "failed", and `error` holds it. A running event loop, as in a
    notebook, is blocked until the run ends. Raises ScenarioError for an invalid scenario, TypeError, FileExistsError if
    `out` exists, OSError if `result.json` cannot be written, and KeyboardInterrupt after Ctrl-C (the folder is complete
    then).
    """
    check_type("scenario", scenario, (Scenario, str, Path), "a Scenario, or a name or path as str or Path")
    check_type("out", out, (str, Path, type(None)), "the folder to make, as str or Path, or None")
    check_type("overwrite", overwrite, bool, "True or False")
    check_type("engine", engine, (str, type(None)), '"auto", "inline", "pool:N", "ray:HOST:PORT" or None')
    check_type("watch", watch, (Watch, type(None)), "a Watch or None")
    check_type("limit", limit, (int, float, type(None)), "seconds > 0, or None")
    if limit is not None and not 0 < limit < math.inf:
        raise ValueError(f"limit is {limit}; allowed: seconds > 0, or None")
    if engine is None and isinstance(scenario, Scenario) and still_holds(scenario):
        checked, name = scenario, name_of(scenario)
    else:
        changes = [] if engine is None else [f"engine={toml(engine)}"]
        loaded = read(scenario, changes, options={"engine": "engine"})
        checked, name = loaded.scenario, loaded.name
    path = None if out is None else Path(out)
    result = carry_out(checked, name, out=path, overwrite=overwrite, watch=watch, limit=limit)
    if isinstance(result.error, KeyboardInterrupt):
        raise result.error
    return result


def carry_out(
    scenario: Scenario,
    name: str,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    limit: float | None = None,
) -> Result:
    """Run a scenario that is already checked. After Ctrl-C the outcome is "interrupted".

    KeyboardInterrupt is raised only before the folder is made, and after the run has ended.
    """
    with (
        Interruption(limit) as interruption,
        closing(RunFolder(new_folder(out, f"{name}-{scenario.seed}", overwrite=overwrite), scenario, name)) as folder,
    ):
        return _carry_out(scenario, name, folder, interruption, watch)


def resume(
    path: Path,
    *,
    engine: str | None = None,
    watch: Watch | None = None,
    or_restart: bool = False,
    limit: float | None = None,
) -> Result:
    """Resume the interrupted training run in the folder `path`, and return the result as `carry_out` does.

    The run continues from its checkpoint, or starts again if it has none yet; with `or_restart` also if its protocol
    writes none or the checkpoint is unusable. `engine` replaces the scenario's. Raises FolderError for a folder that
    has nothing to resume or is in use by another process, and ScenarioError.
    """
    check_unfinished(path)
    with closing(RunFolder(path)) as folder:
        check_unfinished(path)  # the run may have ended in the meantime
        scenario = load(path, [] if engine is None else [f'engine="{engine}"'])
        if not (PROTOCOLS[scenario.protocol.name].learns or or_restart):
            raise FolderError(f"{path}: only training can be resumed; `tacit run {path}` runs it from the start")
        try:
            earlier = _earlier(path, scenario)
        except FolderError:
            if not or_restart:
                raise
            earlier = _Earlier(resumed=(0,))
        with Interruption(limit) as interruption:
            folder.clear(record=earlier.recorder is None)
            return _carry_out(scenario, scenario.name, folder, interruption, watch, earlier)


def give_up(path: Path, scenario: Scenario, name: str, reason: str) -> None:
    """Mark the run in the folder `path` as interrupted, with a `reason`, because its process did not end by itself.

    The folder's content stays, for `resume`. If there is no folder, it is made.
    """
    path.mkdir(parents=True, exist_ok=True)
    begun = (path / "scenario.toml").is_file()
    with closing(RunFolder(path, None if begun else scenario, name)) as folder:
        result = result_of(scenario, name, None, None, KeyboardInterrupt(reason), 0.0)
        folder.make_room()
        folder.write_result(result)


def _earlier(path: Path, scenario: Scenario) -> "_Earlier":
    checkpoint = read_checkpoint(path)
    if checkpoint is None:
        return _Earlier(resumed=(0,))
    check_data(path, checkpoint, material_of(scenario).shards)
    recorder = Recorder(path / "run.sqlite", checkpoint.record, _contents(scenario))
    resumed = (*checkpoint.resumed, checkpoint.round)
    return _Earlier(checkpoint.state, recorder, checkpoint.wall_seconds, resumed, checkpoint.longer)


@dataclass(frozen=True)
class _Earlier:
    """The earlier part of a resumed run; empty for a run that starts."""

    state: dict[str, Any] | None = None
    recorder: Recorder | None = None
    wall_seconds: float = 0.0
    resumed: tuple[int, ...] = ()
    longer: float = 0.0


def _carry_out(
    scenario: Scenario,
    name: str,
    folder: RunFolder,
    interruption: Interruption,
    watch: Watch | None,
    earlier: _Earlier = _Earlier(),
) -> Result:
    recorder = earlier.recorder
    simulated: Simulated | None = None
    simulation: Simulation | None = None
    vulnerability: Vulnerability | None = None
    error: BaseException | None = None
    began = time.perf_counter()
    secret = folder.lasting(scenario)
    inputs = digests_of_inputs(table_of_run(folder.path / "scenario.toml", folder.written), folder.path)
    try:
        record = folder.path / "run.sqlite"
        begins = about(scenario, name) | {"folder": str(folder.path.absolute())}
        files = {} if recorder else written_first(folder.path)
        recorder = recorder or Recorder(record, contents=_contents(scenario), about=begins, files=files)
        with interruption.raising():
            recording = recording_of(recorder, scenario.data.clients)
            sinks: list[Sink] = [recording, interruption, *([watch] if watch else [])]
            taps = Taps(delivered=[recorder.tap] if recorder.keeps_contents else [], waits=[recording.wait])
            cautions(scenario)  # computed while the checked data are in memory; cached for the result
            simulation = Simulation(scenario, sinks=sinks, taps=taps, engine=scenario.engine, lasting=secret)
            _record_rounds(simulation, recorder)
            recorder.rounds_written = folder.write_rounds
            if earlier.state is not None:
                simulation.restore(earlier.state, earlier.longer)
            every = scenario.training.checkpoint_every
            storing = Checkpoints(
                folder, recorder, simulation, every, earlier.wall_seconds, earlier.resumed,
                keeps_last=scenario.entropy == "seeded",
            )  # fmt: skip
            with storing, watch.watching(simulation) if watch else nullcontext():
                simulated = simulation.run()
            if scenario.attack.kind:
                recorder.flush()
                from tacit.scenarios.running.membership import attack

                vulnerability = attack(scenario, record, [interruption], simulation.setting[1])
    except (Exception, KeyboardInterrupt, SystemExit) as raised:  # a plugin's program may call sys.exit
        error = interruption.asked or interruption.reached or raised
    interruption.over()
    read = list[float | None]()
    error = _complete(folder, recorder, simulation, simulated, error, read) or error
    wall_seconds = earlier.wall_seconds + time.perf_counter() - began
    result = result_of(scenario, name, simulation, simulated, error, wall_seconds)
    result.folder = folder.path
    result.inputs = inputs
    result.resumed = list(earlier.resumed)
    if earlier.resumed and result.privacy is not None:
        result.privacy = after_resuming(result.privacy, seeded=scenario.entropy == "seeded")
    if scenario.entropy == "os":
        again = len(earlier.resumed) * scenario.training.checkpoint_every
        if again and result.randomised is not None:
            from tacit.protocols.privacy.released import with_rounds_again

            result.randomised = with_rounds_again(result.randomised, again)
    result.vulnerability = vulnerability
    with suppress(sqlite3.Error, Problem, FolderError):  # a record that a full disk left without tables has neither
        result.energy = energy_of(scenario, folder.path / "run.sqlite")
    with suppress(sqlite3.Error, Problem, FolderError):
        result.client_seconds = read[0] if read else client_seconds(folder.path / "run.sqlite")
    if simulation is not None and result.outcome == "completed" and not result.lost:
        with suppress(Exception):  # a plugin's formula failed: readers compute it again and report the error
            result.formula = payloads_of(*simulation.setting)
    folder.make_room()
    if error is not None and not isinstance(error, KeyboardInterrupt):
        folder.write_failure(_failure(error))
    folder.write_result(result)
    if error is None:
        (folder.path / CHECKPOINT).unlink(missing_ok=True)  # the run has ended and cannot be resumed
        folder.forget()
        if result.outcome != "completed":
            (folder.path / LAST).unlink(missing_ok=True)
    if simulation is not None:
        with suppress(KeyboardInterrupt):  # raised by a task that is being stopped after the work
            simulation.close()
    return result


def about(scenario: Scenario, name: str) -> dict[str, Any]:
    """The facts on the run that the record has from its beginning."""
    about = {"tacit": version(), "scenario": name, "title": scenario.title, "seed": scenario.seed}
    return about | {
        "protocol": scenario.protocol.name, "fidelity": scenario.fidelity, "transport": scenario.network.transport,
        "score": score_of(scenario),
    }  # fmt: skip


def _record_rounds(simulation: Simulation, recorder: Recorder) -> None:
    """Record each round at its end, before a checkpoint is written, which needs it."""
    server = simulation.server
    server.observers.insert(0, lambda record: recorder.end_round(simulation.now, server, record))


def _complete(
    folder: RunFolder,
    recorder: Recorder | None,
    simulation: Simulation | None,
    simulated: Simulated | None,
    error: BaseException | None,
    read: list[float | None],
) -> Exception | None:
    """Write all files but the last one, and `read` the clients' seconds. Returns the error if the disk is full."""

    def complete(record: sqlite3.Connection) -> None:
        folder.write_rounds(record)
        with suppress(sqlite3.Error):
            read.append(seconds_in(record))

    try:
        if recorder is not None:
            found, now = simulated or _partial_result(simulation), 0.0 if simulation is None else simulation.now
            recorder.close(Ending(*_outcome(simulated, error), now, found.lost, found.round_records), complete)
        if simulated is not None:
            simulated.keep(folder.path)
        folder.write_labels(() if simulated is None else simulated.predictions)
    except (OSError, sqlite3.Error) as error:
        if disk_problem(error) is None:
            raise
        for name in ("rounds.csv", "labels.csv", MODEL):
            (folder.path / name).unlink(missing_ok=True)  # a part of the file may have been written
        return error
    return None


def _failure(error: BaseException) -> str:
    """The content of ``failure.txt``: the traceback of `error`, or one line if the disk is full."""
    problem = disk_problem(error)
    return "".join(traceback.format_exception(error)) if problem is None else f"{problem}\n"


def result_of(
    scenario: Scenario,
    name: str,
    simulation: Simulation | None,
    simulated: Simulated | None,
    error: BaseException | None,
    wall_seconds: float,
) -> Result:
    outcome, reason = _outcome(simulated, error)
    rows = [] if simulation is None else simulation.ledger.rows()
    total = {column: sum(getattr(row, column) for row in rows) for column in _COLUMNS}
    found = simulated or _partial_result(simulation)
    troubles = Statistics(0, {}) if simulation is None else simulation.troubles
    result = Result(
        scenario=name,
        title=scenario.title,
        seed=scenario.seed,
        version=version(),
        fidelity=scenario.fidelity,
        entropy=scenario.entropy,
        engine=scenario.engine if simulation is None else simulation.engine,
        outcome=outcome,
        reason=str(reason),
        ended_by=reason.record() if reason else None,
        unmet=[],
        **{field: getattr(found, field) for field in ResultFields.__struct_fields__},
        faults=[] if simulation is None else simulation.observer.strikes(),
        virtual_seconds=0.0 if simulation is None else simulation.now,
        wall_seconds=wall_seconds,
        peak_memory=peak_memory(),
        message_count=total["messages"],
        bytes_total=total["payload"] + total["sealing"] + total["envelope"],
        bytes_payload=total["payload"],
        bytes_sealing=total["sealing"],
        bytes_envelope=total["envelope"],
        sent_again=troubles.sent_again,
        segments_sent_again=troubles.segments_again,
        segment_bytes_sent_again=troubles.segment_bytes_again,
        messages_lost=troubles.lost,
        trace_hash="" if simulation is None else simulation.trace.trace_hash,
        shape_hash="" if simulation is None else simulation.trace.shape_hash,
        warnings=cautions(scenario),
        plugins=recorded(scenario),
        environment=environment(_device(scenario)),
        error=error,
    )
    missed = unmet(scenario.expect, result)
    result.warnings += _late_returns(scenario, result)
    for number, problem in (simulated.silent if simulated else {}).items():
        fault, key = scenario.fault[number], f"fault.{number}"
        if scenario.expect != Expect() and fault.get("probability") is None:
            missed.append((key, problem))
        else:
            result.warnings.append(f"{key}: {problem}")
    result.unmet = [f"{key}: {problem}" if key else problem for key, problem in missed]
    result.unmet_keys = [key for key, _ in missed]
    keep_participants(result, scenario.data.clients)
    return result


def _late_returns(scenario: Scenario, result: Result) -> Iterator[str]:
    """A line for each `back_after` with which no party had returned at the end of the run, unless a caution covers
    it."""
    vain = vain_returns(scenario)
    for number, fault in enumerate(scenario.fault):
        struck, back_after = [one for one in result.faults if one.fault == number], fault.get("back_after")
        if back_after is None or not struck or number in vain:
            continue
        back = min(one.time for one in struck) + duration(back_after)
        if back >= result.virtual_seconds:
            party, ended = struck[0].party, format_duration(result.virtual_seconds)
            problem = f"{party} was to return at {format_duration(back)}, and the run ended at {ended}"
            yield f"fault.{number}.back_after = {toml(back_after)} changed nothing: {problem}"


def _device(scenario: Scenario) -> str:
    """The device on which the scenario's networks run here."""
    networks = PROTOCOLS[scenario.protocol.name].trains_networks(scenario)
    return jobs.choose_device(scenario.training.device) if networks else "cpu"


_COLUMNS = ("messages", "payload", "sealing", "envelope")


def _partial_result(simulation: Simulation | None) -> ResultFields:
    """The known fields of the result of a run that did not end."""
    if simulation is None or not isinstance(simulation.observer, PartialReporter):
        return ResultFields()
    return simulation.observer.so_far()


def _outcome(simulated: Simulated | None, error: BaseException | None) -> tuple[str, Reason]:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Reason(str(error) or "interrupted by Ctrl-C")
    if (problem := disk_problem(error)) is not None:
        return "failed", Reason("the run's folder could not be written: {problem}", problem=problem)
    if isinstance(error, LimitReached):
        return "failed", Reason(str(error))
    if error is not None:
        return "failed", Reason(failure_reason(error))
    assert simulated is not None
    return simulated.outcome, Reason.of(simulated.reason)


def unmet(expect: Expect, result: Result) -> list[tuple[str, str]]:
    """The key and the problem of each expectation that `result` does not meet.

    Equality with the oracle is always expected; its key is "" unless the file expects it.
    """
    if result.outcome == "interrupted":
        return []
    lost = sorted({loss.party for loss in result.lost})
    wanted_lost = None if expect.lost is None else sorted({party for _, party, _ in expect.losses})
    found: tuple[tuple[str, object, object], ...] = (
        ("outcome", expect.outcome, result.outcome),
        ("equals_plaintext", expect.equals_plaintext, result.equals_plaintext),
        ("lost", wanted_lost, lost),
    )
    missed = [
        (f"expect.{name}", f"expected {_words(wanted)}, got {_words(got)}")
        for name, wanted, got in found
        if wanted is not None and wanted != got
    ]
    if result.equals_plaintext is False and expect.equals_plaintext is None:
        missed.append(("", "the result is not equal to the plaintext oracle"))
    if expect.reason is not None and expect.reason not in result.reason:
        missed.append(("expect.reason", f"expected it to contain {toml(expect.reason)}, got {toml(result.reason)}"))
    least, accuracy = expect.accuracy_at_least, result.accuracy
    if least is not None and (accuracy is None or accuracy < least):
        none = "no accuracy" + (f": the score of the task is {result.score}" if result.score != ACCURACY else "")
        got = none if accuracy is None else f"{accuracy:.4f}"
        missed.append(("expect.accuracy_at_least", f"expected {least:g} or more, got {got}"))
    if expect.lost_at_most is not None and len(lost) > expect.lost_at_most:
        problem = f"expected {expect.lost_at_most}, got {len(lost)}: {', '.join(lost)}"
        missed.append(("expect.lost_at_most", problem))
    for key, party, step in expect.losses:
        steps = [loss.step for loss in result.lost if loss.party == party]
        if key == "lost_includes" and not steps:
            missed.append(("expect.lost_includes", f"expected {party}, got {_words(lost)}"))
        if step and steps and step not in steps:
            problem = f"expected {party} to be lost at {step}, it was lost at {', '.join(steps)}"
            missed.append((f"expect.{key}", problem))
    return missed


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "nobody"
    if value is None:
        return "no comparison"
    return str(value).lower()


def exit_code(result: Result, expect: Expect) -> int:
    """The exit code: 0 as expected; 1 failed, or not as expected; 3 an unexpected abort; 130 after Ctrl-C.

    A result that is not equal to the plaintext oracle is not as expected, unless the scenario expects that.
    An unexpected abort is 3 even if the file expects a completed run, as 3 is more specific than 1. A run that ends in
    an error has failed, whatever is expected.
    """
    if result.outcome == "aborted" and expect.outcome != "aborted":
        return ABORTED
    if result.outcome == "interrupted":
        return INTERRUPTED
    failed = result.outcome == "failed" and (expect.outcome != "failed" or result.error is not None)
    return 1 if failed or result.unmet else 0


def _contents(scenario: Scenario) -> dict[str, int]:
    """Return the message types whose contents an attack needs, each with the first round in which it is needed."""
    if not scenario.attack.kind:
        return {}
    attacked = PROTOCOLS[scenario.protocol.name].attacked(scenario)
    return {attacked.message.__name__: attacked.since[0]}
