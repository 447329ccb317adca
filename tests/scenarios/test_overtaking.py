"""Over datagrams that are not lost, a message that overtakes another one ends no run and loses nobody."""

from pathlib import Path

import pytest
from msgspec import structs

from tacit.scenarios.chaos.broad import overtaking_scenario
from tacit.scenarios.chaos.campaign import first_run
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.trial import observed
from tacit.scenarios.files.reading import load
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.trace import Fact

EXAMPLE = Path(__file__).parents[2] / "examples/secure_variance.toml"
NAMED = {one.name: one for one in CONFIGURATIONS}
OVERTAKING = ["network.transport=datagram", "network.latency=lognormal:40ms,0.6", "fault=[]", "expect={}"]


def assert_nothing_happens(scenario: Scenario, *seeds: int) -> None:
    for seed in seeds:
        trial = observed(structs.replace(scenario, seed=seed))
        assert trial.outcome == "completed", f"seed {seed}: {trial.reason}"
        assert trial.simulated is not None and trial.simulated.equals_plaintext is not False
        assert not trial.simulated.lost, f"seed {seed}"
        assert [event.note for event in trial.events if event.fact == Fact.REFUSED] == [], f"seed {seed}"


def test_the_sums_of_private_cells_follow_their_centres() -> None:
    assert_nothing_happens(load("private-cells", [*OVERTAKING, "data.limit=200", "cells.steps=2"]), 1, 2)


def test_a_part_of_an_own_protocol_begins_after_its_opening() -> None:
    assert_nothing_happens(load(EXAMPLE, OVERTAKING), 1, 3)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("fedavg, lightsecagg, star", (4,)),
        ("fedavg, committee, star", (2,)),
        ("fedavg, flamingo, star", (3,)),
        ("fedavg, secagg+, eight clients", (1, 2)),
        ("fedct, secure votes, datagram", (1, 2)),
    ],
)
def test_sums_ask_for_one_thing_after_another(name: str, seeds: tuple[int, ...]) -> None:
    one = NAMED[name]
    assert_nothing_happens(load(one.scenario, [*one.changes, *OVERTAKING]), *seeds)


def test_a_client_waits_for_the_end_of_its_sum_which_the_next_call_has_overtaken() -> None:
    """The consensus is the same again, and a client that does not know that its sum is done refuses such a round."""
    one = NAMED["fedct, secure votes, datagram"]
    delay = '{kind="delay", party="server", peer="client/1", message="SumDone", by="800ms", round=2}'
    same = ["learner.name=decision-tree", "cotraining.rounds=3"]  # which agree on the same in each round
    changes = [*one.changes, *OVERTAKING, *same, f"fault=[{delay}]", "network.latency=40ms"]
    trial = observed(load(one.scenario, changes))
    assert trial.simulated is not None and not trial.simulated.lost
    assert trial.fired and [event.note for event in trial.events if event.fact == Fact.REFUSED] == []


def test_every_configuration_has_a_run_in_which_messages_overtake_each_other() -> None:
    scenarios = [overtaking_scenario(one, 3) for one in CONFIGURATIONS]
    assert {one.network.transport for one in scenarios} == {"datagram"}
    assert len({one.network.latency for one in scenarios}) > len(scenarios) / 2
    assert not any(one.network.loss or one.fault or any(link.loss for link in one.link) for one in scenarios)
    assert not first_run(overtaking_scenario(NAMED["private-cells, mesh"], 3)).broken
