"""Processes that are killed, for good or for some time: the outcome is the simulator's with the same fault."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tacit.protocols.rounds.observer import HeldRound
from tacit.scenarios.deploying.gathering import gather
from tacit.scenarios.deploying.local import Local
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running import runner
from tacit.scenarios.running.runner import run
from tacit.scenarios.schema.scenario import Scenario
from tests.deployed.test_runs import assert_alike

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_parties")]

XCLP = ["data.limit=90", "data.clients=4", "protocol.hamming=plaintext", "protocol.bits=64", "protocol.deadline=20s"]

FEDCT = [
    "data.limit=90", "data.clients=3", "data.labeled=1.0", "protocol.name=fedct", "learner.name=decision-tree",
    "cotraining.rounds=3", "protocol.deadline=30s", "training.min_clients=2",
]  # fmt: skip


def deployed(name: str, changes: list[str], path: Path) -> tuple[Scenario, Result]:
    """The run in processes on this machine."""
    scenario = load(name, changes)
    options = [name, *(word for text in changes for word in ("--set", text)), "--insecure-seeded"]
    lines: list[str] = []
    local = Local(scenario, path / "parties", options, with_faults=True, log=lines.append)
    local.run()
    result = gather(scenario, name, local.folders, path)
    ended = runner.ABORTED if result.outcome == "aborted" else 0
    assert local.codes["server"] in (ended, -signal.SIGKILL)
    assert any(line.startswith("server") and "round 1: begins with step" in line for line in lines)
    assert (ended == 0) == (not any("the run is aborted: " in line for line in lines)) or local.codes["server"] < 0
    return scenario, result


def endings_of(result: Result) -> list[Any]:
    """The outcome, the lost parties by round, and the end of each client's program."""
    return [result.outcome, result.reason, sorted({(loss.round, loss.party) for loss in result.lost}), result.endings]


def test_a_killed_client_is_lost_as_in_the_simulator(tmp_path: Path) -> None:
    fault = 'fault=[{kind="crash", party="client/2", before="influence.request"}]'
    scenario, real = deployed("xclp-digits", [*XCLP, fault, 'expect.lost=["client/2"]'], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert_alike(real, simulated)
    assert endings_of(real) == endings_of(simulated)
    assert [(loss.party, loss.step) for loss in real.lost] == [("client/2", "influence.request")]


def test_a_killed_client_that_is_started_again_returns_as_in_the_simulator(tmp_path: Path) -> None:
    fault = 'fault=[{kind="crash", party="client/1", before="cotrain.learn", occurrence=2, back_after="1s"}]'
    scenario, real = deployed("fedct-digits", [*FEDCT, fault, 'expect.lost=["client/1"]'], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert endings_of(real) == endings_of(simulated)
    assert real.model_digest == simulated.model_digest
    assert [(loss.round, loss.party, loss.step) for loss in real.lost] == [(2, "client/1", "cotrain.learn")]


def test_a_returned_party_is_struck_by_the_remaining_faults(tmp_path: Path) -> None:
    """An `occurrence` is counted over all incarnations, so faults may count steps of earlier ones.

    Rounds in which a party falls end by deadlines, which leave it time to return, deployed and simulated.
    """
    crash = 'kind="crash", party="{}", before="cotrain.learn", {}, back_after="1s"'
    which = (("client/1", "occurrence=2"), ("client/1", "occurrence=3"), ("client/2", "round=5"))
    faults = ",".join("{" + crash.format(*one) + "}" for one in which)
    changes = [*FEDCT, "cotraining.rounds=6", "protocol.deadline=12s", "training.min_clients=1"]
    scenario, real = deployed("fedct-digits", [*changes, f"fault=[{faults}]", "expect={}"], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert endings_of(real) == endings_of(simulated)
    assert [(loss.round, loss.party, loss.step) for loss in real.lost] == [
        (loss.round, loss.party, loss.step) for loss in simulated.lost
    ]
    assert [(one.fault, one.party) for one in real.faults] == [(0, "client/1"), (1, "client/1"), (2, "client/2")]
    assert [(one.fault, one.party) for one in simulated.faults] == [(one.fault, one.party) for one in real.faults]
    assert real.model_digest == simulated.model_digest


@pytest.mark.parametrize(("when", "deadline", "rounds"), [("report.prepare", "20s", 3), ("report.collect", "5s", 2)])
def test_a_killed_helper_ends_the_batch_as_in_the_simulator(
    when: str, deadline: str, rounds: int, tmp_path: Path
) -> None:
    fault = f'fault=[{{kind="crash", party="helper", before="{when}", occurrence=2, back_after="1s"}}]'
    changes = [*FEDCT, "cotraining.votes=prio3", "public.size=20", f"protocol.deadline={deadline}", fault, "expect={}"]
    scenario, real = deployed("fedct-digits", changes, tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert endings_of(real)[:3] == endings_of(simulated)[:3]  # the endings of resting clients differ
    assert (real.model_digest, real.labels_digest) == (simulated.model_digest, simulated.labels_digest)
    assert [one.problem for one in real.round_records] == [one.problem for one in simulated.round_records]
    assert len(real.round_records) == rounds and "helper" in real.round_records[1].lost


def test_a_killed_server_ends_the_run_as_in_the_simulator(tmp_path: Path) -> None:
    fault = 'fault=[{kind="crash", party="server", before="setup.seed"}]'
    scenario, real = deployed("xclp-digits", [*XCLP, "protocol.deadline=3s", fault], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert endings_of(real) == endings_of(simulated)
    assert real.outcome == "aborted"
    assert all("no answer from the server" in ending for ending in real.endings.values())


AWAY = 'fault=[{{kind="crash", party="server", {}, occurrence={}, back_after="1s"}}]'
"""The server is killed, and started again a second later."""

SECURE = [
    "data.limit=90", "data.clients=3", "protocol.name=fedavg", "training.rounds=3", "training.averaging=secure",
    "model.name=linear", "protocol.deadline=30s",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes", "when", "occurrence", "lost"),
    [
        ("fedct-digits", FEDCT, 'after="cotrain.agree"', 2, (2, "server", "cotrain.agree")),
        ("fedavg-xclp-digits", SECURE, 'before="setup.seed"', 2, (2, "server", "setup.seed")),
        ("xclp-digits", XCLP, 'before="influence.solve"', 1, (1, "server", "influence.solve")),
    ],
)
def test_a_killed_server_that_is_started_again_returns_as_in_the_simulator(
    name: str, changes: list[str], when: str, occurrence: int, lost: tuple[int, str, str], tmp_path: Path
) -> None:
    """Without a secure sum, rounds continue after the one in which the server falls; otherwise the run ends."""
    scenario, real = deployed(name, [*changes, AWAY.format(when, occurrence), "expect={}"], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert endings_of(real) == endings_of(simulated)
    assert (real.model_digest, real.labels_digest) == (simulated.model_digest, simulated.labels_digest)
    assert [(loss.round, loss.party, loss.step) for loss in real.lost] == [lost]
    assert real.outcome == ("completed" if name == "fedct-digits" else "aborted")
    assert [one.problem for one in real.round_records if isinstance(one, HeldRound)] == [
        one.problem for one in simulated.round_records if isinstance(one, HeldRound)
    ]


@pytest.mark.parametrize("presence", ["connection", "heartbeat"])
def test_a_server_with_presence_does_not_wait_for_a_lost_client(presence: str, tmp_path: Path) -> None:
    fault = 'fault=[{kind="crash", party="client/2", before="cotrain.learn"}]'
    keys = [f"protocol.presence={presence}", "protocol.heartbeat=1s", "protocol.heartbeat_misses=2"]
    changes = [*FEDCT, *keys, "network.transport=tcp", "cotraining.rounds=4", fault, "expect={}"]
    scenario, real = deployed("fedct-digits", changes, tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert endings_of(real) == endings_of(simulated)
    assert [(loss.round, loss.party) for loss in real.lost] == [(1, "client/2")]
    assert real.virtual_seconds < 30  # less than a deadline
