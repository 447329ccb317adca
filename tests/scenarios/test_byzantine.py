"""Scenarios with Byzantine clients: their effect on the agreed labels, and whose accuracy is measured."""

from pathlib import Path

import pytest

from tacit import Result, load, run

LIED_TO = """
title = "Some of five clients lie"
seed = 2
engine = "inline"
cost = "free"
[data]
name = "digits"
clients = 5
labeled = 1.0
limit = 500
[public]
size = 100
[protocol]
name = "fedct"
[model]
name = "linear"
[learner]
name = "network"
learning_rate = 0.05
steps = 20
[cotraining]
rounds = 2
[training]
validation = 0.0
device = "cpu"
[network]
latency = "5ms"
"""


def ran(folder: Path, *changes: str) -> Result:
    path = folder / "lied.toml"
    path.write_text(LIED_TO)
    return run(load(path, changes), out=folder / "-".join(("run", *changes)).replace("=", "-"))


def agreed(result: Result) -> list[float]:
    return [one.agreed_accuracy for one in result.round_records]


@pytest.mark.parametrize("kind", ["random", "flipped", "colluding"])
def test_honest_clients_alone_are_measured(tmp_path: Path, kind: str) -> None:
    result = ran(tmp_path, f"byzantine.kind={kind}", "byzantine.clients=2")
    assert (result.outcome, result.lost) == ("completed", [])
    assert set(result.client_accuracy) == {"client/0", "client/1", "client/2"}
    assert result.accuracy == pytest.approx(sum(result.client_accuracy.values()) / 3)


def test_colluding_clients_decide_once_they_are_the_majority(tmp_path: Path) -> None:
    few, many = (ran(tmp_path, "byzantine.kind=colluding", f"byzantine.clients={n}") for n in (1, 3))
    assert min(agreed(few)) > 0.7
    assert max(agreed(many)) < 0.2
    assert few.accuracy is not None and many.accuracy is not None and few.accuracy > many.accuracy


def test_a_qualified_majority_gives_up_points_rather_than_believe(tmp_path: Path) -> None:
    lies = ["byzantine.kind=colluding", "byzantine.clients=2"]
    few = ran(tmp_path, *lies, "cotraining.consensus=qualified", "cotraining.quorum=0.9")
    assert [one.agreed for one in few.round_records] == [0.0, 0.0]


def test_without_byzantine_clients_the_kind_changes_nothing(tmp_path: Path) -> None:
    assert ran(tmp_path).trace_hash == ran(tmp_path, "byzantine.kind=colluding").trace_hash
    assert ran(tmp_path, "byzantine.clients=1").trace_hash != ran(tmp_path, "byzantine.clients=2").trace_hash
