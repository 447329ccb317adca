"""Runs: the folder is always complete, and the result describes the end of the run."""

import csv
import json
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import tacit
from tacit import Data, Expect, Result, Scenario, ScenarioError, Watch, load, run
from tacit.parties.fleet.fleet import Fleet
from tacit.protocols.experiment.experiment import Parts
from tacit.scenarios.files import splits
from tacit.scenarios.files.reading import read
from tacit.scenarios.running import runner as running
from tacit.scenarios.running.folder import RunFolder, byte_rows
from tacit.scenarios.running.runner import carry_out, exit_code, unmet
from tacit.scenarios.running.simulation import Simulated, Simulation
from tacit.sim.trace import Event

FILES = {"scenario.toml", "result.json", "labels.csv", "rounds.csv", "run.sqlite"}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def breaking_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every simulation run to its end and then raise `error`."""

    class Breaking(Simulation):
        def run(self) -> Simulated:
            super().run()
            raise error

    monkeypatch.setattr(running, "Simulation", Breaking)


@pytest.fixture
def result(quick: Path, tmp_path: Path) -> Result:
    return run(load(quick), out=tmp_path / "out")


def test_a_run_leaves_a_complete_folder(result: Result) -> None:
    assert names(result.folder) == FILES
    assert (result.outcome, result.reason, result.unmet, result.lost) == ("completed", "", [], [])
    assert result.equals_plaintext is True
    assert exit_code(result, Expect()) == 0
    record = json.loads((result.folder / "result.json").read_text())
    assert {
        "scenario", "seed", "version", "fidelity", "entropy", "outcome", "reason", "accuracy", "baselines",
        "virtual_seconds", "wall_seconds", "bytes_total", "bytes_payload", "bytes_sealing", "bytes_envelope",
        "trace_hash", "shape_hash", "hamming_digest", "labels_digest", "lost", "environment",
    } <= set(record)  # fmt: skip
    assert {"python", "packages", "cpu", "device", "cost_table"} <= set(record["environment"])
    assert record["accuracy"] == result.accuracy and record["trace_hash"] == result.trace_hash
    assert not {"folder", "error", "predictions"} & set(record)


def test_every_prediction_has_a_line_in_the_file_of_labels(result: Result) -> None:
    with (result.folder / "labels.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["party", "client", "row", "label", "confidence"]
    assert len({(line["party"], line["row"]) for line in lines}) == len(lines) > 30
    assert {line["label"] for line in lines} <= {*map(str, range(10)), ""}
    assert all(0 <= float(line["confidence"]) <= 1 for line in lines)


def test_the_record_of_messages_and_the_ledger_agree(result: Result) -> None:
    rows = byte_rows(result.folder)
    assert sum(row.messages for row in rows) == result.message_count
    assert sum(row.payload for row in rows) == result.bytes_payload > 0
    assert sum(row.sealing for row in rows) == result.bytes_sealing > 0
    assert sum(row.envelope for row in rows) == result.bytes_envelope
    assert sum(row.total for row in rows) == result.bytes_total


def test_the_folders_scenario_runs_again_to_the_same_hash(result: Result, tmp_path: Path) -> None:
    again = run(load(result.folder), out=tmp_path / "again")
    assert again.trace_hash == result.trace_hash
    assert again.labels_digest == result.labels_digest
    assert (again.folder / "scenario.toml").read_text() == (result.folder / "scenario.toml").read_text()


def test_another_seed_gives_another_trace(result: Result, quick: Path, tmp_path: Path) -> None:
    assert run(load(quick, seed=4), out=tmp_path / "other").trace_hash != result.trace_hash


def test_a_measured_run_can_be_replayed(quick: Path, tmp_path: Path) -> None:
    measured = run(load(quick, ["cost=measured"]), out=tmp_path / "measured")
    assert measured.virtual_seconds > 0
    replayed = run(load(quick, [f"cost=replayed:{measured.folder}"]), out=tmp_path / "replayed")
    assert replayed.virtual_seconds == pytest.approx(measured.virtual_seconds, rel=1e-12)
    assert replayed.labels_digest == measured.labels_digest


def test_without_out_the_folder_is_numbered(tmp_path: Path, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [run(load(quick)).folder for _ in range(2)]
    assert folders == [Path("runs/four-clients-quickly-3-1"), Path("runs/four-clients-quickly-3-2")]
    loaded = read(quick)
    assert carry_out(loaded.scenario, loaded.name).folder == Path("runs/quick-3-1")


def test_arguments_from_python_are_checked_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError):
        run(Scenario(data=Data(clients=1)), out=tmp_path / "out")
    with pytest.raises(ScenarioError, match="engine"):
        run(Scenario(), out=tmp_path / "out", engine="pool:many")
    assert not (tmp_path / "out").exists()


def test_a_run_into_an_existing_folder_is_refused(quick: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        run(load(quick), out=tmp_path)


def test_the_engine_of_the_call_overrides_the_scenarios(quick: Path, tmp_path: Path) -> None:
    scenario = load(quick, ["engine=auto"])
    assert run(scenario, out=tmp_path / "out", engine="inline").engine == "inline"


def test_an_error_in_a_run_leaves_a_complete_folder(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking_with(RuntimeError("no luck today"), monkeypatch)
    result = run(load(quick), out=tmp_path / "out")
    assert names(result.folder) == FILES | {"failure.txt"}
    assert (result.outcome, result.reason) == ("failed", "RuntimeError: no luck today")
    assert isinstance(result.error, RuntimeError)
    assert exit_code(result, Expect()) == 1
    record = json.loads((result.folder / "result.json").read_text())
    assert (record["outcome"], record["trace_hash"]) == ("failed", result.trace_hash)
    assert record["bytes_total"] == sum(row.total for row in byte_rows(result.folder)) > 0
    assert (result.folder / "labels.csv").read_text() == "party,client,row,label,confidence\n"
    assert "no luck today" in (result.folder / "failure.txt").read_text()


def test_an_error_while_the_world_is_built_leaves_a_complete_folder(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Simulation:
        raise MemoryError("too big")

    monkeypatch.setattr(running, "Simulation", refuse)
    result = run(load(quick), out=tmp_path / "out")
    assert names(result.folder) == FILES | {"failure.txt"}
    assert (result.outcome, result.reason, result.trace_hash) == ("failed", "MemoryError: too big", "")


def test_an_interrupted_run_leaves_a_complete_folder(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking_with(KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(load(quick), out=tmp_path / "out")
    assert names(tmp_path / "out") == FILES
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (record["outcome"], record["unmet"]) == ("interrupted", [])
    scenario = load(quick)
    assert exit_code(carry_out(scenario, "quick", out=tmp_path / "second"), scenario.expect) == 130


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_dropped_by_python_is_raised_with_the_next_event(quick: Path, tmp_path: Path) -> None:
    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    class Observer(Watch):
        seen = 0

        def __call__(self, event: Event) -> None:
            self.seen += 1
            if self.seen == 20:
                Dying()

    observer = Observer()
    result = carry_out(load(quick), "quick", out=tmp_path / "out", watch=observer)
    assert (result.outcome, observer.seen) == ("interrupted", 20)


def test_a_second_ctrl_c_leaves_a_complete_folder(quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = RunFolder.write_result

    def write_amid_signals(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        write(*arguments)

    class Observer(Watch):
        def __call__(self, event: Event) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunFolder, "write_result", write_amid_signals)
    result = carry_out(load(quick), "quick", out=tmp_path / "out", watch=Observer())
    assert result.outcome == "interrupted" and names(result.folder) == FILES
    with pytest.raises(KeyboardInterrupt):  # afterwards signals have their earlier handlers
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("where", ["RunFolder.lasting", "Recorder.__init__", "Recorder.close", "Simulation.close"])
def test_an_interrupt_before_or_after_the_work_leaves_an_ending(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    owner, name = where.split(".")
    kind = getattr(running, owner)
    method = getattr(kind, name)

    def amid_signal(*arguments: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return method(*arguments, **named)

    monkeypatch.setattr(kind, name, amid_signal)
    if name == "close":  # the run has ended, so it is not interrupted
        with pytest.raises(KeyboardInterrupt):
            carry_out(load(quick), "quick", out=tmp_path / "out")
    else:
        carry_out(load(quick), "quick", out=tmp_path / "out")
    outcome = "completed" if name == "close" else "interrupted"
    assert names(tmp_path / "out") == FILES
    assert json.loads((tmp_path / "out" / "result.json").read_text())["outcome"] == outcome
    with closing(sqlite3.connect(tmp_path / "out" / "run.sqlite")) as record:
        assert record.execute("SELECT value FROM run WHERE key = 'outcome'").fetchone() == (outcome,)


def test_a_watch_gets_every_event_and_the_begin_and_end(quick: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    class Observer(Watch):
        def __call__(self, event: Event) -> None:
            seen.append(event.kind)

    result = run(load(quick), out=tmp_path / "out", watch=Observer())
    assert seen.count("send") + seen.count("relay") == result.message_count


# --- expectations and exit codes


def result_of(outcome: str, **changes: object) -> Result:
    """A result with this outcome and ordinary values otherwise."""
    texts = ("scenario", "title", "version", "fidelity", "entropy", "engine", "reason")
    digests = ("trace_hash", "shape_hash", "hamming_digest", "labels_digest")
    numbers = ("seed", "message_count", "bytes_total", "bytes_payload", "bytes_sealing", "bytes_envelope")
    rest: dict[str, object] = {
        "unmet": [], "accuracy": None, "baselines": {}, "equals_plaintext": None, "lost": [], "endings": {},
        "faults": [], "round_records": [],
        "virtual_seconds": 0.0, "wall_seconds": 0.0, "warnings": [], "environment": {}, "outcome": outcome,
    }  # fmt: skip
    defaults = {**dict.fromkeys(texts + digests, ""), **dict.fromkeys(numbers, 0), **rest}
    return Result(**{**defaults, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "expect", "code"),
    [
        ("completed", Expect(), 0),
        ("completed", Expect(outcome="completed"), 0),
        ("completed", Expect(outcome="aborted"), 1),
        ("completed", Expect(lost=("client/1",)), 1),
        ("completed", Expect(equals_plaintext=True), 1),
        ("completed, NOT equal", Expect(), 1),
        ("completed, NOT equal", Expect(equals_plaintext=False), 0),
        ("aborted", Expect(), 3),
        ("aborted", Expect(outcome="completed"), 3),
        ("aborted", Expect(outcome="aborted"), 0),
        ("aborted", Expect(outcome="aborted", lost=("client/1",)), 1),
        ("failed", Expect(), 1),
        ("interrupted", Expect(outcome="completed"), 130),
    ],
)
def test_the_exit_code_follows_from_outcome_and_expectations(outcome: str, expect: Expect, code: int) -> None:
    outcome, _, unequal = outcome.partition(", ")
    result = result_of(outcome, equals_plaintext=False if unequal else None)
    result.unmet = [problem for _, problem in unmet(expect, result)]
    assert exit_code(result, expect) == code


def test_an_unmet_expectation_names_the_expected_and_the_actual_value() -> None:
    result = result_of("completed", equals_plaintext=False)
    expect = Expect(outcome="completed", equals_plaintext=True, lost=("client/2", "client/1"))
    assert unmet(expect, result) == [
        ("expect.equals_plaintext", "expected true, got false"),
        ("expect.lost", "expected client/1, client/2, got nobody"),
    ]


def test_an_unmet_expectation_is_in_the_result(quick: Path, tmp_path: Path) -> None:
    scenario = load(quick)
    scenario = msgspec.structs.replace(scenario, expect=Expect(lost=("client/1",)))
    result = run(scenario, out=tmp_path / "out")
    assert result.unmet and exit_code(result, scenario.expect) == 1


def test_a_failed_run_has_every_event_up_to_the_error(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking_with(RuntimeError("late"), monkeypatch)
    result = run(load(quick), out=tmp_path / "out")
    with sqlite3.connect(result.folder / "run.sqlite") as connection:
        assert connection.execute('SELECT count(*) FROM steps WHERE "left" IS NOT NULL').fetchone()[0] > 0
    connection.close()


def test_a_run_reads_its_data_once_and_lists_its_devices_once(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counter[str]()
    read, fill = splits._parts_of, Fleet.__init__

    def counted_read(scenario: Scenario) -> Parts:
        counts["data"] += 1
        return read(scenario)

    def counted_fill(self: Fleet, *arguments: Any) -> None:
        counts["fleet"] += 1
        fill(self, *arguments)

    monkeypatch.setattr(splits, "_parts_of", counted_read)
    monkeypatch.setattr(Fleet, "__init__", counted_fill)
    assert tacit.run(load(quick, ['protocol.name="local"']), out=quick.parent / "run").outcome == "completed"
    assert counts == {"data": 1, "fleet": 1}


def test_a_scenario_that_was_just_checked_is_not_read_again(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, reads = splits.parts_of, list[Scenario]()

    def read_data(scenario: Scenario) -> Parts:
        reads.append(scenario)
        return reading(scenario)

    monkeypatch.setattr(splits, "parts_of", read_data)
    scenario = load(quick)
    first = run(scenario, out=tmp_path / "first")
    assert len(reads) == 1
    assert run(scenario, out=tmp_path / "second").trace_hash == first.trace_hash
    assert len(reads) == 2  # the first run has used up the data of the check
    load(quick, ["seed=4"])
    assert run(scenario, out=tmp_path / "third").trace_hash == first.trace_hash


def test_the_files_and_the_memory_of_a_scenario_that_was_just_checked_are_checked_again(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = tmp_path / "delays.csv"
    delays.write_text("10ms\n")
    scenario = load(quick, [f"network.latency=csv:{delays}"])
    delays.write_text("soon\n")
    with pytest.raises(ScenarioError, match="names no delays"):
        run(scenario, out=tmp_path / "delayed")
    scenario = load(quick)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1, total=1))
    with pytest.raises(ScenarioError, match="memory"):
        run(scenario, out=tmp_path / "large")
