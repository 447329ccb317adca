"""How many clients are enough for a result, by the conditions under which a protocol's sums are opened."""

from pathlib import Path

import pytest
from msgspec import structs

from tacit import load
from tacit.protocols.parts import Opening, always_opens
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.campaign import verdict
from tacit.sim.faults import Fault

AVERAGED = """
title = "A secure average of ten clients, six of which are needed"
seed = 1
[data]
name = "digits"
clients = 10
limit = 60
labeled = 1.0
[public]
size = 0.3
[model]
name = "linear"
[protocol]
name = "fedavg"
deadline = "10s"
[training]
averaging = "secure"
rounds = 1
min_clients = 6
[cotraining]
rounds = 1
"""


@pytest.mark.parametrize("changes", [[], ["protocol.name=fedct", "cotraining.votes=secure"]], ids=["models", "votes"])
def test_a_sum_over_too_few_of_those_that_began_it_is_refused_and_breaks_no_promise(
    tmp_path: Path, changes: list[str]
) -> None:
    """Eight of ten clients must be left with t = 6, so that no sum is over fewer than the six that are needed."""
    file = tmp_path / "ten.toml"
    file.write_text(AVERAGED)
    scenario = load(file, changes)
    for struck, outcome in ((2, "completed"), (3, "aborted")):
        crash = Fault(party="client/*", count=struck, step="sum.mask")
        found = verdict(structs.replace(scenario, fault=(crash,)))
        assert (found.outcome, found.broken) == (outcome, ())


@pytest.mark.parametrize(("corrupt", "struck"), [("", 3), ("sum.corrupt_clients=0.2", 3)])
def test_signed_survivors_are_enough_only_if_their_signatures_are(tmp_path: Path, corrupt: str, struck: int) -> None:
    """A third of ten clients may sign twice, so seven must sign: chaos knows it, and a run with six has no sum."""
    file = tmp_path / "ten.toml"
    file.write_text(AVERAGED)
    scenario = load(file, ["training.min_clients=2", "protocol.identity=signed", *([corrupt] if corrupt else [])])
    openings = PROTOCOLS[scenario.protocol.name].openings(scenario, 10)
    assert [left for left in range(1, 11) if always_opens(openings, 10, left)] == [7, 8, 9, 10]
    for number, outcome in ((struck, "completed"), (struck + 1, "aborted")):
        crash = Fault(party="client/*", count=number, step="sum.mask")
        found = verdict(structs.replace(scenario, fault=(crash,)))
        assert (found.outcome, found.broken) == (outcome, ())


def test_clients_are_enough_if_they_are_however_many_of_the_others_join() -> None:
    two_thirds = Opening(3, opens=lambda joined, left: float(3 * left > 2 * joined))
    assert [left for left in range(7) if always_opens([two_thirds], 6, left)] == [5, 6]
    assert always_opens([], 6, 1)
    in_graph = Opening(3, opens=lambda joined, left: None)
    assert always_opens([in_graph], 6, 3) and not always_opens([in_graph], 6, 2)
    assert not always_opens([in_graph, two_thirds], 6, 4)


def test_a_histogram_needs_two_reports_more_than_may_collude(tmp_path: Path) -> None:
    examples = Path(__file__).parents[2] / "examples"
    scenario = load(examples / "histogram.toml", ["sum.corrupt_clients=0.4"])
    clients = scenario.data.clients
    openings = PROTOCOLS[scenario.protocol.name].openings(scenario, clients)
    least = -(-2 * clients // 5) + 2
    assert [always_opens(openings, clients, left) for left in (least - 1, least)] == [False, True]
