"""`tacit trace`: the trace of a run for Perfetto, checked field by field against the record."""

import itertools
import shutil
import sqlite3
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tacit import load, run
from tacit.scenarios.command.main import app
from tests.earlier import without_digests

trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

STORM = """
[[fault]]
kind = "crash"
party = "client/2"
at = "hamming.encode"
back_after = "1s"
[[fault]]
kind = "slow"
party = "client/1"
time = "0s"
factor = 3
lasts = "100ms"
[[fault]]
kind = "lose"
party = "client/0"
message = "OwnBlock"
probability = 0.5
"""


def command(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["trace", *map(str, arguments)])
    return done.exit_code, done.stdout or done.stderr


class Trace:
    """The content of a trace, by the names of its tracks."""

    def __init__(self, path: Path) -> None:
        self.tracks: dict[int, Any] = {}
        self.slices: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.instants: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.counters: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.starts: dict[int, dict[str, Any]] = {}
        self.ends: dict[int, dict[str, Any]] = {}
        self._open: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self._now = 0
        packets = trace_pb2.Trace.FromString(path.read_bytes()).packet
        assert next(packet.sequence_flags for packet in packets if packet.HasField("track_event")) == 1
        for packet in packets:
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                assert packet.track_descriptor.parent_uuid in {0, *self.tracks}
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            else:
                self._event(packet)
        assert not any(self._open.values()), "a slice has no end"

    def process(self, track: int) -> str:
        parent = self.tracks[track].parent_uuid
        return self.tracks[parent].process.process_name if parent else ""

    def name(self, track: int) -> str:
        return self.tracks[track].name or self.tracks[track].thread.thread_name

    def _event(self, packet: Any) -> None:
        event, time = packet.track_event, packet.timestamp
        assert time >= self._now and event.track_uuid in self.tracks and packet.trusted_packet_sequence_id == 1
        self._now = time
        where = self.process(event.track_uuid), self.name(event.track_uuid)
        if event.type == event.TYPE_COUNTER:
            exact = event.HasField("double_counter_value")
            self.counters[where].append(event.double_counter_value if exact else event.counter_value)
            return
        if event.type == event.TYPE_SLICE_END:
            self._open[event.track_uuid].pop()["ended"] = time
            return
        notes = {one.name: getattr(one, one.WhichOneof("value")) for one in event.debug_annotations}
        found = {"party": where[0], "track": where[1], "name": event.name, "time": time, **notes}
        (category,) = event.categories
        if event.type == event.TYPE_SLICE_BEGIN:
            nested = self._open[event.track_uuid]
            assert not nested or where[1] == "steps", f"two slices overlap on {where}"
            nested.append(found)
            self.slices[category].append(found)
        else:
            assert event.type == event.TYPE_INSTANT
            self.instants[category].append(found)
        for number in event.flow_ids:
            assert number not in self.starts
            self.starts[number] = found
        for number in event.terminating_flow_ids:
            assert self.starts[number]["time"] <= time and number not in self.ends
            self.ends[number] = found


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def check(folder: Path, path: Path) -> Trace:
    """The trace of the run in `folder`, after comparing every part with the record."""
    assert command(folder, "--perfetto", path)[0] == 0
    trace = Trace(path)
    with closing(sqlite3.connect(folder / "run.sqlite")) as record:
        record.row_factory = sqlite3.Row
        rows = {
            name: record.execute(f"SELECT * FROM {name}").fetchall()
            for name in ("messages", "hops", "steps", "waits", "computing", "faults", "metrics", "outcomes", "losses")
        }
    messages = {one["message"]: one for one in trace.slices["message"]}
    assert len(messages) == len(trace.slices["message"]) == len(rows["messages"])
    for row in rows["messages"]:
        one = messages[row["message"]]
        assert (one["name"], one["time"], one["track"]) == (row["type"], ns(row["sent"]), "sent")
        assert (one["party"], one["from"], one["to"]) == (row["sender"], row["sender"], row["receiver"])
        for name in ("bytes", "payload", "sealing", "envelope", "hops", "step", "round", "attempt", "fate"):
            assert one[name] == row[name]
        if row["received"] is not None:
            end = trace.ends[row["message"]]
            assert trace.starts[row["message"]] is one and one["ended"] == end["time"] == ns(row["received"])
            assert (end["party"], end["track"], end["message"]) == (row["receiver"], "received", row["message"])
    arrived = {row["message"] for row in rows["messages"] if row["received"] is not None}
    assert {*trace.starts} == {*trace.ends} == arrived
    for kind, name, time in (("step", "steps", "entered"), ("wait", "waits", "began"), ("job", "computing", "began")):
        found = sorted((one["party"], one["time"]) for one in trace.slices[kind])
        assert found == sorted((row["party"], ns(row[time])) for row in rows[name])
    for row in rows["steps"]:
        times = row["party"], row["step"], ns(row["entered"]), None if row["left"] is None else ns(row["left"])
        assert any(
            times in ((one["party"], one["name"], one["time"], end) for end in (one["ended"], None))
            for one in trace.slices["step"]
        )
    for kind, name in (("fault", "faults"), ("outcome", "outcomes")):
        found = sorted((one["party"], one["time"], one["name"]) for one in trace.instants[kind])
        assert found == sorted((row["party"], ns(row["time"]), row["note"]) for row in rows[name])
    assert len(trace.instants["loss"]) == len(rows["losses"])
    sizes: dict[str, int] = defaultdict(int)
    for row in rows["hops"]:
        sizes[row["sender"]] += row["bytes"]
        sizes[""] += row["bytes"]
    for party, size in sizes.items():
        values = trace.counters[party, "bytes in flight"]
        assert values[-1] == 0 and min(values) >= 0
        assert sum(max(0, after - before) for before, after in itertools.pairwise([0, *values])) == size
    for row in rows["metrics"]:
        assert row["value"] in trace.counters[row["party"], row["name"]]
    return trace


def test_every_recorded_event_is_in_the_trace_once(quick: Path, tmp_path: Path) -> None:
    folder = run(load(quick), out=tmp_path / "run").folder
    trace = check(folder, tmp_path / "run.pftrace")
    names = [track.process.process_name for track in trace.tracks.values() if track.HasField("process")]
    assert names == ["server", *(f"client/{number}" for number in range(4))]
    assert {one["track"] for one in trace.slices["round"]} == {"rounds"}
    path = trace.slices["critical path"]
    assert path[0]["time"] == 0 and all(one["ended"] == after["time"] for one, after in itertools.pairwise(path))


def test_faults_are_slices_and_instants_in_the_trace(quick: Path, tmp_path: Path) -> None:
    quick.write_text(quick.read_text().partition("[expect]")[0] + STORM)
    changes = ["cost=modelled", "network.topology=mesh", "network.loss=0.2", "protocol.deadline=5s"]
    result = run(load(quick, changes), out=tmp_path / "run")
    assert result.outcome == "completed" and result.messages_lost, result.reason
    trace = check(result.folder, tmp_path / "run.pftrace")
    bands = {(one["party"], one["name"]): one for one in trace.slices["fault"]}
    assert {*bands} == {("client/2", "down"), ("client/1", "slow")}
    assert bands["client/1", "slow"]["ended"] == 100_000_000
    lost = [one for one in trace.slices["message"] if one["fate"] == "lost"]
    assert all("note" in one and one["message"] not in trace.starts for one in lost)
    assert any(one.get("copies lost") for one in trace.slices["message"])


def test_metrics_are_counters_and_a_core_has_one_job_at_a_time(tiny: Path, tmp_path: Path) -> None:
    result = run(load(tiny, ["protocol.name=fedavg"]), out=tmp_path / "run")
    trace = check(result.folder, tmp_path / "run.pftrace")
    accuracies = list(result.frame("rounds")["accuracy"])
    assert trace.counters["server", "accuracy"] == accuracies
    assert {one["track"] for one in trace.slices["job"]} == {"core 1"}


@pytest.mark.parametrize("left", [1, 150, 300])
def test_a_killed_run_is_exported_up_to_the_end_of_its_record(quick: Path, tmp_path: Path, left: int) -> None:
    folder = run(load(quick), out=tmp_path / "run").folder
    with closing(sqlite3.connect(folder / "run.sqlite")) as record, record:
        (events,) = record.execute("SELECT count(*) FROM events").fetchone()
        for table in ("event_rows", "wait_begins", "wait_ends"):
            record.execute(f"DELETE FROM {table} WHERE n > ?", (left,))
        record.execute("DELETE FROM final_losses")
        record.execute("DELETE FROM ended_rounds WHERE n > ?", (left,))
        record.execute("DELETE FROM run WHERE key IN ('outcome', 'reason', 'virtual_seconds')")
    assert events > left
    without_digests(folder)
    check(folder, tmp_path / "run.pftrace")


def test_wrong_files_and_folders_are_refused_in_one_line_and_write_no_file(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(load(quick), out="run")
    Path("there").touch()
    assert command("run", "--perfetto", "there") == (2, "error: --perfetto: there exists already; name a new file\n")
    assert command("none", "--perfetto", "new") == (2, "error: none: no such folder; that of a run is needed\n")
    assert command("run", "--perfetto", "no/such/file")[0] == 2
    with closing(sqlite3.connect("run/run.sqlite")) as record, record:
        record.execute("UPDATE event_rows SET time = 'soon' WHERE kind = 'send'")
    without_digests(Path("run"))
    code, shown = command("run", "--perfetto", "new")
    assert code == 2 and shown.startswith("error: run/run.sqlite: ") and not Path("new").exists()
    monkeypatch.setitem(sys.modules, "perfetto", None)
    missing = 'a trace for Perfetto needs perfetto, which is not installed: pip install "tacit-fl[trace]"'
    assert command("run", "--perfetto", "new") == (2, f"error: {missing}\n")


@pytest.mark.skipif(
    shutil.which("trace_processor_shell") is None, reason="Perfetto's trace processor is not on the path"
)
def test_the_trace_processor_reads_the_trace(quick: Path, tmp_path: Path) -> None:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    result = run(load(quick), out=tmp_path / "run")
    command(result.folder, "--perfetto", tmp_path / "run.pftrace")
    config = TraceProcessorConfig(bin_path=shutil.which("trace_processor_shell"))
    with TraceProcessor(trace=str(tmp_path / "run.pftrace"), config=config) as processor:
        (row,) = processor.query("SELECT count(*) AS n FROM slice WHERE category = 'message' AND dur > 0")
        (flows,) = processor.query("SELECT count(*) AS n FROM flow")
        (errors,) = processor.query("SELECT sum(value) AS n FROM stats WHERE severity = 'error'")
    assert row.n == flows.n > 0 and errors.n == 0
