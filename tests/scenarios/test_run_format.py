"""The public format of run.sqlite: its page, its queries, and equality of its numbers with the result."""

import csv
import re
import runpy
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tacit import Result, load, run
from tacit.scenarios.running.simulation import Simulation

DOCS = Path(__file__).parents[2] / "docs"
PAGE = runpy.run_path(str(DOCS / "run_format.py"))["page"]()
QUERIES = re.findall(r"^   ```sql\n(.*?)^   ```$", PAGE, re.MULTILINE | re.DOTALL)
FAULTS = (
    'fault=[{kind="crash", party="client/2", at="hamming.evaluate", back_after="1s"}, '
    '{kind="lose", message="RoundStart", peer="client/0"}]'
)


def rows(result: Result, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def lossy(quick: Path, tmp_path: Path) -> Result:
    changes = ["expect={}", "protocol.deadline=10s", "network.transport=datagram", FAULTS]
    return run(load(quick, changes), out=tmp_path / "lossy")


@pytest.fixture
def trained(tiny: Path, tmp_path: Path) -> Result:
    return run(load(tiny, ["protocol.name=fedavg"]), out=tmp_path / "trained")


def test_the_ten_queries_of_the_page_have_results(lossy: Result) -> None:
    assert len(QUERIES) == 10
    for query in QUERIES:
        assert rows(lossy, query), query


def test_the_columns_of_the_page_are_those_of_the_record(lossy: Result) -> None:
    for name, text in re.findall(r"^### `(\w+)`$(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL):
        with closing(sqlite3.connect(lossy.folder / "run.sqlite")) as connection:
            found = [column for column, *_ in connection.execute(f"SELECT * FROM {name}").description]
        assert found == re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE), name


def test_bytes_of_the_record_equal_those_of_the_result(lossy: Result, trained: Result) -> None:
    for result in (lossy, trained):
        assert rows(result, "SELECT sum(bytes), sum(hops) FROM messages") == [
            (result.bytes_total, result.message_count)
        ]
        assert rows(result, "SELECT sum(bytes), count(*) FROM hops") == [(result.bytes_total, result.message_count)]
        assert rows(result, "SELECT sum(bytes), sum(messages) FROM rounds") == [
            (result.bytes_total, result.message_count)
        ]
    between = "SELECT hops, bytes = 2 * (payload + sealing + envelope) FROM messages WHERE sender LIKE 'c%'"
    assert set(rows(lossy, f"{between} AND receiver LIKE 'c%' AND fate = 'received'")) == {(2, 1)}


def test_a_wait_is_recorded_with_its_last_message_and_the_time_spent_only_on_that(lossy: Result) -> None:
    assert rows(lossy, "SELECT DISTINCT step FROM waits WHERE how = 'answered' AND step LIKE 'hamming%'")
    assert rows(lossy, "SELECT * FROM waits WHERE how = 'answered' AND (last = '' OR silent = sources)") == []
    assert rows(lossy, "SELECT * FROM waits WHERE alone < 0 OR alone > ended - began + 1e-9") == []


def test_losses_of_the_record_equal_those_of_the_result(lossy: Result) -> None:
    expected = [(loss.time, loss.round, loss.party, loss.step, loss.action) for loss in lossy.lost]
    assert rows(lossy, "SELECT * FROM losses") == expected and len(expected) >= 2
    assert rows(lossy, "SELECT value FROM run WHERE key = 'outcome'") == [(lossy.outcome,)]
    assert sum(lossy.messages_lost.values()) == rows(lossy, "SELECT sum(lost) FROM messages")[0][0]


def test_rounds_have_accuracy_cohort_bytes_and_times(trained: Result) -> None:
    found = rows(trained, "SELECT round, accuracy, called, answers, cohort, seconds > 0, problem FROM rounds")
    everybody = "client/0 client/1 client/2 client/3"
    accuracies = [getattr(one, "accuracy") for one in trained.round_records]  # noqa: B009 (of rounds of training)
    assert found == [(number, accuracies[number - 1], 4, 4, everybody, 1, "") for number in (1, 2)]
    with (trained.folder / "rounds.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["accuracy"]) for line in lines] == accuracies
    assert sum(int(line["bytes"]) for line in lines) == trained.bytes_total


def test_recording_changes_no_hash(quick: Path, tmp_path: Path) -> None:
    result = run(load(quick), out=tmp_path / "out")
    unseen = Simulation(load(quick), engine="inline")
    unseen.run()
    assert (unseen.trace.trace_hash, unseen.trace.shape_hash) == (result.trace_hash, result.shape_hash)
    unseen.close()


def test_a_view_is_a_data_frame(trained: Result) -> None:
    pytest.importorskip("pandas")
    messages, rounds = trained.messages(), trained.rounds()
    assert messages["bytes"].sum() == trained.bytes_total
    assert list(rounds["round"]) == [1, 2] and rounds["accuracy"].notna().all()
    assert len(trained.events()) > len(trained.frame("hops")) == trained.message_count
    assert not trained.steps().empty
    with pytest.raises(ValueError, match=r"^name is 'message'; allowed: computing, events, faults, hops, losses, "):
        trained.frame("message")


def test_without_pandas_a_frame_is_refused_in_one_line(trained: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^a DataFrame needs pandas: pip install pandas$"):
        trained.frame("rounds")
