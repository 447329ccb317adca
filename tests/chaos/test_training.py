"""Chaos finds nothing in federated training, and finds planted bugs."""

from pathlib import Path

import pytest
from msgspec import structs

from tacit import Scenario, load
from tacit.protocols.federated import fedavg
from tacit.scenarios.chaos.campaign import Findings, Plan, campaign, verdict
from tacit.scenarios.chaos.report import verdict_line
from tacit.scenarios.schema.scenario import Fault

TRAINING = """
title = "Four clients that train, to be struck"
seed = 3
[data]
name = "digits"
clients = 4
labeled = 0.5
limit = 60
[protocol]
name = "fedavg"
hamming = "plaintext"
bits = 32
k = 3
min_clients = 2
deadline = "10s"
[model]
name = "linear"
[training]
rounds = 2
epochs = 1
validation = 0.0
device = "cpu"
[network]
latency = "uniform:10ms,20ms"
bandwidth = "unlimited"
"""


@pytest.fixture
def training(tmp_path: Path) -> Scenario:
    path = tmp_path / "training.toml"
    path.write_text(TRAINING)
    return load(path)


def with_protocol(scenario: Scenario, name: str, **keys: object) -> Scenario:
    return structs.replace(
        scenario,
        protocol=structs.replace(scenario.protocol, name=name),
        training=structs.replace(scenario.training, **keys),
    )


def assert_held(findings: Findings) -> None:
    broken = [verdict_line(one) + f" {one.broken}" for one in findings.verdicts if one.broken]
    assert not broken, "\n".join(broken)
    assert findings.verdicts[0].outcome == "completed"


@pytest.mark.parametrize(
    ("name", "averaged", "seed", "schedules"),
    [
        ("fedavg", "plain", 1, 6),
        ("fedavg", "secure", 2, 6),
        ("fedavg", "secagg+", 4, 4),
        ("fedavg+xclp", "plain", 3, 4),
        ("fedbuff", "plain", 4, 6),
    ],
)
def test_random_mixtures_of_faults_break_no_promise_of_training(
    training: Scenario, name: str, averaged: str, seed: int, schedules: int
) -> None:
    scenario = with_protocol(training, name, averaging=averaged)
    assert_held(campaign(scenario, Plan(schedules=schedules, singles=False, seed=seed)))


@pytest.mark.parametrize("averaged", ["plain", pytest.param("secure", marks=pytest.mark.long)])
def test_a_crash_at_any_step_of_training_breaks_no_promise(training: Scenario, averaged: str) -> None:
    scenario = with_protocol(training, "fedavg", averaging=averaged, rounds=1)
    findings = campaign(scenario, Plan(schedules=0, quick=averaged == "plain"))
    assert_held(findings)
    assert len(findings.verdicts) > 8


def test_an_average_that_counts_a_model_twice_breaks_a_promise(
    training: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = fedavg._means

    def planted(columns: list[tuple[bytes, ...]], weights: list[float], weighted: tuple[bool, ...]) -> object:
        return means([(*column, column[0]) for column in columns], [*weights, weights[0]], weighted)

    monkeypatch.setattr(fedavg, "_means", planted)
    (broken,) = verdict(training).broken
    assert broken.promise == "the model equals the oracle's"
    assert broken.how.startswith("the model of round 1 is not the average of client/0, client/1")


def test_leaving_out_a_client_that_is_well_breaks_promises(training: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedavg, "understood", lambda me, answers, checked: {
        name: checked(name, answer) for name, answer in answers.items() if name != "client/2"
    })  # fmt: skip
    faulty = structs.replace(training, fault=(Fault(party="client/1", at="train.update"),))
    assert {one.promise for one in verdict(faulty).broken} == {
        "only clients with faults are lost",
        "clients without faults count",
    }
