"""Shares of colluding clients in scenarios: what they raise, what is refused, and what a run says of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tacit import run
from tacit.protocols.federated.dp_fedavg import Clipped
from tacit.scenarios.files.cautions import cautions, notes
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.setting_error import Problem

CALM = ["fault=[]", "expect={}", "data.limit=120"]
FEDAVG = ["protocol.name=fedavg", "training.rounds=1", "training.weighting=equal", "training.min_clients=2", *CALM]
XCLP = [
    "data.clients=5",
    "data.limit=60",
    "protocol.rounds=1",
    "protocol.hamming=plaintext",
    "protocol.recovery=secure",
]


@contextmanager
def made(name: str, *changes: str) -> Iterator[Any]:
    simulation = Simulation(load(name, list(changes)), engine="inline")
    try:
        yield simulation
    finally:
        simulation.close()


@pytest.mark.parametrize(
    ("changes", "fewest"),
    [
        (["data.clients=9", "training.averaging=committee", "sum.value_bits=8"], 3),  # C = 1 at .1 of 9
        (["data.clients=5"], 2),
        (["data.clients=5", "sum.corrupt_clients=0.3"], 4),
        (["data.clients=5", "sum.corrupt_clients=0.3", "training.averaging=prio3", "sum.value_bits=8"], 4),
    ],
)
def test_an_average_is_over_two_clients_more_than_may_collude(changes: list[str], fewest: int) -> None:
    scenario = load("training-secure-average", [*FEDAVG, *changes])
    with made("training-secure-average", *FEDAVG, *changes) as simulation:
        settings = simulation.server.settings
        assert settings.averaging.fewest(settings.min_clients) == fewest
        assert [one.sum.least_of(one.settings(1)) for one in simulation._experiment.helpers] in ([], [fewest])
    said = [note for note in notes(scenario) if "may collude with the server: a sum is" in note]
    assert len(said) == (fewest > 2) and all(str(fewest) in note for note in said)


@pytest.mark.parametrize(
    ("name", "changes", "key"),
    [
        ("training-secure-average", ["sum.corrupt_clients=0.8"], "C = 4 that may collude"),
        ("xclp-digits", [*XCLP, "sum.corrupt_clients=0.7"], "C = 4 that may collude"),
        (
            "fedct-digits",
            ["data.clients=5", "cotraining.votes=secure", "sum.corrupt_clients=0.7"],
            "C = 4 that may",
        ),
        ("private-cells", ["protocol.min_clients=4", "cells.colluding=3"], "C = 3"),
        ("training-private", ["privacy.clip=1e5"], "each client's noise has the deviation"),
    ],
)
def test_a_scenario_that_cannot_carry_the_colluding_is_refused(name: str, changes: list[str], key: str) -> None:
    with pytest.raises((ScenarioError, Problem), match=key):
        Simulation(load(name, [*changes, "fault=[]", "expect={}"]), engine="inline").close()


def test_private_cells_carry_two_fewer_than_the_smallest_sum() -> None:
    with made("private-cells", "protocol.min_clients=4", "cells.colluding=2", *CALM) as simulation:
        assert simulation.server.protocol.plan.assumed.fewest == 4


def test_rows_among_too_few_for_the_colluding_end_with_a_reason_that_names_their_number() -> None:
    gone = ",".join(f'{{kind="crash",party="client/{number}",before="setup.keys"}}' for number in (3, 4))
    fault = f"fault=[{gone}]"
    result = run(load("xclp-digits", [*XCLP, "sum.corrupt_clients=0.4", "expect={}", fault]))
    assert result.outcome == "aborted"
    assert "C = 2 clients that may collude with the server" in str(result.reason)
    carried = run(load("xclp-digits", [*XCLP, "sum.corrupt_clients=0.2", "expect={}", fault]))
    assert carried.outcome == "completed"


def test_clients_noise_is_made_without_that_of_all_that_may_collude(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, words = set[int](), Clipped.words

    def noted(self: Clipped, before: bytes, after: bytes, count: int, *rest: Any) -> Any:
        parts.add(count)
        return words(self, before, after, count, *rest)

    monkeypatch.setattr(Clipped, "words", noted)
    changes = [
        "engine=inline",
        "data.clients=11",
        "training.rounds=1",
        "training.min_clients=11",
        "sum.corrupt_clients=0.3",
        *CALM,
    ]
    assert run(load("training-private", changes)).outcome == "completed"
    assert parts == {11 - 4}


@pytest.mark.parametrize("averaging", ["secagg+", "lightsecagg", "committee", "flamingo"])
def test_a_tolerated_share_of_less_than_one_client_is_a_caution(averaging: str) -> None:
    """A share of 0.1 of nine clients is rounded down to none; secure averages without the key have no such line."""

    def lines(clients: int, share: float, way: str = averaging) -> list[str]:
        changes = ["protocol.name=fedavg", "training.share=1", "training.extra=0", "data.labeled=1.0", "fault=[]"]
        changes += [f"data.clients={clients}", f"sum.tolerated_dropouts={share}", f"training.averaging={way}"]
        changes += ["sum.corrupt_clients=0.02", "sum.value_bits=8", "sum.clip=2.0", "expect={}"]
        scenario = load("training-stragglers", changes)
        return [line for line in cautions(scenario) if "less than one client" in line]

    (line,) = lines(9, 0.1)
    assert "sum.tolerated_dropouts(=0.1) of 9 clients" in line and "0.1112 or more for one" in line
    assert lines(9, 0.1112) == lines(10, 0.1) == lines(9, 0.0) == lines(9, 0.1, "secure") == []
