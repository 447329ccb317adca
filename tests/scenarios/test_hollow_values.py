"""Values that parties compare: in a prediction each is unlike the others wherever those of a run differ.

One test for each comparison: of the values that begin a client's rounds (`refusal.may_answer`), and of the bases of the
batches that a helper releases (`reports.Reports`).
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tacit.protocols.cotraining import round as cotraining
from tacit.protocols.federated import round as federated
from tacit.protocols.sums import refusal, reports
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario, SumKeys
from tests.scenarios.predictions import measured, predicted_bytes, small

ROUNDS = 3
SUMS = ("secure", "secagg+", "lightsecagg", "committee", "flamingo", "prio3")


def averages(protocol: str, averaging: str, **training: Any) -> Scenario:
    plain = small(protocol)
    sums = SumKeys(value_bits=3 if averaging == "prio3" else 8, corrupt_clients=0.0, tolerated_dropouts=0.1)
    changed = structs.replace(plain.training, rounds=ROUNDS, averaging=averaging, **({"min_clients": 2} | training))
    signed, data = structs.replace(plain.protocol, identity="signed"), structs.replace(plain.data, clients=8)
    return structs.replace(plain, training=changed, sum=sums, protocol=signed, data=data)


def votes(kind: Any, consensus: Any = "majority", loss: float = 0.0) -> Scenario:
    plain = small("fedct")
    cotrained = structs.replace(plain.cotraining, rounds=ROUNDS, votes=kind, consensus=consensus)
    return structs.replace(plain, cotraining=cotrained, network=structs.replace(plain.network, loss=loss))


ROUNDS_OF_CLIENTS = {
    **{f"fedavg {name}": averages("fedavg", name) for name in SUMS},
    "scaffold secure": averages("scaffold", "secure"),
    **{f"fedct {kind} {by}": votes(kind, by) for kind in ("secure", "prio3") for by in ("majority", "qualified")},
}


@pytest.mark.parametrize("name", ROUNDS_OF_CLIENTS)
def test_each_round_of_a_prediction_begins_with_a_value_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: dict[tuple[str, bytes], int] = {}

    def may_answer(me: Any, basis: bytes, **options: Any) -> bool:
        content = bytes(getattr(basis, "token", basis))
        assert begun.setdefault((me.name, content), me.round) == me.round
        return refusal.may_answer(me, basis, **options)

    for module in (federated, cotraining):
        monkeypatch.setattr(module, "may_answer", may_answer)
    assert predict_run(ROUNDS_OF_CLIENTS[name]).outcome == "completed"
    assert len(begun) >= ROUNDS * 4


def test_each_batch_of_a_prediction_has_a_basis_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    released, problem = [], reports.Reports._problem

    def compared(self: Any, me: Any, settings: Any, wanted: Any, nonces: Any, basis: bytes) -> str:
        released.append(basis)
        return problem(self, me, settings, wanted, nonces, basis)

    monkeypatch.setattr(reports.Reports, "_problem", compared)
    assert predict_run(averages("fedavg", "prio3")).outcome == "completed"
    assert len(set(released)) == len(released) == ROUNDS


def test_a_prediction_of_secure_votes_over_lossy_links_loses_nobody_whom_the_run_keeps() -> None:
    scenario = votes("secure", loss=0.05)
    longer = structs.replace(scenario, cotraining=structs.replace(scenario.cotraining, rounds=12))
    found = predict_run(longer)
    sent, seconds = measured(longer)
    assert not found.lost
    assert predicted_bytes(found) == sent
    assert found.virtual_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kind", "weight", "refused"),
    [("scaled", 1, False), ("scaled", 3000, True), ("noise", 0.001, False), ("noise", 3, True)],
)
def test_reports_of_byzantine_clients_are_predicted_to_be_refused_where_they_are(
    kind: Any, weight: float, refused: bool
) -> None:
    scenario = averages("fedavg", "prio3")
    false = structs.replace(scenario.byzantine, clients=1, kind=kind, weight=weight)
    scenario = structs.replace(scenario, byzantine=false, data=structs.replace(scenario.data, clients=5))
    found = predict_run(scenario)
    assert ("client/4" in {loss.party for loss in found.lost}) is refused
    assert predicted_bytes(found) == measured(scenario)[0]


SIGNED = """
title = "signed"
seed = 77
engine = "inline"
[data]
name = "digits"
clients = 13
labeled = 1.0
limit = 130
[model]
name = "linear"
[protocol]
name = "fedavg"
identity = "signed"
[training]
rounds = 2
epochs = 1
[sum]
value_bits = 8
clip = 2.5
tolerated_dropouts = 0.25
[[client]]
name = "client/1*"
preset = "3g"
"""
"""Four of thirteen clients are slow, so that the time of a round depends on who of them is drawn."""


@pytest.mark.parametrize(("averaging", "crash"), [("committee", "sum.hold"), ("flamingo", "")])
def test_members_of_a_signed_sum_are_predicted(averaging: str, crash: str, tmp_path: Path) -> None:
    """Hollow signatures are unlike those of a run, so nothing that is drawn may depend on them."""
    file = tmp_path / "signed.toml"
    fault = f'[[fault]]\nkind = "crash"\nparty = "client/2"\nat = "{crash}"\nround = 1\n' if crash else ""
    file.write_text(SIGNED + fault)
    corrupt = 0.1 if averaging == "committee" else 0.05
    scenario = load(file, [f"training.averaging={averaging}", f"sum.corrupt_clients={corrupt}"])
    found = predict_run(scenario)
    with closing(Simulation(scenario, engine="inline")) as simulation:
        lost = simulation.run().lost
    assert found.virtual_seconds == pytest.approx(simulation.now, rel=1e-9)
    assert [(one.party, one.step, one.round) for one in found.lost] == [
        (one.party, one.step, one.round) for one in lost
    ]
    assert bool(found.lost) is bool(crash)  # the client is a member
