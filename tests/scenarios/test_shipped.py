"""The built-in scenarios end as they expect, and those on robustness cover all kinds of faults."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tacit import Expect, Result, scenarios
from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.running.runner import carry_out, exit_code

CHEAP = ["protocol.key_bits=512", "protocol.insecure_keys=true"]
SMALL = {True: [], False: ["data.limit=240", *CHEAP]}

FILES = {"scenario.toml", "result.json", "labels.csv", "rounds.csv", "run.sqlite"}
TESTS = {
    name: path
    for name, path in shipped().items()
    if read(name, without_data=True).scenario.expect != Expect() and "long" not in path.parts
}
ROBUSTNESS = {name: path for name, path in TESTS.items() if path.parent.name == "robustness"}


ONCE = {"fedavg-xclp-digits": ["training.rounds=13"]}
"""Scenarios for which one round with cryptography is enough."""
FEWER = {"fedct-digits": ["cotraining.rounds=2"], "cotraining-mixed": ["cotraining.rounds=2"]}
"""Scenarios whose later rounds are run only in the long tests."""


def loaded(name: str, *changes: str) -> Loaded:
    return read(name, [*SMALL[name in ROBUSTNESS], *(ONCE | FEWER).get(name, []), "engine=inline", *changes])


@pytest.fixture(scope="module")
def result_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """A function that runs a built-in scenario once, and returns the result."""

    @cache
    def run(name: str) -> Result:
        return carry_out(loaded(name).scenario, name, out=tmp_path_factory.mktemp(name) / "run")

    return run


def assert_as_expected(result: Result, expect: Expect) -> None:
    assert (result.unmet, result.error) == ([], None)
    assert exit_code(result, expect) == 0
    trained = {"model.npz"} if result.model_digest else set()
    goes_on = {"last"} if (result.folder / "last").is_file() and result.round_records else set()
    assert {path.name for path in result.folder.iterdir()} == FILES | trained | goes_on


SLOW = ("fedavg-xclp-digits", "cotraining-uneven", "xclp-groups")
"""Scenarios run only in the long tests; others also train in rounds and label by oblivious transfer."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in SLOW else [])
        for name in TESTS
        if read(name, without_data=True).scenario.size != "long"
    ],
)
def test_a_shipped_scenario_meets_its_expectations(result_of: Callable[[str], Result], name: str) -> None:
    assert_as_expected(result_of(name), loaded(name).scenario.expect)


@pytest.mark.long
@pytest.mark.parametrize("name", FEWER)
def test_a_shipped_scenario_meets_its_expectations_after_all_rounds(tmp_path: Path, name: str) -> None:
    scenario = read(name, [*SMALL[False], "engine=inline"]).scenario
    assert_as_expected(carry_out(scenario, name, out=tmp_path / "run"), scenario.expect)


@pytest.mark.long
@pytest.mark.parametrize("limit", [20, 240])
@pytest.mark.parametrize("name", ROBUSTNESS)
def test_a_robustness_scenario_meets_its_expectations_at_every_size(tmp_path: Path, name: str, limit: int) -> None:
    scenario = loaded(name, f"data.limit={limit}").scenario
    result = carry_out(scenario, name, out=tmp_path / "run")
    assert (result.unmet, result.error) == ([], None)


PROGRAM = """
import sys
from tacit import load
from tacit.scenarios.running.simulation import Simulation

for name in sys.argv[1:]:
    simulation = Simulation(load(name))
    simulation.run()
    print(name, simulation.trace.trace_hash)
    simulation.close()
"""


@pytest.mark.parametrize(
    "names", [["lossy-datagram"], pytest.param(["dropout-30-percent", "lossy-reliable"], marks=pytest.mark.long)]
)
def test_faults_strike_alike_in_every_process(result_of: Callable[[str], Result], names: list[str]) -> None:
    """The order of sets in another process differs from this one's, and has no effect."""
    here = [f"{name} {result_of(name).trace_hash}" for name in names]
    root = str(Path(scenarios.__file__).parents[1])
    hash_seed = "99" if os.environ.get("PYTHONHASHSEED") != "99" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root}
    command = [sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == here


@pytest.mark.parametrize("name", ROBUSTNESS)
def test_a_robustness_file_names_outcome_equality_and_losses(name: str) -> None:
    scenario = loaded(name).scenario
    expect, certain = scenario.expect, all(fault.get("probability") is None for fault in scenario.fault)
    assert expect.outcome is not None
    assert expect.equals_plaintext is not None or expect.outcome == "aborted"
    assert expect.lost is not None or not certain
    assert scenario.fault or scenario.network.loss
    assert re.fullmatch(r"[A-Z][^.]+", scenario.title)


def test_the_robustness_scenarios_cover_all_faults_and_networks() -> None:
    every = [loaded(name).scenario for name in ROBUSTNESS]
    kinds = {fault.kind for scenario in every for fault in scenario.fault}
    assert kinds >= {
        "crash", "leave", "pause", "slow", "partition", "hold", "lose", "duplicate", "delay", "corrupt", "availability"
    }  # fmt: skip
    assert {(s.protocol.recovery, s.network.topology) for s in every} == {
        (recovery, topology) for recovery in ("restart", "secure") for topology in ("star", "mesh")
    }
    assert {s.network.transport for s in every if s.network.loss or s.fault} == {"reliable", "datagram"}
    assert {s.protocol.hamming for s in every} >= {"plaintext", "paillier", "iknp"}


CLIENTS = tuple(f"client/{number}" for number in range(6))


def clients_without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in CLIENTS if name not in names)


@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize("recovery", ["restart", "secure"])
def test_the_sets_of_clients_after_each_loss_equal_the_table_of_dropouts(
    result_of: Callable[[str], Result], recovery: str, topology: str
) -> None:
    """The rows of the table of dropouts: the clients in the graph, those whose labels count, and those that get
    labels."""
    named = {"restart": "restart", "secure": "shamir"}[recovery]
    rounds = result_of(f"losses-{named}-{topology}").round_records
    found = [(one.members, one.contributors, one.labeled) for one in rounds]
    assert found[0] == (clients_without("client/1"),) * 3  # lost in SecureHamming: not in any set
    assert found[1] == (clients_without("client/4"),) * 3  # cannot reach client/2: the later of the two is lost
    # Lost before its masked values were received.
    assert found[2] == (CLIENTS, clients_without("client/3"), clients_without("client/3"))
    # In the graph in any case; its labels count unless a new attempt begins.
    after_masking = "client/5" if recovery == "restart" else ""
    assert found[3] == (CLIENTS, clients_without("client/1", after_masking), clients_without("client/1", "client/5"))
    assert found[4] == (CLIENTS, CLIENTS, clients_without("client/2"))  # lost after the sum
    # Back too late; then the server is lost.
    assert found[5] == (clients_without("client/2"), (), ()) and not rounds[5].finished


def test_a_client_that_rejoins_takes_part_in_the_next_round(result_of: Callable[[str], Result]) -> None:
    first, *later = result_of("rejoin").round_records
    assert "client/2" not in first.members
    assert all("client/2" in one.labeled for one in later)


def test_every_client_reports_a_lost_server(result_of: Callable[[str], Result]) -> None:
    endings = result_of("server-lost").endings
    assert len(endings) == 5 and all(ending.startswith("no answer from the server") for ending in endings.values())


def test_thirty_percent_dropout_loses_about_thirty_percent_of_clients(result_of: Callable[[str], Result]) -> None:
    result = result_of("dropout-30-percent")
    assert len(result.round_records) == 20 and all(one.equals_plaintext for one in result.round_records)
    share = sum(len(one.lost) for one in result.round_records) / (20 * 8)
    assert 0.2 < share < 0.4


def test_clients_that_leave_after_masking_count_in_the_sum(result_of: Callable[[str], Result]) -> None:
    (only,) = result_of("leaves-after-masking").round_records
    assert only.contributors == CLIENTS and only.labeled == clients_without("client/2", "client/5")
