"""The folder of a run: never shared between runs, and with every event."""

import sqlite3
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tacit import Scenario
from tacit.scenarios.running.folder import FolderError, RunFolder, byte_rows, new_folder
from tacit.scenarios.running.recorder import Recorder
from tacit.sim.trace import Event
from tacit.sim.wire import Packet


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def message(
    kind: str, time: float = 0.0, payload: int = 100, type: str = "Join", step: str = "setup.keys", number: int = 1
) -> Event:
    return Event(
        time, kind, "client/1", "server", "setup", step, type, 1, 2, payload, 28, 40, "why", 0.0, b"digest", number,
        number, 2 if kind in ("relay", "deliver") else 1, "client/1", "client/2",
    )  # fmt: skip


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(tmp_path / "run.sqlite")
    yield recorder
    recorder.close()


def test_a_new_folder_has_the_first_free_number(tmp_path: Path) -> None:
    names = [new_folder(None, "quick-3", tmp_path / "runs").name for _ in range(3)]
    assert names == ["quick-3-1", "quick-3-2", "quick-3-3"]
    (tmp_path / "runs" / "quick-3-2").rmdir()
    assert new_folder(None, "quick-3", tmp_path / "runs").name == "quick-3-2"


def test_runs_that_start_at_once_never_share_a_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: new_folder(None, "quick-3", tmp_path), range(40)))
    assert len(set(found)) == 40


def test_an_existing_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "result.json").write_text("precious")
    with pytest.raises(FileExistsError):
        new_folder(tmp_path / "mine", "any")
    assert (tmp_path / "mine" / "result.json").read_text() == "precious"


def test_the_scenario_is_in_the_folder_before_the_run_begins(tmp_path: Path) -> None:
    RunFolder(tmp_path, Scenario(seed=5))
    # Reserved for the last files.
    assert {path.name for path in tmp_path.iterdir()} == {"scenario.toml", ".reserve.partial"}
    assert tomllib.loads((tmp_path / "scenario.toml").read_text())["seed"] == 5


def test_messages_are_recorded_with_both_hops_and_their_fate(tmp_path: Path, recorder: Recorder) -> None:
    for kind in ("send", "relay", "deliver"):
        recorder(message(kind, 2.0 if kind == "deliver" else 1.0))
    recorder(message("send", 3.0, number=2))
    recorder(message("lose", 4.0, number=2))
    recorder(message("send", 5.0, number=3))
    recorder(Event(6.0, "drop", "client/2", step="setup.seed", note="late", sender="client/1", origin=("Join", 1, 2)))
    recorder.close()
    path = tmp_path / "run.sqlite"
    query = "SELECT message, sent, received, sender, receiver, hops, bytes, lost, fate, troubles FROM messages"
    assert rows(path, query) == [
        (1, 1.0, 2.0, "client/1", "client/2", 2, 336, 0, "received", None),
        (2, 3.0, None, "client/1", "client/2", 1, 168, 1, "lost", "why"),
        (3, 5.0, None, "client/1", "client/2", 1, 168, 0, "in flight", None),
    ]
    assert rows(path, "SELECT message, hop, sent, ended, fate, why FROM hops ORDER BY sent, hop") == [
        (1, 1, 1.0, 1.0, "arrived", ""), (1, 2, 1.0, 2.0, "arrived", ""), (2, 1, 3.0, 4.0, "lost", "why"),
        (3, 1, 5.0, None, "in flight", ""),
    ]  # fmt: skip
    assert rows(path, "SELECT * FROM refusals") == [(6.0, "client/1", "client/2", "setup.seed", "Join", 1, 2, "late")]
    assert rows(path, "SELECT digest FROM events WHERE n = 1") == [(b"digest",)]


def test_contents_of_selected_types_are_recorded_from_the_given_round_on(tmp_path: Path) -> None:
    def packet(kind: str, number: int) -> Packet:
        data = f"{kind} {number}".encode()
        return Packet(data, b"", b"", "client/1", "server", 1, "demo", "demo.step", kind, number, 1, False, 8, 0, 8)

    recorder = Recorder(tmp_path / "run.sqlite", contents={"Answer": 2})
    for number in (1, 2, 3):
        recorder.tap(float(number), packet("Answer", number))
        recorder.tap(float(number), packet("Question", number))
    recorder.close()
    recorder.tap(4.0, packet("Answer", 4))
    assert rows(tmp_path / "run.sqlite", "SELECT * FROM contents") == [
        (2.0, "client/1", "server", "Answer", 2, 1, b"Answer 2"),
        (3.0, "client/1", "server", "Answer", 3, 1, b"Answer 3"),
    ]


def test_steps_are_recorded_with_begin_and_end_if_they_ended(tmp_path: Path, recorder: Recorder) -> None:
    recorder(Event(1.0, "enter", "server", step="setup.keys"))
    recorder(Event(1.0, "enter", "client/0", step="setup.keys"))
    recorder(Event(2.0, "leave", "server", step="setup.keys"))
    recorder(Event(3.0, "enter", "client/0", step="setup.keys"))  # it has crashed and rejoined
    recorder(Event(4.0, "leave", "client/0", step="setup.keys"))
    recorder(Event(5.0, "enter", "client/0", step="lsh.hash"))
    recorder.close()
    assert rows(tmp_path / "run.sqlite", 'SELECT party, step, entered, "left" FROM steps ORDER BY entered, party') == [
        ("client/0", "setup.keys", 1.0, None),
        ("server", "setup.keys", 1.0, 2.0),
        ("client/0", "setup.keys", 3.0, 4.0),
        ("client/0", "lsh.hash", 5.0, None),
    ]


def test_jobs_faults_metrics_and_outcomes_have_their_own_views(tmp_path: Path, recorder: Recorder) -> None:
    recorder(Event(1.0, "compute", "client/0", step="lsh.hash", note="2", value=0.25, number=2))
    note, kind = "partition of client/3 and client/* begins", "partition"
    recorder(Event(2.0, "fault", "client/3", "client/*", step="lsh.hash", note=note, fact="cut", detail=kind))
    recorder(Event(3.0, "metric", "server", note="accuracy", value=0.9))
    recorder(Event(4.0, "outcome", "client/0", step="xclp.label", note="labels"))
    recorder.close()
    path = tmp_path / "run.sqlite"
    assert rows(path, "SELECT * FROM computing") == [("client/0", "lsh.hash", 2, 1.0, 0.25)]
    assert rows(path, "SELECT * FROM faults") == [
        (2.0, "client/3", "client/*", "lsh.hash", "", 0, note, "begins", "cut", "partition")
    ]
    assert rows(path, "SELECT * FROM metrics") == [(3.0, 0, "server", "accuracy", 0.9)]
    assert rows(path, "SELECT * FROM outcomes") == [(4.0, "client/0", "labels")]


def test_all_events_are_recorded_across_batches_and_none_after_the_end(tmp_path: Path, recorder: Recorder) -> None:
    for number in range(5001):
        recorder(message("send", float(number)))
    recorder.close()
    recorder.close()
    recorder(message("send"))
    assert rows(tmp_path / "run.sqlite", "SELECT count(*), max(time) FROM events") == [(5001, 5000.0)]


def test_bytes_are_summed_by_step_and_type_over_both_hops(tmp_path: Path, recorder: Recorder) -> None:
    recorder(message("send", payload=100))
    recorder(message("send", payload=7, type="Seed", step="setup.seed"))
    recorder(message("relay", payload=7, type="Seed", step="setup.seed"))
    recorder(message("deliver", payload=7, type="Seed", step="setup.seed"))
    recorder(message("send", payload=50))
    recorder.close()
    first, second = byte_rows(tmp_path)
    assert (first.step, first.type, first.messages, first.payload, first.total) == (
        "setup.keys",
        "Join",
        2,
        150,
        286,
    )
    assert (second.step, second.type, second.messages, second.payload) == ("setup.seed", "Seed", 2, 14)


def test_a_folder_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"no run\.sqlite; a run's folder is needed$"):
        byte_rows(tmp_path)
    (tmp_path / "run.sqlite").write_text("not a data base at all, not a data base")
    with pytest.raises(FolderError, match=r"run\.sqlite: file is not a database$"):
        byte_rows(tmp_path)
