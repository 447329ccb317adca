"""Co-training by scenario: every algorithm, its results, any losses, and mistakes in one line."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tacit import Result, ScenarioError, load, run
from tacit.parties.data.sets import Dataset
from tacit.protocols.cotraining.observer import CotrainedRound, stable_after
from tacit.protocols.cotraining.round import CotrainingServer
from tacit.protocols.registry import PROTOCOLS, using
from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.files.public import set_apart
from tacit.scenarios.files.splits import parts_of, split_data
from tacit.scenarios.reporting.printed import byte_table, outcome_lines
from tacit.scenarios.running.folder import byte_rows, message_bytes
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import Watch, resume
from tacit.scenarios.schema.scenario import Public
from tacit.sim.setting_error import Problem
from tacit.sim.trace import Event

TINY = """
title = "Three clients label public digits, quickly"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 3
labeled = 0.5
limit = 200
[public]
size = 80
[protocol]
name = "fedct"
deadline = "10s"
[model]
name = "linear"
[learner]
learning_rate = 0.01
steps = 5
[cotraining]
rounds = 3
[training]
device = "cpu"
checkpoint_every = 1
[network]
latency = "5ms"
"""
CRASH = """
[[fault]]
kind = "crash"
party = "client/1"
at = "cotrain.predict"
occurrence = 2
"""
EVERYONE = ("client/0", "client/1", "client/2")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TINY)
    return path


def ran(file: Path, *changes: str, faults: str = "", out: str = "run", **more: Any) -> Result:
    """The result of the scenario with these changes and [[fault]] tables."""
    file.write_text(TINY + faults)
    return run(load(file, changes), out=file.parent / out, **more)


# --- every algorithm


@pytest.mark.parametrize("name", using("cotraining.rounds"))
def test_every_algorithm_runs_by_its_name_and_its_bytes_equal_the_formula(small: Path, name: str) -> None:
    result = ran(small, f"protocol.name={name}", "public.size=40")
    assert (result.outcome, result.lost, {one.problem for one in result.round_records}) == ("completed", [], {""})
    assert result.accuracy is not None and 0 < result.accuracy < 1
    counted: dict[str, int] = {}
    for row in byte_rows(result.folder):
        counted[row.type] = counted.get(row.type, 0) + row.payload
    assert predicted(result.folder, counted) == counted


def test_the_envelope_of_a_call_does_not_grow_with_the_number_of_clients(small: Path) -> None:
    envelopes = []
    for clients in (3, 9):
        result = ran(small, f"data.clients={clients}", out=f"run-{clients}")
        rows = [row for row in byte_rows(result.folder) if row.type == "CotrainingRound"]
        assert {row.messages for row in rows} == {3 * clients}
        envelopes.append([row.envelope / row.messages for row in rows])
    assert envelopes[0] == envelopes[1]


def test_the_result_reports_each_model_and_the_agreed_labels(small: Path) -> None:
    result = ran(small)
    assert tuple(result.client_accuracy) == EVERYONE
    figures = list(result.client_accuracy.values())
    assert result.accuracy == pytest.approx(np.mean(figures))
    assert result.deviation == pytest.approx(np.std(figures))
    assert result.measured_on == "the test part of the data set"
    first, *_, last = result.round_records
    assert (first.answered, first.agreed, first.changed) == (EVERYONE, 1.0, None)
    assert last.accuracy == result.accuracy and last.deviation == result.deviation
    assert 0 < last.agreed_accuracy <= 1 and 0 <= last.changed < 1
    assert result.message_bytes == {"up": 40, "down": 40, "fedavg": 4 * (64 * 10 + 10)}
    assert message_bytes(result.folder) == result.message_bytes
    assert "message   40 B up, 40 B down; FedAvg's model of the same network 2.60 kB" in outcome_lines(result)
    shown = StringIO()
    made = byte_table(byte_rows(result.folder), exact=True, model=2600, protocol="fedct")
    print_table(Console(file=shown, width=200), made)
    assert re.search(r"for comparison +as many of FedAvg's models +18 +46,800", shown.getvalue())
    record = json.loads((result.folder / "result.json").read_bytes())
    assert record["rounds"][1]["changed"] == result.round_records[1].changed
    with np.load(result.folder / "model.npz") as arrays:
        assert sorted(arrays) == ["agreed", "client-0", "client-1", "client-2"]
        assert len(arrays["agreed"]) == 40


def test_models_are_measured_on_points_that_no_client_learns_from(small: Path) -> None:
    scenario = load(small)
    parts, (held, shards) = parts_of(scenario), split_data(scenario)
    assert parts.public is not None and parts.test is not None
    assert (len(parts.public.labels), len(held.labels), len(parts.test.labels)) == (80, 120, 200)
    rows = {row.tobytes() for part in (parts.public, held) for row in part.points}
    assert len(rows) == 200  # each point is either a client's or public
    assert sum(len(shard.rows) for shard in shards) == 120


def test_federated_averaging_learns_from_the_same_points_without_the_public_ones(small: Path) -> None:
    fedct, fedavg = (
        split_data(load(small, [f"protocol.name={n}", "training.validation=0"]))[1] for n in ("fedct", "fedavg")
    )
    for one, other in zip(fedct, fedavg, strict=True):
        assert (one.points == other.points).all() and (one.labeled == other.labeled).all()


def test_in_centralised_learning_one_party_holds_all_points(small: Path) -> None:
    scenario = load(small, ["protocol.name=centralised", "data.labeled=1"])
    (shard,) = split_data(scenario)[1]
    assert scenario.data.clients == 1
    assert len(shard.rows) == int(shard.labeled.sum()) == 120
    few = load(small, ["protocol.name=centralised", "data.labels_per_client=7", "data.labeled_clients=2"])
    assert int(split_data(few)[1][0].labeled.sum()) == 14


@pytest.mark.parametrize(
    ("changed", "round_number"),
    [
        ("", None),
        ("-", None),  # first round "-", with a change "1", without "0", lost "x"
        ("-0", 1),
        ("-100", 2),
        ("-01", None),
        ("-1x", None),
        ("-0x", 1),
        ("x-x0", 2),
        ("xxx", None),
    ],
)
def test_the_consensus_is_stable_after_its_last_change(changed: str, round_number: int | None) -> None:
    rounds = [
        CotrainedRound(
            round=number,
            began=0.0,
            lost=(),
            cohort=EVERYONE,
            answered=(),
            problem="lost" if sign == "x" else "",
            agreed=1.0 if "-" in changed[:number] else None,
            changed=float(sign) if sign in "01" else None,
            agreed_accuracy=None,
            accuracy=None,
            deviation=None,
        )
        for number, sign in enumerate(changed, 1)
    ]
    assert stable_after(rounds) == round_number


def test_a_consensus_that_no_longer_changes_is_reported(small: Path) -> None:
    result = ran(small, "learner.steps=40", "cotraining.rounds=8", "learner.learning_rate=0.1")
    settled = result.agreed_after
    assert settled is not None and settled < 8
    assert [one.changed for one in result.round_records[settled:]] == [0.0] * (8 - settled)
    assert settled == 1 or result.round_records[settled - 1].changed > 0
    assert f"agreed    labels of public points changed no more after round {settled}" in outcome_lines(result)


# --- losses


def test_a_lost_client_counts_neither_for_the_consensus_nor_for_accuracy(small: Path) -> None:
    result = ran(small, faults=CRASH)
    assert result.outcome == "completed"
    assert [one.answered for one in result.round_records] == [
        EVERYONE,
        ("client/0", "client/2"),
        ("client/0", "client/2"),
    ]
    assert tuple(result.client_accuracy) == ("client/0", "client/2")
    assert [(loss.party, loss.step, loss.round) for loss in result.lost] == [
        ("client/1", "cotrain.predict", 2),
        ("client/1", "cotrain.agree", 3),
    ]
    assert result.endings["client/1"] == "crashed"


def test_a_client_that_returns_takes_part_again(small: Path) -> None:
    result = ran(small, faults=CRASH + 'back_after = "1s"\n')
    assert [one.answered for one in result.round_records] == [EVERYONE, ("client/0", "client/2"), EVERYONE]
    assert result.endings["client/1"] == "completed"


def test_a_run_without_clients_has_failed_and_one_without_a_server_is_aborted(small: Path) -> None:
    all_gone = CRASH.replace("client/1", "*").replace("occurrence = 2\n", "")
    assert ran(small, faults=all_gone).outcome == "failed"
    result = ran(small, faults=CRASH.replace("client/1", "server").replace("predict", "agree"), out="other")
    assert (result.outcome, result.reason) == ("aborted", "the server was lost at cotrain.agree")
    assert [one.problem for one in result.round_records] == ["", "the server was lost"]


def test_co_training_keeps_its_promises_under_chaos_and_a_planted_bug_is_found(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load(small, ["cotraining.rounds=2", "learner.steps=1"])
    assert campaign(scenario, Plan(schedules=6, singles=False)).failures == []
    collect = CotrainingServer._collect

    async def forgetful(self: CotrainingServer, members: Any) -> dict[str, bytes]:
        return {name: sent for name, sent in (await collect(self, members)).items() if name != "client/1"}

    monkeypatch.setattr(CotrainingServer, "_collect", forgetful)
    (failure,) = campaign(scenario, Plan(schedules=0, singles=False)).failures
    assert (failure.promise, failure.how) == ("clients without faults count", "round 1 counts without client/1")


class Interrupter(Watch):
    def __init__(self, round_number: int) -> None:
        self.round_number = round_number

    def __call__(self, event: Event) -> None:
        if event.kind == "enter" and event.step == "cotrain.agree" and event.party == "server":
            self.round_number -= 1
            if not self.round_number:
                raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["fedct", "fedmd"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(small: Path, name: str) -> None:
    change, faults = f"protocol.name={name}", CRASH + 'back_after = "1s"\n'
    whole = ran(small, change, faults=faults)
    with pytest.raises(KeyboardInterrupt):
        ran(small, change, faults=faults, out="broken", watch=Interrupter(3))
    resumed = resume(small.parent / "broken")
    assert resumed.resumed == [2]
    for field in (
        "trace_hash",
        "model_digest",
        "labels_digest",
        "client_accuracy",
        "round_records",
        "lost",
        "bytes_total",
    ):
        assert getattr(resumed, field) == getattr(whole, field), field


# --- public points


def table(classes: int, each: int, dimension: int = 3) -> Dataset:
    labels = np.repeat(np.arange(classes), each)
    points = np.arange(len(labels) * dimension, dtype=np.float64).reshape(-1, dimension)
    return Dataset("table", points, labels, tuple(map(str, range(classes))))


def another_dataset(name: str) -> Dataset:
    return table(4, 25, 5 if name == "longer" else 3)


def test_public_points_belong_to_no_client_and_may_have_uneven_classes() -> None:
    data = table(10, 100)
    for distribution in ("iid", "dirichlet:0.1"):
        held, public = set_apart(data, Public(size=200, distribution=distribution), 5, 1, another_dataset)
        assert public is not None and len(public.labels) == 200
        both = np.concatenate([held.points, public.points])[:, 0]
        assert sorted(both) == sorted(data.points[:, 0])
        counts = np.bincount(public.labels, minlength=10)
        assert (counts.max() > 60) == (distribution != "iid")
    assert set_apart(data, Public(), 5, 1, another_dataset) == (data, None)


def test_public_points_may_come_from_another_data_set_without_their_labels() -> None:
    data = table(2, 20)
    held, public = set_apart(data, Public(size=30, source="other"), 5, 1, another_dataset)
    assert held is data and public is not None
    assert public.labels.tolist() == [-1] * 30
    assert len({row.tobytes() for row in public.points}) == 30


def test_clients_label_the_points_of_another_data_set(small: Path) -> None:
    dice = np.random.default_rng(1)
    np.savez(small.parent / "own.npz", features=dice.random((60, 64)), labels=dice.integers(0, 3, 60))
    changes = [f"data.path={small.parent / 'own.npz'}", "public.source=digits", "public.size=100", "data.limit=60"]
    result = ran(small, *changes)
    assert result.outcome == "completed"
    assert result.measured_on == "the clients' unlabeled points"
    assert [one.agreed for one in result.round_records] == [1.0] * 3
    # The clients' data has none of the classes of digits.
    assert {one.agreed_accuracy for one in result.round_records} == {None}
    assert result.message_bytes["up"] == 25
    with pytest.raises(ScenarioError, match=r"public\.source: .digits. has labels of other classes, and fedmd learns"):
        load(small, [*changes, "protocol.name=fedmd"])


@pytest.mark.parametrize(
    ("public", "problem"),
    [
        (Public(size=36), "public.size: 36 is too large; allowed: 0, or 1 to 35 points"),
        (Public(size=101, source="other"), "public.size: 101 is too large; allowed: 0, or 1 to 100 points"),
        (Public(size=1, source="longer"), 'public.source: "longer" has points of 5 numbers, and table of 3 numbers'),
        (Public(size=1, source="table"), 'public.source: "table" is what the clients\' points are of'),
    ],
)
def test_unavailable_public_points_are_refused(public: Public, problem: str) -> None:
    with pytest.raises(Problem) as caught:
        set_apart(table(2, 20), public, 5, 1, another_dataset)
    assert str(caught.value).startswith(problem)


# --- mistakes


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("public.size=0", "public.size: 0 is too small: fedct shares predictions of public points"),
        ("public.size=198", "public.size: 198 is too large; allowed: 0, or 1 to 197 points"),
        ("public.distribution=even", 'public.distribution: "even" is not known; allowed: iid, dirichlet:A'),
        ("public.source=digit", "public.source: "),
        ("cotraining.quorum=0", "cotraining.quorum: 0 is too small"),
        ("cotraining.consensus=all", 'cotraining.consensus: "all" is not one of'),
        ("learner.name=networks", 'learner.name: "networks" is not known'),
        ("model.name=lineal", 'model.name: "lineal" is not known'),
        ("training.min_clients=4", "training.min_clients: 4 is too large; allowed: 1 to 3"),
        ("data.partition=dirichlet:1/", "data.partition: 'dirichlet:1/' must be iid"),
    ],
)
def test_invalid_keys_of_co_training_are_refused_in_one_line(small: Path, change: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small, [change])
    assert str(caught.value).startswith(f"changes: {problem}")
    assert "\n" not in str(caught.value)


def test_trees_in_algorithms_that_share_probabilities_are_refused(small: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small, ["protocol.name=dd", 'learner.names=["network", "decision-tree"]'])
    assert str(caught.value) == (
        'changes: learner.names: client/1 learns by "decision-tree", which cannot learn probabilities as dd asks for'
    )


def test_steps_of_co_training_are_listed_by_name() -> None:
    names = [(step.role, step.name) for step in PROTOCOLS["fedct"].steps]
    assert ("client", "cotrain.predict") in names and ("server", "cotrain.agree") in names
    assert ("server", "cotrain.student") not in names and names == list(dict.fromkeys(names))
