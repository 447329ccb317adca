"""The files of runs with many clients: they cover the clients that took part; the run itself is unchanged."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tacit import Result, Scenario, load
from tacit.scenarios.running import recorder
from tacit.scenarios.running.runner import carry_out

CHANGES = [
    "data.limit=120", "data.clients=12", "training.rounds=2", "training.share=0.34", "training.epochs=1", "expect={}",
    "protocol.name=fedavg", "protocol.deadline=5s", "training.averaging=plain", "model.name=linear",
    'fault=[{kind="crash",party="client/*",time="0s",back_after="0.5s"}]', "engine=inline",
]  # fmt: skip


@pytest.fixture
def scenario() -> Scenario:
    return load("training-private", CHANGES)


def count(result: Result, where: str) -> int:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as connection:
        (found,) = connection.execute(f"SELECT count(*) FROM {where}").fetchone()
    return int(found)


def test_a_result_of_many_clients_names_only_clients_that_were_called(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = carry_out(scenario, "run", out=tmp_path / "whole")
    monkeypatch.setattr(recorder, "AWAKE", 3)
    sparing = carry_out(scenario, "run", out=tmp_path / "sparing")
    assert (sparing.trace_hash, sparing.bytes_total) == (whole.trace_hash, whole.bytes_total)
    called = {name for one in whole.round_records for name in one.cohort}  # type: ignore[attr-defined]
    assert 0 < len(called) < 12 == len(whole.endings) == len({strike.party for strike in whole.faults})
    assert set(sparing.endings) == {strike.party for strike in sparing.faults} == called
    assert {loss.party for loss in sparing.lost} == {loss.party for loss in whole.lost} & called
    assert sparing.lost == [loss for loss in whole.lost if loss.party in called]


def test_a_record_of_many_clients_has_every_message(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = carry_out(scenario, "run", out=tmp_path / "whole")
    monkeypatch.setattr(recorder, "AWAKE", 3)
    sparing = carry_out(scenario, "run", out=tmp_path / "sparing")
    for where in ("events WHERE message > 0", "computing", "faults"):
        assert count(sparing, where) == count(whole, where)
    own = "events WHERE party <> 'server' AND step = 'train.enroll' AND kind IN ('enter', 'leave')"
    assert count(whole, own) > 0 == count(sparing, own)
    for where in ("wait_begins", "wait_ends", "outcomes"):
        assert count(sparing, where) < count(whole, where)
    with closing(sqlite3.connect(sparing.folder / "run.sqlite")) as connection:
        (size,) = connection.execute("SELECT sum(bytes) FROM messages").fetchone()
        (open_waits,) = connection.execute("SELECT count(*) FROM wait_ends WHERE wait = 0").fetchone()
    assert (size, open_waits) == (sparing.bytes_total, 0)
