"""Answers that are only late: no round follows a round in which clients masked and no sum was opened."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tacit.protocols.federated.round import TrainingServer
from tacit.protocols.rounds import rounds
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.runner import run

COMMON = ["data.limit=200", "data.clients=5", "data.labeled=1.0", "expect={}", "engine=inline"]
AVERAGES = [*COMMON, "protocol.name=fedavg", "training.rounds=3", "model.name=linear"]
VOTES = [*COMMON, "protocol.name=fedct", "cotraining.votes=secure", "cotraining.rounds=3", "learner.name=random-forest"]
CASES = [
    ("fedavg-xclp-digits", [*AVERAGES, "training.averaging=secure"], "train.update"),
    ("fedavg-xclp-digits", [*AVERAGES, "training.averaging=secagg+"], "train.update"),
    ("fedct-digits", VOTES, "cotrain.learn"),
]


def run_with_late_answers(name: str, changes: list[str], step: str, path: Path) -> Result:
    """The run in which too few answers arrive in time in round 1, all arrive later, and client/4 is lost in round 2."""
    delays = [
        f'{{kind="delay", party="client/{j}", peer="server", message="Revealed", by="{by}s", occurrence=1}}'
        for j, by in ((1, 61), (2, 65), (3, 61), (4, 70))
    ]
    crash = f'{{kind="crash", party="client/4", before="{step}", occurrence=2}}'
    return run(load(name, [*changes, f"fault=[{', '.join([*delays, crash])}]"]), out=path)


def masking_rounds(result: Result) -> set[int]:
    """The rounds in which a client sent masked values."""
    return {row.round for row in result.frame("messages").itertuples() if row.type == "MaskedChunk"}


def notes(result: Result) -> list[str]:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as record:
        return [note for (note,) in record.execute("SELECT note FROM events WHERE note LIKE 'refused%'")]


@pytest.mark.parametrize(("name", "changes", "step"), CASES, ids=["secure", "secagg+", "votes"])
def test_a_round_lost_after_masked_values_aborts_the_run(
    name: str, changes: list[str], step: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    result = run_with_late_answers(name, changes, step, tmp_path / "run")
    assert result.outcome == "aborted" and result.reason.startswith("round 1 is lost: the sum stays masked:")
    assert result.reason.endswith(rounds.SAME_AGAIN)
    assert masking_rounds(result) == {1}
    assert set(result.endings.values()) == {f"aborted: {result.reason}"}


@pytest.mark.parametrize(("name", "changes", "step"), CASES, ids=["secure", "secagg+", "votes"])
def test_clients_refuse_a_server_that_continues_after_a_lost_sum(
    name: str, changes: list[str], step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(rounds.RoundsServer, "latest", lambda me, what: (0, 0))
    monkeypatch.setattr(TrainingServer, "standstill", lambda self, number: "")
    result = run_with_late_answers(name, changes, step, tmp_path / "run")
    assert masking_rounds(result) == {1}
    refused = "refused to take part in round 2: it begins as round 1, for which it has sent masked values"
    assert refused in notes(result)


def test_a_run_continues_after_a_round_lost_before_masked_values(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    crashes = [f'{{kind="crash", party="client/{j}", at="train.update", back_after="1s"}}' for j in (1, 2, 3, 4)]
    changes = [*AVERAGES, "training.averaging=secure", f"fault=[{', '.join(crashes)}]"]
    result = run(load("fedavg-xclp-digits", changes), out=tmp_path / "run")
    assert result.outcome == "completed"
    assert [bool(getattr(one, "problem", "")) for one in result.round_records] == [True, False, False]
    assert masking_rounds(result) == {2, 3}
