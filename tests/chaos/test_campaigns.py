"""Chaos finds nothing: random mixtures in the default tests, every crash of the main scenario in the long ones."""

import os
from pathlib import Path

import pytest
from msgspec import structs

from scenarios import Scenario, load
from scenarios.chaos import Findings, Plan, campaign
from scenarios.chaos_report import verdict_line

ROOT = Path(__file__).parents[2]


def assert_held(findings: Findings) -> None:
    broken = [verdict_line(one) for one in findings.verdicts if one.broken]
    assert not broken, "\n".join(broken)
    assert findings.verdicts[0].outcome == "completed"


def with_keys(scenario: Scenario, **keys: object) -> Scenario:
    return structs.replace(scenario, protocol=structs.replace(scenario.protocol, **keys))


@pytest.mark.parametrize(
    ("keys", "transport", "seed"),
    [
        ({"recovery": "shamir"}, "reliable", 1),
        ({"recovery": "restart", "rounds": 2}, "datagram", 2),
    ],
)
def test_random_mixtures(small: Scenario, keys: dict[str, object], transport: str, seed: int) -> None:
    network = structs.replace(small.network, transport=transport)
    scenario = structs.replace(with_keys(small, **keys), network=network)
    findings = campaign(scenario, Plan(schedules=20, singles=False, seed=seed))
    assert_held(findings)
    assert len(findings.verdicts) == 21
    assert sum(one.faults_fired > 0 for one in findings.verdicts) >= 16


@pytest.mark.long
@pytest.mark.parametrize("recovery", ["restart", "shamir"])
@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_many_random_mixtures_over_three_rounds(small: Scenario, recovery: str, topology: str, transport: str) -> None:
    network = structs.replace(small.network, transport=transport, topology=topology)
    scenario = structs.replace(with_keys(small, recovery=recovery, rounds=3), network=network)
    findings = campaign(scenario, Plan(schedules=300, singles=False, seed=7, jobs=os.cpu_count() or 1))
    assert_held(findings)


@pytest.mark.long
@pytest.mark.parametrize("recovery", ["restart", "shamir"])
def test_every_crash_of_the_main_scenario(recovery: str) -> None:
    """40 vectors a client, Paillier with short keys: `tacit chaos xclp-digits --set data.limit=400`."""
    keys = ["data.limit=400", "fault=[]", "protocol.key_bits=512", "protocol.insecure_keys=true"]
    scenario = load(ROOT / "scenarios/xclp-digits.toml", [*keys, f'protocol.recovery="{recovery}"'])
    findings = campaign(scenario, Plan(schedules=0, jobs=os.cpu_count() or 1))
    assert_held(findings)
    steps = findings.verdicts[0].course.steps
    assert len(findings.verdicts) == 1 + 2 * sum(count for _, _, count in steps)
    assert {party for party, _, _ in steps} == {"server", *(f"client/{number}" for number in range(10))}
    lost = [one for one in findings.verdicts if one.outcome == "aborted"]
    assert lost and all(one.faults[0].party == "server" for one in lost)


@pytest.mark.long
@pytest.mark.parametrize("recovery", ["restart", "shamir"])
def test_every_pair_of_crashes_of_a_small_federation(small: Scenario, recovery: str) -> None:
    findings = campaign(with_keys(small, recovery=recovery), Plan(schedules=0, pairs=True, jobs=os.cpu_count() or 1))
    assert_held(findings)
    second = [one for one in findings.verdicts if len(one.faults) == 2]
    assert any(fault.occurrence == 2 for one in second for fault in one.faults)  # steps that come after a crash alone
