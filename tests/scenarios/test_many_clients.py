"""Resting clients take no memory, and a run does not depend on which clients rest."""

import gc
from pathlib import Path
from typing import Any

import pytest

from tacit import load
from tacit.protocols.experiment import experiment
from tacit.protocols.federated.round import TrainingClient
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.runner import carry_out
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.trace import Event

SMALL = [
    "data.limit=120", "data.clients=12", "training.rounds=3", "training.share=0.4", "training.epochs=1", "expect={}",
    "protocol.name=fedavg", "protocol.deadline=5s", "training.averaging=plain", 'network.latency="lognormal:40ms,0.3"',
]  # fmt: skip

FAULTS = {
    "nobody": "[]",
    "come and go": '[{kind="crash",party="client/*",time="0.05s",back_after="0.3s"},{kind="leave",party="client/4",'
    'time="0.01s"},{kind="crash",party="client/3",time="0s",back_after="1s"}]',
    "stand still, slowed": '[{kind="pause",party="client/*",time="0.2s",lasts="3s"},{kind="slow",party="client/2",'
    'time="0.1s",factor=30.0,lasts="2s"}]',
    "the server is lost": '[{kind="crash",party="server",at="train.open",occurrence=2}]',
    "late": '[{kind="delay",message="Enrolled",by="7s"},{kind="duplicate",message="TrainingRound",probability=0.5}]',
}


def small(*changes: str) -> Scenario:
    return load("training-private", ["fault=[]", *SMALL, *changes])


def figures(scenario: Scenario, out: Path) -> dict[str, Any]:
    result = carry_out(scenario, "run", out=out)
    assert result.error is None
    return {k: v for k, v in result.record().items() if k not in ("wall_seconds", "peak_memory", "environment")}


def assert_equal_at_rest(scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = figures(scenario, tmp_path / "there")
    monkeypatch.setattr(experiment, "AWAKE", 0)
    assert figures(scenario, tmp_path / "resting") == there


@pytest.mark.parametrize("faults", FAULTS)
def test_resting_clients_leave_a_run_unchanged(faults: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equal_at_rest(small(f"fault={FAULTS[faults]}"), tmp_path, monkeypatch)


@pytest.mark.parametrize("faults", ["nobody", "come and go", "late"])
@pytest.mark.parametrize("way", ["protocol.name=fedbuff", "training.extra=2"])
def test_resting_clients_leave_runs_of_fedbuff_and_over_selection_unchanged(
    way: str, faults: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_equal_at_rest(small(way, f"fault={FAULTS[faults]}"), tmp_path, monkeypatch)


def parties_of(simulation: Simulation) -> int:
    """The number of clients in the simulation's world."""
    world = simulation.server.world
    return sum(type(one) is TrainingClient and one.world is world for one in gc.get_objects())


class Census:
    """The most awake clients, and the most parties at each `every`-th event of these `kinds`."""

    def __init__(self, kinds: tuple[str, ...] = ("leave",), every: int = 1) -> None:
        self.simulation: Simulation | None = None
        self.kinds, self.every = kinds, every
        self.seen, self.awake, self.parties = 0, 0, 0

    def __call__(self, event: Event) -> None:
        assert self.simulation is not None
        self.awake = max(self.awake, len(self.simulation.registered.awake))
        if event.kind in self.kinds:
            self.seen += 1
            if self.seen % self.every == 0:
                self.parties = max(self.parties, parties_of(self.simulation))


def run_census(scenario: Scenario, kinds: tuple[str, ...] = ("leave",), every: int = 1) -> tuple[Census, Simulation]:
    census = Census(kinds, every)
    census.simulation = Simulation(scenario, sinks=[census], engine="inline")
    assert census.simulation.registered.made == 0
    census.simulation.run()
    census.simulation.close()
    return census, census.simulation


def test_clients_at_rest_are_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "AWAKE", 10)
    census, simulation = run_census(small("data.clients=60", "training.share=0.1"), ("metric",))
    called = sum(len(one.cohort) for one in simulation.observer.rounds)
    assert simulation.registered.made == 60 + called  # each client enrols once
    assert 1 <= census.awake <= called / 3
    assert census.parties == 0  # at the end of a round all clients rest
    assert parties_of(simulation) == 0


@pytest.mark.long
def test_memory_grows_with_the_cohort_among_ten_thousand_clients() -> None:
    changes = ["data.clients=10000", "training.rounds=3"]
    for share, cohort in (("0.01", 100), ("0.02", 200)):
        scenario = load("many-clients", [*changes, f"training.share={share}"])
        census, simulation = run_census(scenario, ("fault",), every=50)
        assert census.seen > 1000
        assert census.awake <= cohort + 30  # and those that enrol at the same time
        assert census.parties <= cohort + 30
        assert 10_000 <= simulation.registered.made <= 10_000 + 3 * (cohort + 700)


@pytest.mark.long
def test_a_prediction_for_ten_thousand_clients_equals_the_messages_of_the_run() -> None:
    scenario = load("many-clients", ["data.clients=10000", "training.share=0.01", "training.rounds=2", "fault=[]"])
    predicted = predict_run(scenario)
    simulation = Simulation(scenario, engine="inline")
    simulation.run()
    simulation.close()
    assert simulation.ledger.messages == sum(row.messages for row in predicted.rows)
    assert simulation.now == pytest.approx(predicted.virtual_seconds, rel=0.03)
