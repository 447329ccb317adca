"""Removable noise in processes that are killed: epsilon, noise and model are those of the simulator's run."""

from collections import Counter
from pathlib import Path

import pytest

from tacit.scenarios.files.result import Result
from tacit.scenarios.running.runner import run
from tests.deployed.test_processes import deployed, endings_of

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_parties")]

PRIVATE = [
    "data.limit=200", "data.clients=6", "training.rounds=3", "privacy.tolerated=0.34", "privacy.clip=0.5",
    "network.latency=0ms", "protocol.deadline=12s", "privacy.epsilon=8.0", "expect={}",
]  # fmt: skip


def crash(party: str, when: str) -> str:
    return f'{{kind="crash", party="{party}", {when}, back_after="1s"}}'


def seeds_sent(result: Result) -> Counter[tuple[str, int]]:
    """How many messages with seeds of noise each client sent in each round, over all its incarnations."""
    found = result.frame("messages")
    return Counter((row.sender, row.round) for row in found[found["type"] == "NoiseSeeds"].itertuples())


def assert_same_privacy(real: Result, simulated: Result) -> None:
    assert endings_of(real) == endings_of(simulated)
    assert real.privacy == simulated.privacy  # epsilon, noise left and parts removed of each sum
    assert real.model_digest == simulated.model_digest
    assert set(seeds_sent(real).values()) == set(seeds_sent(simulated).values()) == {1}


def test_lost_clients_cost_no_epsilon_and_seeds_are_revealed_once(tmp_path: Path) -> None:
    """One client is lost before it masks and is back in the next round; one signs nothing, and one reveals nothing."""
    faults = ",".join(
        (
            crash("client/1", 'before="sum.mask", round=1'),
            crash("client/2", 'at="sum.agree", round=2'),
            crash("client/3", 'at="sum.reveal", round=3'),
        )
    )
    scenario, real = deployed("private-dropouts", [*PRIVATE, f"fault=[{faults}]"], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert_same_privacy(real, simulated)
    assert seeds_sent(real) == seeds_sent(simulated)
    assert real.outcome == "completed" and real.privacy is not None
    assert real.privacy.epsilon is not None and 7.9 < real.privacy.epsilon <= 8.0
    first, second, third = real.privacy.carried
    assert (first.survivors, first.removed, first.removable) == (5, 5, 10)
    assert (second.survivors, second.removed) == (third.survivors, third.removed) == (6, 10)
    assert second.carried > second.certain == second.planned
    assert real.client_seconds is not None and simulated.client_seconds is not None
    assert 0 < real.client_seconds < 100 * simulated.client_seconds


@pytest.mark.parametrize("averaging", ["lightsecagg", "committee", "flamingo"])
def test_other_sums_lose_a_client_and_spend_no_more(averaging: str, tmp_path: Path) -> None:
    """The client is lost for good before it masks in the last round, and each part that is removed has its own seed."""
    fault = '{kind="crash", party="client/1", before="sum.mask", round=2}'
    sums = [f"training.averaging={averaging}", "sum.tolerated_dropouts=0.25", "sum.corrupt_clients=0.1"]
    changes = [*PRIVATE, *sums, "data.clients=7", "training.rounds=2", "privacy.components=log2", f"fault=[{fault}]"]
    scenario, real = deployed("private-dropouts", changes, tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert_same_privacy(real, simulated)
    assert seeds_sent(real) == seeds_sent(simulated) and real.privacy is not None
    assert [(one.survivors, one.removed, one.removable) for one in real.privacy.carried] == [(7, 14, 14), (6, 6, 12)]


def test_a_killed_server_is_charged_for_the_interrupted_sum_and_gets_no_seeds_again(tmp_path: Path) -> None:
    """It is killed as it shows the signatures of round 2: clients have masked, and some reveal. The run then ends."""
    faults = ",".join(
        (crash("client/1", 'before="sum.mask", round=1'), crash("server", 'message="Agreement", occurrence=8'))
    )
    scenario, real = deployed("private-dropouts", [*PRIVATE, f"fault=[{faults}]"], tmp_path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert_same_privacy(real, simulated)
    assert real.outcome == "aborted" and "the server was lost and is back" in real.reason
    assert real.privacy is not None and real.privacy.rounds == 2 and len(real.privacy.carried) == 1
    second = [number for _, number in seeds_sent(real) if number == 2]
    assert 0 < len(second) < 6  # the simulator loses what is on its way as its sender crashes, and TCP does not
