"""Chaos finds nothing: random mixtures in the default tests, every crash of the main scenario in the long ones."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from tacit import Scenario, load
from tacit.scenarios.chaos import campaign as module
from tacit.scenarios.chaos.campaign import Findings, Plan, campaign
from tacit.scenarios.chaos.report import verdict_line

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
        ({"recovery": "secure"}, "reliable", 1),
        ({"recovery": "restart", "rounds": 2}, "datagram", 2),
    ],
)
def test_random_mixtures_of_faults_break_no_promise_of_xclp(
    small: Scenario, keys: dict[str, object], transport: str, seed: int
) -> None:
    network = structs.replace(small.network, transport=transport)
    scenario = structs.replace(with_keys(small, **keys), network=network)
    findings = campaign(scenario, Plan(schedules=10, singles=False, seed=seed))
    assert_held(findings)
    assert len(findings.verdicts) == 11
    assert sum(one.faults_fired > 0 for one in findings.verdicts) >= 8


@pytest.mark.long
@pytest.mark.parametrize(
    ("clients", "struck", "recovery"),
    [(10, (0, 5, 9), "restart"), (5, range(5), "restart"), (5, range(5), "secure")],
)
def test_no_crash_in_the_main_scenario_breaks_a_promise(clients: int, struck: Sequence[int], recovery: str) -> None:
    """Crashes of all of five clients, and of three of its ten, which take the same steps as the others.

    12 vectors of 64 bits a client, Paillier with short keys: `tacit chaos xclp-digits --set data.limit=120`.
    """
    keys = [f"data.limit={12 * clients}", f"data.clients={clients}", "fault=[]", "protocol.bits=64"]
    short = ["protocol.key_bits=512", "protocol.insecure_keys=true", f'protocol.recovery="{recovery}"']
    scenario = load(ROOT / "scenarios/library/xclp-digits.toml", [*keys, *short])
    findings = campaign(scenario, Plan(schedules=0, quick=len(struck) < clients))
    assert_held(findings)
    steps = findings.verdicts[0].course.steps
    assert {party for party, _, _ in steps} == {"server", *(f"client/{number}" for number in range(clients))}
    crashing = {"server", *(f"client/{number}" for number in struck)}
    assert len(findings.verdicts) == 1 + 2 * sum(count for party, _, count in steps if party in crashing)
    assert {one.faults[0].party for one in findings.verdicts[1:]} == crashing
    lost = [one for one in findings.verdicts if one.outcome == "aborted"]
    assert lost and all(one.faults[0].party == "server" for one in lost)


@pytest.mark.long
@pytest.mark.parametrize("recovery", ["restart", "secure"])
def test_pairs_of_crashes_in_a_small_federation_break_no_promise(
    small: Scenario, recovery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sixteenth of all pairs with each recovery, another one with each; `tacit chaos --pairs` tries all of them."""
    every_pair = module._pairs
    start = 8 * (recovery == "restart")
    monkeypatch.setattr(module, "_pairs", lambda *found: every_pair(*found)[start::16])
    findings = campaign(with_keys(small, recovery=recovery), Plan(schedules=0, pairs=True))
    assert_held(findings)
    assert len(findings.verdicts) > 200
    occurring = [fault for one in findings.verdicts for fault in one.faults if fault.get("occurrence") == 2]
    twice = {fault.get("before") or fault.get("after") for fault in occurring}
    # With `restart`, a loss lets the clients mask their sums a second time; with `secure`, the sum goes on as it is.
    assert twice == ({"rowsums.mask"} if recovery == "restart" else set())
