"""The data of a timeline: everything in the record, once, without omissions."""

import json
import math
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import load, run
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.seeing import timeline
from tacit.scenarios.seeing.timeline import fragment
from tacit.scenarios.seeing.timeline.encoding import differences, packed, unpacked
from tacit.scenarios.seeing.timeline.model import Bar, folds, model_of


@pytest.fixture
def changed(faulty: Path, tmp_path: Path) -> Callable[..., Path]:
    """A function that copies the record into another folder, and changes the copy."""

    def change(*statements: str) -> Path:
        folder = tmp_path / "changed"
        folder.mkdir()
        shutil.copy(faulty / "run.sqlite", folder)
        with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
            for statement in statements:
                connection.execute(statement)
        return folder

    return change


KILLED = ("DELETE FROM run WHERE key IN ('outcome', 'reason', 'virtual_seconds')", "DELETE FROM final_losses")
"""The statements that remove the rows that the record of a killed run lacks, and some of the last events."""

EVENTS = ("wait_begins", "wait_ends", "event_rows")
"""The tables of events."""


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


def data_of(html: str) -> dict[str, Any]:
    """The JSON in a fragment."""
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def columns(table: dict[str, str]) -> dict[str, list[int]]:
    """Unpacked columns; columns of differences are summed."""
    found = {name: list(unpacked(text)) for name, text in table.items() if isinstance(text, str)}
    for name in found.keys() & {"number", "began", "round", "attempt", "bucket"}:
        found[name] = [sum(found[name][: i + 1]) for i in range(len(found[name]))]
    return found


def test_the_timeline_has_every_message_once_with_its_bytes_and_times(faulty: Path) -> None:
    data = data_of(fragment(faulty))
    table, shapes, parties = columns(data["messages"]), data["shapes"], data["parties"]
    found = []
    for i, number in enumerate(table["number"]):
        type_, step, payload, sealing, envelope, hops, size, lost, _, fate, _ = shapes[table["shape"][i]]
        received = None if table["took"][i] < 0 else table["began"][i] + table["took"][i]
        ends = parties[table["from"][i]], parties[table["to"][i]]
        stamp = table["round"][i], table["attempt"][i]
        words = data["types"][type_], data["steps"][step], data["texts"][fate]
        found.append(
            (number, table["began"][i], received, *ends, *stamp, *words, payload, sealing, envelope, hops, size, lost)
        )
    view = """SELECT message, CAST(round(sent * 1e6) AS INTEGER), CAST(round(received * 1e6) AS INTEGER), sender,
        receiver, round, attempt, type, step, fate, payload, sealing, envelope, hops, bytes, lost FROM messages"""
    assert len(found) > 50 and len({one[-2] for one in found}) > 9
    assert sorted(found, key=lambda one: one[0]) == sorted(rows(faulty, view))


def test_jobs_waits_copies_and_losses_equal_those_of_the_record(faulty: Path) -> None:
    model = model_of(faulty)
    jobs = rows(faulty, "SELECT party, step, began, seconds FROM computing ORDER BY began, party, step")
    assert (
        sorted(
            ((one.party, one.step, one.began, one.seconds) for one in model.bars), key=lambda one: (one[2], *one[:2])
        )
        == jobs
    )
    waits = rows(faulty, "SELECT party, step, began, ended, how FROM waits ORDER BY began")
    key = lambda one: (one[2], one[0], one[3] or math.inf, one[1])  # noqa: E731
    assert sorted([(one.party, one.step, one.began, one.ended, one.how) for one in model.gaps], key=key) == sorted(
        waits, key=key
    )
    troubled = {number for (number,) in rows(faulty, "SELECT message FROM messages WHERE troubles IS NOT NULL")}
    assert troubled <= {one.number for one in model.copies} and len(troubled) > 5
    assert any(one.note.startswith("sent again") for one in model.copies)
    lost = [(one.time, one.party) for one in model.marks if one.kind == "lost"]
    assert sorted(lost) == sorted(rows(faulty, "SELECT time, party FROM losses")) and lost


def test_faults_are_drawn_as_bands_and_marks(faulty: Path) -> None:
    model = model_of(faulty)
    assert [(one.kind, one.parties) for one in model.bands] == [
        ("cut", ("client/1", "client/3")),
        ("down", ("client/2",)),
    ]
    marks = [(one.kind, one.party) for one in model.marks if one.kind != "lost"]
    assert marks == [("crash", "client/2"), ("return", "client/2")]
    down = model.bands[1]
    assert down.ended is not None and math.isclose(down.ended - down.began, 1.0)
    assert model.parties == ["server", "client/0", "client/1", "client/2", "client/3"]


def test_folds_contain_idle_time_and_no_event(faulty: Path) -> None:
    model = model_of(faulty)
    assert sum(end - begin for begin, end in model.folded) > model.end / 2
    for (time,) in rows(faulty, "SELECT time FROM events"):
        assert not any(begin < time < end for begin, end in model.folded)
    assert not any(bar.began < end and bar.ended > begin for bar in model.bars for begin, end in model.folded)


def test_the_tables_of_the_critical_path_sum_to_the_time_of_the_run(faulty: Path) -> None:
    total = float(rows(faulty, "SELECT value FROM run WHERE key = 'virtual_seconds'")[0][0])
    sums = re.findall(r'<tfoot><tr><th scope="row">all</th><td>([\d,.]+)</td>', fragment(faulty))
    assert sums == [f"{total:,.3f}"] * 3
    for table in re.findall(r"<tbody>(.*?)</tbody>", fragment(faulty)):
        parts = [float(part.replace(",", "")) for part in re.findall(r">([\d,.]+)</td>", table)]
        assert math.isclose(sum(parts), total, abs_tol=0.001 * len(parts))


def test_a_slowed_or_paused_job_lasts_until_its_party_continues(quick: Path, tmp_path: Path) -> None:
    faults = (
        'fault=[{kind="slow", party="client/1", at="hamming.evaluate", factor=40000, lasts="5s"}, '
        '{kind="pause", party="client/2", time="47.15ms", lasts="2s"}]'
    )
    changes = ["expect={}", "cost=modelled", "protocol.deadline=10s", faults]
    model = model_of(run(load(quick, changes), out=tmp_path / "out").folder)
    longest = {party: max((bar for bar in model.bars if bar.party == party), key=_length) for party in model.parties}
    slowed = {party for party, bar in longest.items() if _length(bar) > 2 * bar.seconds}
    assert slowed == {"client/1", "client/2"}, longest


def _length(bar: Bar) -> float:
    return bar.ended - bar.began


def test_a_killed_run_is_shown_up_to_the_end_of_its_record(changed: Callable[..., Path]) -> None:
    folder = changed(
        *KILLED,
        *(f"DELETE FROM {table} WHERE n > (SELECT max(n) / 2 FROM event_rows)" for table in EVENTS),
        "DELETE FROM ended_rounds",
    )
    model = model_of(folder)
    (last,) = rows(folder, "SELECT max(time) FROM events")[0]
    assert model.end == last and not model.ended
    assert len(model.messages) == rows(folder, "SELECT count(*) FROM messages")[0][0]
    assert any(one.ended is None for one in model.gaps) and any(one.fate == "in flight" for one in model.messages)
    assert [one.text for one in model.rounds] == ["not ended in the record"]
    html = fragment(folder)
    assert "The run has not ended in the record" in html
    assert len(columns(data_of(html)["messages"])["number"]) == len(model.messages)


@pytest.mark.long
def test_the_record_of_a_killed_process_can_be_shown(
    quick: Path, tmp_path: Path, stopped: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, _ = stopped(1, signal.SIGKILL, "run", quick, "--out", tmp_path / "out")
    assert code == -signal.SIGKILL
    model = model_of(tmp_path / "out")
    assert not model.ended
    assert "The run has not ended in the record" in fragment(tmp_path / "out")


def test_idle_time_behind_a_delayed_message_is_folded(quick: Path, tmp_path: Path) -> None:
    faults = 'fault=[{kind="delay", message="Join", peer="server", by="20s"}]'
    model = model_of(run(load(quick, ["expect={}", faults]), out=tmp_path / "out").folder)
    assert sum(end - begin for begin, end in model.folded) > 19


def test_runs_without_messages_or_without_events_are_shown(changed: Callable[..., Path]) -> None:
    folder = changed("DELETE FROM event_rows WHERE message > 0")
    assert not model_of(folder).messages and "0 messages" in fragment(folder)
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        for statement in (*KILLED, *(f"DELETE FROM {table}" for table in EVENTS), "DELETE FROM ended_rounds"):
            connection.execute(statement)
    assert "0 messages, 0 jobs and 0 waits of 0 parties" in fragment(folder, compact=True)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="no run\\.sqlite; a run's folder is needed"):
        fragment(tmp_path)


def test_a_large_run_is_counted_by_party_and_time(faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model_of(faulty)
    monkeypatch.setattr(timeline, "_MOST", 1000)
    html = fragment(faulty)
    data = data_of(html)
    counts = columns(data["counts"])
    assert sum(counts["sent"]) == len(whole.messages)
    assert sum(counts["received"]) == sum(one.received is not None for one in whole.messages)
    assert sum(counts["bytes"]) == sum(one.bytes for one in whole.messages)
    drawn = len(columns(data["messages"])["number"])
    assert 0 < drawn < len(whole.messages)
    assert f"Of {len(whole.messages)} messages {drawn} are drawn singly" in html
    assert data["parties"] == whole.parties


def test_the_fragment_needs_no_other_file(faulty: Path) -> None:
    html = fragment(faulty)
    assert html == fragment(faulty)
    assert not re.findall(r"https?://|url\(|@import|\bid=", html)
    assert html.count("</script>") == 2 and html.count("<section") == 1
    small = fragment(faulty, compact=True)
    assert "<table" not in small and len(small) < 300_000


@given(st.lists(st.integers(-(2**60), 2**60)))
def test_packed_numbers_are_unpacked_unchanged(numbers: list[int]) -> None:
    assert list(unpacked(packed(numbers))) == numbers
    steps = list(differences(numbers))
    assert [sum(steps[: i + 1]) for i in range(len(steps))] == numbers


TIMES = st.floats(0, 1000, allow_nan=False)


@given(st.lists(TIMES, min_size=1), st.lists(st.tuples(TIMES, st.floats(0, 50))))
def test_folds_hide_no_event_and_no_activity(moments: list[float], lasting: list[tuple[float, float]]) -> None:
    busy = [(begin, begin + length) for begin, length in lasting]
    found = folds(moments, busy)
    assert found == sorted(found) and all(begin < end for begin, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))
    for begin, end in found:
        assert not any(begin <= time <= end for time in moments)
        assert not any(start < end and stop > begin for start, stop in busy)


def test_long_idle_spans_are_folded_and_short_ones_are_not() -> None:
    (only,) = folds([0, 1, 1.05, 2, 77], [(0, 1), (1.05, 2), (77, 78)])
    assert 2 < only[0] < 2.1 and 76.9 < only[1] < 77
    rounds = [(60.0 * i, 60.0 * i + 1) for i in range(20)]
    assert len(folds([], rounds)) == 19
    assert folds([0, 1, 2, 3, 4], []) == [] or len(folds([0, 1, 2, 3, 4], [])) == 4
    assert folds([], [(float(i), i + 0.98) for i in range(100)]) == []
