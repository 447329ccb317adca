"""Secure averages by scenario: the fewest models that a round may average, and that late answers open no second sum."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit import Result, Scenario, ScenarioError, load, run
from tacit.parties.learning.vectors import Layout
from tacit.protocols.federated import observer, secure_averages
from tacit.scenarios.files.cautions import cautions, notes
from tacit.scenarios.reporting.report import report
from tacit.scenarios.running.runner import exit_code
from tacit.scenarios.running.simulation import Simulation

LATE = """
[[fault]]
kind = "crash"
party = "client/3"
before = "sum.mask"
[[fault]]
kind = "delay"
party = "client/2"
peer = "server"
message = "Revealed"
by = "10.2s"
"""


def secure(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    tiny.write_text(tiny.read_text() + faults)
    return load(tiny, ["protocol.name=fedavg", "training.averaging=secure", *changes])


def models_needed(scenario: Scenario) -> int:
    """The number of models that a round needs, equal for all parties."""
    simulation = Simulation(scenario)
    try:
        found = {client.settings.min_clients for client in simulation.clients}
        (one,) = found | {simulation.server.settings.min_clients}
        return one
    finally:
        simulation.close()


def rows(result: Result, query: str) -> list[tuple]:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as database:
        return database.execute(query).fetchall()


def test_a_late_answer_ends_the_run_without_a_second_sum(tiny: Path) -> None:
    """Two of three answer in time, the third too late: with another attempt the server would have two sums."""
    changes = ("training.rounds=2", "protocol.deadline=10s", "entropy=os")
    result = run(secure(tiny, *changes, faults=LATE), out=tiny.parent / "late")
    assert [fault.kind for fault in result.faults] == ["crash", "delay"]
    problem = "the sum stays masked: 2 of 3 clients answered to Survivors; 3 are needed"
    assert [(one.problem, len(one.averaged)) for one in result.round_records] == [(problem, 0)]
    assert result.outcome == "aborted" and result.reason.startswith(f"round 1 is lost: {problem}")
    assert [(loss.party, loss.action) for loss in result.lost if loss.round == 1][1:] == [
        ("client/2", "it revealed no shares: the round ends without a sum")
    ]
    sent = dict(rows(result, "SELECT round, COUNT(*) FROM messages WHERE type = 'SumStart' GROUP BY round"))
    assert sent == {1: 4}


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ([], 3),
        (["data.clients=5"], 2),
        (["data.clients=8"], 4),
        (["data.clients=5", "training.share=0.5"], 2),
        (["data.clients=5", "protocol.name=dp-fedavg", "privacy.noise_at=clients"], 3),
        (["training.share=0.5"], 2),
        (["training.min_clients=2"], 2),
        (["training.min_clients=4"], 4),
        (["training.averaging=plain"], 1),
        (["protocol.name=fedavg-then-xclp"], 3),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_the_fewest_averaged_clients_follow_from_the_keys(tiny: Path, changes: list[str], least: int) -> None:
    assert models_needed(secure(tiny, *changes)) == least


def test_clients_without_labels_that_are_not_drawn_do_not_count(tiny: Path) -> None:
    changes = ["data.clients=5", "data.labeled_clients=3"]
    assert models_needed(secure(tiny, *changes)) == 2
    assert models_needed(secure(tiny, *changes, "training.min_clients=3")) == 3
    changes[1] = "data.labeled_clients=4"
    assert models_needed(secure(tiny, *changes)) == 3


def test_an_average_of_a_single_model_is_refused(tiny: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        secure(tiny, "training.min_clients=1")
    assert caught.value.key == "training.min_clients" and "allowed: 2 or more" in str(caught.value)
    what = r'training\.share: 0\.2 of 4 clients .* training\.averaging = "secure" needs 2'
    with pytest.raises(ScenarioError, match=what):
        secure(tiny, "training.share=0.2")


@pytest.mark.parametrize(("threshold", "warned"), [(2, True), (3, False)])
def test_a_threshold_of_half_or_less_has_no_effect_and_a_caution(quick: Path, threshold: int, warned: bool) -> None:
    """With t = 2 of 4, the sum would continue without client/2 and client/3; instead it begins again."""
    lost = "".join(f'[[fault]]\nparty = "client/{i}"\nbefore = "rowsums.reveal"\n' for i in (2, 3))
    quick.write_text(quick.read_text().split("[expect]")[0] + lost)
    scenario = load(quick, ["protocol.recovery=secure", "protocol.min_clients=2", f"protocol.threshold={threshold}"])
    assert (
        any("more than half of the clients in a sum are used instead" in line for line in cautions(scenario)) == warned
    )
    result = run(scenario, out=quick.parent / "run")
    assert {loss.party for loss in result.lost} == {"client/2", "client/3"}
    attempts = {row[0] for row in rows(result, "SELECT attempt FROM messages WHERE type = 'Summing'")}
    assert len(attempts) == (2 if warned else 1)
    assert result.outcome == ("completed" if warned else "aborted")


def test_an_average_in_a_graph_equals_that_of_a_complete_sum(tiny: Path) -> None:
    """With twelve clients, each with eight neighbours: the same models as in a complete sum, and no set-up."""
    changes = ("data.clients=12", "training.rounds=2", "training.min_clients=3")
    ran = {
        way: run(secure(tiny, *changes, f"training.averaging={way}"), out=tiny.parent / way)
        for way in ("secure", "secagg+")
    }
    assert ran["secure"].model_digest == ran["secagg+"].model_digest
    types = {row[0] for row in rows(ran["secagg+"], "SELECT DISTINCT type FROM messages")}
    assert {"FreshKeys", "Neighbours", "Revealed"} <= types and not types & {"Join", "Roster", "DealtKeys"}


def of_graphs(scenario: Scenario) -> list[str]:
    """The notes without that on the weights of models."""
    return [line for line in notes(scenario) if not line.startswith("training.weighting")]


def test_the_tolerance_of_a_graph_is_printed_and_checked(tiny: Path) -> None:
    changes = ["data.clients=12", "training.averaging=secagg+"]
    one = "2 may collude with the server"
    line = f"secagg+: 12 clients with k = 8 neighbours each, t = 5; {one}; tolerated losses never make a sum fail"
    assert of_graphs(secure(tiny, *changes))[0] == line
    line = "secagg+: complete graph of 4 clients, t = 3; 1 may collude with the server"
    assert of_graphs(secure(tiny, "training.averaging=secagg+"))[0] == line
    assert of_graphs(secure(tiny)) == []
    (line,) = of_graphs(secure(tiny, *changes, "sum.tolerated_dropouts=0", "sum.corrupt_clients=0"))
    assert line.startswith("secagg+: 12 clients with k = 2 neighbours each, t = 2")
    with pytest.raises(ScenarioError, match=r"sum\.tolerated_dropouts: 0\.9 .* allowed: less than 0\.9"):
        secure(tiny, *changes, "sum.tolerated_dropouts=0.9")


# --- compared with the oracle


@pytest.mark.parametrize("averaging", ["plain", "secure", "secagg+"])
@pytest.mark.parametrize("changes", [[], ["protocol.name=scaffold"], ["protocol.name=fedprop"]])
def test_each_secure_average_is_compared_with_that_of_the_survivors(
    tiny: Path, averaging: str, changes: list[str]
) -> None:
    crash = 'fault=[{party="client/1", after="train.update", round=2, back_after="1s"}]'
    uneven = ["training.weighting=points", "data.partition=dirichlet:0.5", "training.rounds=3", crash]
    result = run(secure(tiny, f"training.averaging={averaging}", *uneven, *changes), out=tiny.parent / "run")
    assert [one.equals_plaintext for one in result.round_records if not one.problem] and result.equals_plaintext
    assert {one.equals_plaintext for one in result.round_records} <= {True, None}


def test_a_run_with_a_wrong_sum_is_not_as_expected(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of a secure sum is wrong by 1/1000, in a scenario without [expect]."""
    decoded = secure_averages.decode

    def off(vector: bytes, layout: Layout) -> NDArray[np.floating]:
        found = decoded(vector, layout).copy()
        found[0] += 1e-3
        return found

    monkeypatch.setattr(secure_averages, "decode", off)
    scenario = secure(tiny, "expect={}")
    result = run(scenario, out=tiny.parent / "run")
    assert result.equals_plaintext is False
    assert result.unmet == ["the result is not equal to the plaintext oracle"]
    assert exit_code(result, scenario.expect) == 1
    page = report([result.folder])
    assert page.index("Not as expected") < page.index(">Completed<")


def test_too_many_models_to_keep_are_not_compared(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "MOST_HELD", 5000)  # less than four models of about 2.6 kB
    assert run(secure(tiny), out=tiny.parent / "run").equals_plaintext is None
