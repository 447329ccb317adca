"""Runs of private cells: compared with the oracle, with losses and refusals, and the reported budget."""

import math
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from tacit import Cells, Data, Fault, Network, Privacy, ProtocolKeys, Scenario, ScenarioError, load
from tacit.benchmarks.attacks.cells import audit
from tacit.protocols.cells.cells import CellLabels, CellsServer, Centres
from tacit.protocols.cells.declaration import plan_of
from tacit.protocols.cells.mechanism import Plan
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.setting_error import Problem

SMALL = Scenario(
    seed=4,
    engine="inline",
    entropy="os",
    data=Data(name="digits", clients=4, labeled=0.5, limit=80),
    protocol=ProtocolKeys(name="private-cells", min_clients=3, deadline="10s"),
    cells=Cells(count=4, steps=1),
    privacy=Privacy(epsilon=8.0, clip=5.0),
    network=Network(latency="5ms"),
)


def simulated(scenario: Scenario):
    """The simulation and its result."""
    simulation = Simulation(scenario, engine="inline")
    try:
        return simulation, simulation.run()
    finally:
        simulation.close()


@pytest.mark.parametrize("entropy", ["os", "seeded"])
def test_every_released_sum_and_label_equals_the_oracle(entropy: str) -> None:
    simulation, found = simulated(structs.replace(SMALL, entropy=entropy))
    assert (found.outcome, found.equals_plaintext, found.lost) == ("completed", True, [])
    assert len(found.output) == 4 * 64 + 4 and len(found.predictions) == 80
    assert found.privacy is not None and found.privacy.epsilon == pytest.approx(8.0, rel=1e-6)
    assert (found.privacy.rounds, found.privacy.planned) == (3, 3)
    assert found.privacy.guaranteed == (entropy == "os")
    released = simulation.server.released
    observer = simulation._experiment.observer
    for change in ({"ring": released[1].ring + np.uint64(1)}, {"centres": released[1].centres + 1e-12}):
        simulation.server.released = [released[0], replace(released[1], **change), *released[2:]]
        assert observer.equals_oracle() is False
    simulation.server.released = released
    assert observer.equals_oracle() is True


@pytest.mark.parametrize(
    ("step", "occurrence", "outcome"),
    [("sum.mask", 1, "completed"), ("cells.add", 3, "completed"), ("cells.label", 1, "completed")],
)
def test_a_lost_client_leaves_the_result_equal_to_the_oracle(step: str, occurrence: int, outcome: str) -> None:
    fault = Fault(kind="crash", party="client/2", at=step, occurrence=occurrence)
    _, found = simulated(structs.replace(SMALL, fault=(fault,)))
    assert (found.outcome, found.equals_plaintext) == (outcome, True)
    assert [loss.party for loss in found.lost] == ["client/2"]


def test_a_client_that_receives_the_end_of_a_sum_late_is_in_the_next_sum() -> None:
    """Both are received at one time after a pause, or after a stream has waited for a lost segment."""
    fault = Fault(kind="pause", party="client/3", after="sum.reveal", lasts="2s")
    simulation, found = simulated(structs.replace(SMALL, fault=(fault,)))
    assert (found.outcome, found.equals_plaintext, found.lost) == ("completed", True, [])
    assert [len(one.contributors) for one in simulation.server.released] == [4, 4, 4]


def test_with_too_few_clients_a_run_is_aborted_and_charged_for_its_requests() -> None:
    faults = tuple(Fault(kind="crash", party=f"client/{i}", at="sum.mask", occurrence=2) for i in (1, 2))
    _, found = simulated(structs.replace(SMALL, fault=faults))
    assert found.outcome == "aborted" and found.equals_plaintext is None and found.output is None
    assert found.privacy is not None and found.privacy.rounds == 2
    assert 0 < found.privacy.epsilon < 8.0


def test_without_noise_labels_by_cells_are_accurate() -> None:
    kept = Privacy(epsilon="none", clip=5.0)
    plain = structs.replace(SMALL, entropy="seeded", privacy=kept, cells=Cells(count=10, steps=3))
    _, found = simulated(structs.replace(plain, data=structs.replace(SMALL.data, limit=240)))
    assert found.equals_plaintext and found.accuracy is not None and found.accuracy > 0.6
    assert found.privacy is not None and found.privacy.epsilon is None


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("cells.colluding", "3", "0 to 1, so that protocol.min_clients = 3"),
        ("privacy.clip", "1e9", "0.001 to 1e6"),
        ("cells.radius", "1e-9", "0.001 to 1e6"),
        ("data.clients", "2", "3 (protocol.min_clients) or more"),
    ],
)
def test_incompatible_keys_are_refused(key: str, value: str, said: str) -> None:
    settings = ["protocol.min_clients=3", "data.limit=40", "fault=[]", "expect={}", f"{key}={value}"]
    with pytest.raises((ScenarioError, Problem), match=said.replace("(", r"\(").replace(")", r"\)")):
        Simulation(load("private-cells", settings), engine="inline").close()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda one: Centres(one.values[:-8]) if isinstance(one, Centres) else one,
        lambda one: Centres(b"\xff" * len(one.values)) if isinstance(one, Centres) else one,
        lambda one: CellLabels(b"\xff" * len(one.labels)) if isinstance(one, CellLabels) else one,
        lambda one: CellLabels(one.labels[:-2]) if isinstance(one, CellLabels) else one,
        lambda one: CellLabels(b"") if isinstance(one, CellLabels) else one,
        lambda one: CellLabels(b"1") if isinstance(one, CellLabels) else one,
    ],
)
def test_clients_refuse_invalid_values(monkeypatch: pytest.MonkeyPatch, wrong) -> None:
    """The client ends with the invalid value as reason, and the run does not fail."""
    monkeypatch.setattr(CellsServer, "broadcast", lambda me, names, message: me.send_each(names, wrong(message)))
    _, found = simulated(SMALL)
    assert all("sent invalid values" in ending for ending in found.endings.values())


def test_the_audit_refutes_only_noise_that_is_too_small() -> None:
    right, wrong = audit(8.0, 60), audit(8.0, 60, factor=0.4)
    assert not right.refuted and wrong.refuted
    assert wrong.least_mu > wrong.mu == right.mu > right.least_mu


def test_the_audit_has_the_mu_of_the_plan_with_the_fewest_noise_parts() -> None:
    """Its plan is the mechanism's, and the noise known to a colluding client does not count."""
    assert Plan.of(
        epsilon=8.0, delta=1e-5, count=2, steps=2, dimension=4, classes=3, clip=1.0, radius=0.5, sums_share=0.6, parts=2
    ).mu == pytest.approx(audit(8.0, 2).mu)


def test_the_stated_delta_includes_the_sampling_error() -> None:
    """The error is 2^-46 per number and client, times (1 + e^epsilon); rounding is far below that."""
    _, found = simulated(SMALL)
    plan, clients = plan_of(SMALL, 64, 10), SMALL.data.clients
    numbers = sum(plan.size(number) for number in range(1, plan.sums + 1))
    assert plan.sampling_error(plan.sums, clients) == pytest.approx(numbers * clients * 2.0**-46, rel=1e-3)
    assert found.privacy is not None and found.privacy.epsilon is not None
    added = (1 + math.exp(found.privacy.epsilon)) * numbers * clients * 2.0**-46
    assert found.privacy.delta == pytest.approx(1e-5 + added, rel=1e-6) and found.privacy.delta > 1e-5
