"""Noise of clients under random faults: what training with it promises, and planted bugs that the promises find."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tacit import Scenario
from tacit.parties.client import Client
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import Seeds
from tacit.protocols.sums import removal
from tacit.scenarios.chaos.broad import calm_scenario
from tacit.scenarios.chaos.campaign import Plan, campaign, verdict
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.report import verdict_line
from tacit.scenarios.schema.scenario import Fault

NOISY = [one for one in CONFIGURATIONS if "noise" in one.name]
FIRST = "dp-fedavg, noise removed, secure, star"
EQUAL, ONE_SET = "the model equals the oracle's", "seeds of noise are revealed for one set"


def scenario_of(name: str) -> Scenario:
    return calm_scenario(next(one for one in NOISY if one.name == name), 7101)


@pytest.mark.parametrize(
    ("name", "schedules", "seed"),
    [(FIRST, 5, 5), *(pytest.param(one.name, 12, seed, marks=pytest.mark.long) for seed, one in enumerate(NOISY, 6))],
)
def test_random_mixtures_of_faults_break_no_promise_of_noise(name: str, schedules: int, seed: int) -> None:
    """Each configuration has other mixtures, so that all of them together try as many faults and steps as possible."""
    findings = campaign(scenario_of(name), Plan(schedules=schedules, singles=False, seed=seed))
    broken = [verdict_line(one) + f" {one.broken}" for one in findings.verdicts if one.broken]
    assert not broken, "\n".join(broken)
    assert findings.verdicts[0].outcome == "completed"


@pytest.mark.parametrize(
    ("name", "where"),
    [
        (FIRST, {"message": "Survivors", "occurrence": 3}),
        (FIRST, {"message": "SumDone"}),
        ("dp-fedavg, noise removed, committee, datagram", {"message": "SignedSurvivors", "occurrence": 3}),
        ("dp-fedavg, noise removed, flamingo, connections watched", {"message": "SignedSurvivors", "occurrence": 5}),
    ],
)
def test_a_server_that_returns_gets_no_seeds_of_a_second_set(name: str, where: dict[str, Any]) -> None:
    back = Fault(party="server", back_after="4s", **where)
    found = verdict(structs.replace(scenario_of(name), fault=(back,)))
    assert not found.broken and found.faults_fired == 1


def broken_by(monkeypatch: pytest.MonkeyPatch, kind: Any, method: str, planted: Any, *faults: Fault) -> set[str]:
    monkeypatch.setattr(kind, method, planted)
    return {one.promise for one in verdict(structs.replace(scenario_of(FIRST), fault=faults)).broken}


def test_noise_that_is_removed_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    removed = Distributed.removed

    def planted(self: Distributed, ring: Any, parts: Any, lost: int, revealed: Any) -> Any:
        return removed(self, ring, parts, lost, [*revealed, *revealed])

    assert EQUAL in broken_by(monkeypatch, Distributed, "removed", planted)


def test_changes_that_are_not_clipped_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = Distributed.rounded

    def planted(self: Distributed, change: Any, run: bytes, number: int, entropy: Any) -> Any:
        return rounded(self, np.zeros_like(change), run, number, entropy)

    assert EQUAL in broken_by(monkeypatch, Distributed, "rounded", planted)


def test_seeds_of_parts_that_are_needed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client is lost, and the others reveal as if none were."""
    reveal = removal._reveal

    def planted(me: Client, noise: Distributed, seeds: Seeds, clients: int, survivors: Sequence[str]) -> None:
        reveal(me, noise, seeds, len(set(survivors)), survivors)

    lost = Fault(party="client/1", at="sum.mask", occurrence=2)
    assert ONE_SET in broken_by(monkeypatch, removal, "_reveal", planted, lost)


COUNTED = "epsilon counts the noise that is left"
CHARGED = "dp-fedavg, less noise charged, secure, datagram"
UNTIL = "dp-fedavg, less noise until epsilon, secure, lossy TCP"


def lost(number: int, *clients: int) -> tuple[Fault, ...]:
    return tuple(Fault(party=f"client/{one}", at="sum.mask", round=number) for one in clients)


def test_less_noise_that_counts_as_all_of_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = structs.replace(scenario_of(CHARGED), fault=lost(2, 1, 2))
    assert not verdict(scenario).broken
    monkeypatch.setattr(Distributed, "left", lambda self, clients, survivors: self.variance)
    assert COUNTED in {one.promise for one in verdict(scenario).broken}


@pytest.mark.parametrize("ends", [False, True])
def test_a_run_that_ends_too_late_or_too_early_for_epsilon_is_found(
    monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    scenario = structs.replace(scenario_of(UNTIL), fault=lost(2, 1, 2) if not ends else ())
    assert not verdict(scenario).broken
    monkeypatch.setattr(Distributed, "ends", property(lambda self: ends and len(self.before) == 1))
    monkeypatch.setattr(Distributed, "least_left", lambda self, clients: 4)
    assert COUNTED in {one.promise for one in verdict(scenario).broken}


def test_a_last_sum_for_which_no_budget_is_left_need_not_be_opened() -> None:
    found = verdict(structs.replace(scenario_of(UNTIL), fault=lost(3, 1)))
    assert found.faults_fired == 1 and not found.broken
