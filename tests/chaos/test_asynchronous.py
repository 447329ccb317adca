"""Chaos finds nothing in asynchronous training, and finds planted bugs."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tacit import Scenario, load
from tacit.parties.learning.vectors import Layout
from tacit.protocols.federated import fedbuff
from tacit.protocols.federated.fedbuff import FedBuffServer
from tacit.scenarios.chaos.campaign import Plan, campaign, verdict
from tacit.scenarios.schema.scenario import Fault
from tests.chaos.test_training import TRAINING, assert_held

AT = Fault(party="client/1", at="train.update")


@pytest.fixture
def buffered(tmp_path: Path) -> Scenario:
    path = tmp_path / "buffered.toml"
    path.write_text(TRAINING.replace('"fedavg"', '"fedbuff"').replace("rounds = 2", "rounds = 3\nbuffer = 2"))
    return load(path)


def broken_promises(scenario: Scenario, *faults: Fault) -> set[str]:
    return {one.promise for one in verdict(structs.replace(scenario, fault=faults)).broken}


@pytest.mark.parametrize("changes", [{}, pytest.param({"concurrency": 3}, marks=pytest.mark.long)])
def test_a_crash_at_any_step_of_fedbuff_breaks_no_promise(buffered: Scenario, changes: dict[str, Any]) -> None:
    scenario = structs.replace(buffered, training=structs.replace(buffered.training, **changes))
    findings = campaign(scenario, Plan(schedules=0, quick=not changes))
    assert_held(findings)
    assert len(findings.verdicts) > 8


def test_crashes_in_over_selected_training_break_no_promise(buffered: Scenario) -> None:
    protocol = structs.replace(buffered.protocol, name="fedavg")
    training = structs.replace(buffered.training, share=0.5, extra=1, buffer=None)
    scenario = structs.replace(buffered, protocol=protocol, training=training)
    assert_held(campaign(scenario, Plan(schedules=5, singles=False, seed=3)))


def test_a_model_counted_twice_breaks_a_promise(buffered: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    take_in = FedBuffServer.take_in

    async def twice(self: FedBuffServer) -> None:
        before = len(self.buffer)
        await take_in(self)
        if len(self.buffer) == before + 1 == 1:
            self.buffer.append(self.buffer[0])

    monkeypatch.setattr(FedBuffServer, "take_in", twice)
    assert "no model counts twice" in broken_promises(buffered)


@pytest.mark.parametrize("planted", ["without staleness", "one too few"])
def test_a_wrong_move_of_the_model_breaks_the_promise_of_the_oracle(
    buffered: Scenario, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = fedbuff.moved

    def other(
        model: bytes, changes: list[tuple[bytes, bytes, float]], total: float, rate: float, layout: Layout
    ) -> bytes:
        if planted == "one too few":
            return moved(model, changes[1:], total, rate, layout)
        return moved(model, [(trained, began, 1.0) for trained, began, _ in changes], total, rate, layout)

    monkeypatch.setattr(fedbuff, "moved", other)
    assert broken_promises(buffered) == {"the model equals the oracle's"}


def test_a_lost_client_that_keeps_its_place_breaks_a_promise(
    buffered: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = structs.replace(buffered.protocol, deadline="0.1s")
    scenario = structs.replace(buffered, protocol=soon, training=structs.replace(buffered.training, rounds=25))
    assert not broken_promises(scenario, AT)
    monkeypatch.setattr(FedBuffServer, "dismiss", lambda self, parties, reason, aborted=False: None)
    assert "no client holds a place for long" in broken_promises(scenario, AT)


def test_places_that_stay_empty_break_a_promise(buffered: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    call = FedBuffServer.call

    def fewer(self: FedBuffServer, number: int) -> tuple[str, ...]:
        self._called.add("client/2")
        return call(self, number)

    monkeypatch.setattr(FedBuffServer, "call", fewer)
    assert "free places are filled" in broken_promises(buffered)
