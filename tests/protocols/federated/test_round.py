"""Rounds of federated training with any losses: averages over the received models, and nothing hangs."""

import gc
import math
import struct
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tacit.parties.data.sets import Dataset, load
from tacit.parties.data.splits import Shard, shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalUpdate, Trained
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import average, decode
from tacit.parties.life import Present
from tacit.protocols.federated.algorithms import ALGORITHMS
from tacit.protocols.federated.averaging import Averaging, Plain, Record, Update
from tacit.protocols.federated.fedavg import FedAvgClient, LocalModel, TrainingRound
from tacit.protocols.federated.labellers import Across, Alone, NetworkLabeller, Once
from tacit.protocols.federated.method import Labeller, Method, Options, PseudoLabels
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.federated.round import TrainingClient, TrainingServer
from tacit.protocols.federated.secure_averages import Secure
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.recipe import AUTHORS_CODE
from tacit.protocols.xclp.xclp import Parameters
from tacit.sim.faults import Crash, Fault, Pause, Slow
from tacit.sim.world import World
from tests.protocols.federated.rounds import Rounds, run_rounds, training_settings

CLIENTS = 4
XCLP = Parameters(PlaintextHamming(256), CLIENTS, 10, bits=256, deadline=10.0)
PLAIN = Method()
SPEC = ModelSpec("linear", (1, 8, 8), 10)
SHARDS = shards(load("digits", 240), CLIENTS, "iid", 0.3, 1)
FIRST = jobs.initial(SPEC, 1)


def update(method: Method, **changes: Any) -> LocalUpdate:
    settings: dict[str, Any] = {"epochs": 1, "labeled_batch": 10, "learning_rate": 0.5, "device": "cpu", **changes}
    return LocalUpdate(additions=tuple(addition for addition, _ in method.additions), **settings)


def trained(
    method: Method,
    *faults: Fault,
    seed: int = 1,
    dealt: list[Shard] = SHARDS,
    opened: int | None = None,
    spec: ModelSpec = SPEC,
    **changes: Any,
) -> Rounds:
    """A run; the server opens `opened` rounds, by default the number that its clients agreed on."""
    settings = training_settings(
        spec, update(method), method, len(dealt), **{"rounds": 3, "min_clients": 2, "deadline": 10.0, **changes}
    )
    of_server = settings if opened is None else replace(settings, keys=structs.replace(settings.keys, rounds=opened))
    return run_rounds(settings, dealt, jobs.initial(spec, 1), faults, of_server=of_server, seed=seed)


def trained_alone(clients: list[TrainingClient]) -> list[Trained]:
    """The result of each client's training of the first model in round 1."""
    return [
        jobs.train(
            SPEC, FIRST, c.data(None), c.settings.update, 0, World(1).entropy(c.name, 1, 1, 1, "training").bytes(32)
        )
        for c in clients
    ]


def test_the_model_of_a_round_is_the_average_of_the_clients_trained_models() -> None:
    server, clients, records, _ = trained(PLAIN, rounds=1)
    models = trained_alone(clients)
    assert server.model == average([one.parameters for one in models])
    assert records[0].averaged == tuple(client.name for client in clients)
    assert records[0].loss == pytest.approx(np.mean([one.loss for one in models]))
    assert {client.ending for client in clients} == {"completed"}


@pytest.mark.parametrize("averaging", [Plain(), Secure()], ids=["plain", "secure"])
def test_a_model_is_weighted_by_its_number_of_training_points(averaging: Averaging) -> None:
    """McMahan et al. 2017, Algorithm 1, line 8, with clients of 3, 6, 9 and 12 labeled points."""
    sizes = [3 * (i + 1) for i in range(CLIENTS)]
    dealt = [
        Shard(s.features, s.labels, s.labeled & (s.labeled.cumsum() <= size), s.rows)
        for s, size in zip(SHARDS, sizes, strict=True)
    ]
    assert [shard.labeled.sum() for shard in dealt] == sizes
    server, clients, _, _ = trained(PLAIN, rounds=1, dealt=dealt, weighting="points", averaging=averaging)
    models = [decode(one.parameters).astype(np.float64) for one in trained_alone(clients)]
    expected = sum(size * model for size, model in zip(sizes, models, strict=True)) / sum(sizes)
    np.testing.assert_allclose(decode(server.model), expected, atol=1e-6)
    assert np.abs(expected - np.mean(models, axis=0)).max() > 1e-3  # equal weights would give the mean


def test_training_reaches_an_accuracy_above_that_of_the_first_model() -> None:
    server, clients, _, _ = trained(PLAIN, rounds=15)
    points = np.concatenate([client.shard.features for client in clients])
    labels = np.concatenate([client.shard.labels for client in clients])
    assert jobs.accuracy(SPEC, server.model, points, labels, "cpu") > 0.7
    assert jobs.accuracy(SPEC, FIRST, points, labels, "cpu") < 0.4


def test_a_client_lost_before_its_model_is_left_out_until_its_return() -> None:
    server, _, records, _ = trained(PLAIN, Crash("client/2", at="train.update", back_after=1.0))
    everyone = tuple(f"client/{i}" for i in range(CLIENTS))
    without = tuple(name for name in everyone if name != "client/2")
    assert [record.averaged for record in records] == [without, everyone, everyone]
    assert [loss.party for loss in server.lost] == ["client/2"]


def test_too_few_models_lose_the_round_and_keep_the_model() -> None:
    faults = [Crash(f"client/{i}", at="train.update") for i in range(3)]
    server, _, records, _ = trained(PLAIN, *faults)
    assert [record.averaged for record in records] == [(), (), ()]
    assert "1 client with trained models is left" in records[0].lost
    assert server.model == FIRST


@pytest.mark.parametrize("averaging", [Plain(), Secure()], ids=["plain", "secure"])
@pytest.mark.parametrize("least", [2, 3])
def test_only_models_that_were_trained_count_as_models_of_a_round(averaging: Averaging, least: int) -> None:
    """Two of the four clients have no label, so that their points get no pseudo-labels: they train nothing."""
    method, changes = Method(Alone(SPEC, 256, 5, 0.99)), {"rounds": 1, "averaging": averaging, "min_clients": least}
    dealt = [*SHARDS[:2], *(replace(shard, labeled=np.zeros_like(shard.labeled)) for shard in SHARDS[2:])]
    server, clients, records, _ = trained(method, dealt=dealt, **changes)
    assert records[0].cohort == tuple(client.name for client in clients)
    if least == 2:
        without = trained(method, dealt=dealt[:2], **changes).server
        np.testing.assert_allclose(decode(server.model), decode(without.model), atol=1e-6)
    else:
        assert "2 clients with trained models are left" in records[0].lost
        assert server.model == FIRST


@pytest.mark.parametrize("averaging", [Plain(), Secure()], ids=["plain", "secure"])
def test_clients_take_part_in_no_more_rounds_than_were_agreed_on(averaging: Averaging) -> None:
    _, _, records, _ = trained(PLAIN, rounds=2, opened=4, averaging=averaging)
    assert [len(record.averaged) for record in records] == [CLIENTS, CLIENTS, 0, 0]
    assert all(record.lost for record in records[2:])


def test_clients_that_wait_for_a_call_keep_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, report = [], TrainingServer.report

    def calls() -> list[TrainingRound]:
        return [one for one in gc.get_objects() if isinstance(one, TrainingRound)]

    earlier = calls()  # calls of other tests

    def reports(self: TrainingServer, record: Record) -> None:
        kept.append(sum(not any(one is other for other in earlier) for one in calls()))
        report(self, record)

    monkeypatch.setattr(TrainingServer, "report", reports)
    trained(PLAIN)
    assert kept == [0, 0, 0]


def test_a_lost_server_ends_the_clients() -> None:
    _, clients, _, _ = trained(PLAIN, Crash("server", at="train.average"))
    assert all(client.ending.startswith("no answer from the server") for client in clients)


def test_a_client_too_late_to_enrol_is_asked_again() -> None:
    _, _, records, _ = trained(PLAIN, Crash("client/1", at="train.enroll", back_after=10.0), rounds=6)
    assert "client/1" not in records[0].cohort
    assert "client/1" in records[-1].averaged


def test_only_clients_with_labels_train_on_labels_alone() -> None:
    bare = [
        Shard(s.features, s.labels, np.zeros_like(s.labeled), s.rows) if i == 3 else s for i, s in enumerate(SHARDS)
    ]
    _, _, records, _ = trained(PLAIN, dealt=bare, rounds=1)
    assert records[0].cohort == ("client/0", "client/1", "client/2")
    _, _, records, _ = trained(Method(NetworkLabeller(SPEC)), dealt=bare, rounds=1)
    assert records[0].averaged == ("client/0", "client/1", "client/2", "client/3")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_seed_gives_the_same_trace_and_model(name: str) -> None:
    make = partial(ALGORITHMS[name], Options(SPEC, XCLP, 1))
    (one, _, records, first), (two, _, _, second) = trained(make(), rounds=2), trained(make(), rounds=2)
    assert [record.lost for record in records] == ["", ""]
    assert first.trace.trace_hash == second.trace.trace_hash
    assert one.model == two.model != FIRST
    assert trained(make(), rounds=2, seed=2)[0].model != one.model


@pytest.mark.parametrize("name", UPDATES)
def test_a_server_update_goes_with_an_algorithm(name: str) -> None:
    base = ALGORITHMS["fedavg+network"](Options(SPEC, XCLP, 1))
    both = replace(base, additions=(*base.additions, *UPDATES[name]()))
    server, _, records, _ = trained(both, rounds=2)
    assert [len(record.averaged) for record in records] == [CLIENTS, CLIENTS]
    assert (server.model == trained(base, rounds=2)[0].model) == (name == "fedavg")


def test_the_bytes_of_a_model_are_sent_both_ways() -> None:
    _, _, _, world = trained(PLAIN, rounds=2)
    payload = {row.type: 0 for row in world.ledger.rows()}
    for row in world.ledger.rows():
        payload[row.type] += row.payload
    size = 4 * jobs.size(SPEC)
    assert payload["TrainingRound"] == 2 * CLIENTS * size
    assert payload["LocalModel"] == 2 * CLIENTS * (size + 16)  # weight and loss


def test_the_bytes_beside_a_model_do_not_grow_with_the_number_of_clients() -> None:
    envelopes = []
    for clients in (5, 60):
        dealt = shards(load("digits", 240), clients, "iid", 1.0, 1)
        _, _, records, world = trained(PLAIN, rounds=2, dealt=dealt)
        assert [len(record.averaged) for record in records] == [clients] * 2
        assert world.ledger.total("total") <= 1.1 * world.ledger.total("payload")
        rows = [row for row in world.ledger.rows() if "client/4" in (row.sender, row.receiver)]
        envelopes.append({row.type: row.envelope for row in rows})
    assert envelopes[0] == envelopes[1]
    assert set(envelopes[0]) == {"Enroll", "Enrolled", "TrainingRound", "LocalModel"}


@pytest.mark.long
def test_2500_clients_send_at_most_a_tenth_beside_models_of_840_bytes() -> None:
    rng = np.random.default_rng(1)
    points = Dataset("", rng.normal(size=(5000, 20)).astype(np.float32), np.arange(5000) % 10, 10)
    _, _, records, world = trained(
        PLAIN, rounds=5, dealt=shards(points, 2500, "iid", 1.0, 1), spec=ModelSpec("linear", (20,), 10)
    )
    assert [len(record.averaged) for record in records] == [2500] * 5
    payload = 5 * 2500 * (2 * 840 + 16)
    assert world.ledger.total("payload") == payload
    assert world.ledger.total("total") <= 1.1 * payload


@pytest.mark.parametrize("figures", [b"", bytes(15), struct.pack("<2d", -1.0, 0.0), struct.pack("<2d", math.nan, 0.0)])
def test_a_model_without_a_valid_weight_is_left_out(figures: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    send = FedAvgClient.send_update

    async def sends(self: FedAvgClient, update: Update) -> None:
        if self.name == "client/2":
            self.send(self.server, LocalModel(update.vectors[0], [], figures))
        else:
            await send(self, update)

    monkeypatch.setattr(FedAvgClient, "send_update", sends)
    server, _, records, _ = trained(PLAIN, rounds=1)
    assert records[0].averaged == ("client/0", "client/1", "client/3")
    assert [loss.party for loss in server.lost] == ["client/2"]


def test_the_control_of_scaffolds_server_moves_by_the_changes_over_all_clients() -> None:
    """Karimireddy et al. 2020, Algorithm 1, line 17: c + |S|/N mean(c_i+ - c_i), with one of N = 4 clients away."""
    lost = Crash("client/3", before="train.update")
    for averaging in (Plain(), Secure()):
        server, clients, records, _ = trained(
            Method(additions=UPDATES["scaffold"]()), lost, rounds=1, averaging=averaging
        )
        assert len(records[0].averaged) == 3
        changes = [one.sent[0] for one in trained_alone(clients[:3])]
        (control,) = server.state()["companions"]
        np.testing.assert_allclose(decode(control), sum(map(decode, changes)) / CLIENTS, atol=1e-6)


def test_scaffolds_control_is_the_mean_over_clients_also_after_a_return() -> None:
    """Karimireddy et al. 2020: c is the mean of all c_i, including that of a client's second incarnation."""
    back = Crash("client/1", before="train.update", occurrence=2, back_after=1.0)
    server, clients, records, _ = trained(Method(additions=UPDATES["scaffold"]()), back, rounds=6)
    assert ["client/1" in record.averaged for record in records] == [True, False, True, True, True, True]
    (control,) = server.state()["companions"]
    own = [decode(Present(clients)[client.name].disk["additions"][0]) for client in clients]
    np.testing.assert_allclose(decode(control), np.mean(own, axis=0), atol=1e-6)


def test_scaffold_sends_control_variates_beside_the_models() -> None:
    _, _, _, world = trained(Method(additions=UPDATES["scaffold"]()), rounds=2)
    sent = {row.type: 0 for row in world.ledger.rows()}
    for row in world.ledger.rows():
        sent[row.type] += row.payload
    model, control = 4 * jobs.size(SPEC), 4 * jobs.trained_size(SPEC)
    assert sent["LocalModel"] == 2 * CLIENTS * (model + control + 16)
    assert sent["TrainingRound"] == CLIENTS * (2 * model + control)  # in the first round there is no variate yet


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold"])
def test_a_secure_sum_gives_the_same_average_and_shows_no_model(name: str) -> None:
    method = Method(additions=UPDATES[name]())
    plain = trained(method, rounds=2, weighting="points")[0]
    server, _, records, world = trained(method, rounds=2, weighting="points", averaging=Secure())
    assert [record.averaged for record in records] == [tuple(f"client/{i}" for i in range(CLIENTS))] * 2
    np.testing.assert_allclose(decode(server.model), decode(plain.model), atol=1e-6)
    assert "LocalModel" not in {row.type for row in world.ledger.rows()}


def test_a_secure_sum_continues_without_a_client_lost_in_the_sum() -> None:
    fault = Crash("client/2", after="sum.mask")
    server, _, records, _ = trained(Method(Across(SPEC, XCLP)), fault, rounds=2, averaging=Secure())
    assert [len(record.averaged) for record in records] == [CLIENTS, CLIENTS - 1]
    # Once for the second round, not once for each part of the protocol.
    assert [loss.party for loss in server.lost] == ["client/2"]
    fault = Crash("client/2", at="sum.mask", back_after=1.0)
    _, _, records, _ = trained(PLAIN, fault, rounds=2, averaging=Secure())
    assert records[0].averaged == ("client/0", "client/1", "client/3")
    assert len(records[1].averaged) == CLIENTS


def test_fedmatch_with_a_secure_sum_is_refused() -> None:
    with pytest.raises(ValueError, match="hides what the algorithm needs"):
        trained(ALGORITHMS["fedmatch"](Options(SPEC, XCLP, 1)), averaging=Secure())


@pytest.mark.parametrize(
    "labeller",
    [
        NetworkLabeller(SPEC),
        NetworkLabeller(SPEC, AUTHORS_CODE),
        Alone(SPEC, 256, 5, 0.99),
        Across(SPEC, XCLP),
        Once(NetworkLabeller(SPEC)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_pseudo_labels_bring_unlabeled_points_into_training(labeller: Labeller) -> None:
    server, _, records, _ = trained(Method(labeller), rounds=3, label_from=2)
    assert [len(record.averaged) for record in records] == [CLIENTS] * 3
    assert server.model != trained(PLAIN, rounds=3)[0].model


def test_points_of_rare_classes_count_more_where_class_weights_are_asked_for() -> None:
    """The factor n / (C count) of the client's own labels and pseudo-labels, times the weight without it; computed
    plainly."""
    shard, random = SHARDS[0], np.random.default_rng(1)
    pseudo = PseudoLabels(random.integers(-1, 10, len(shard.labels)), random.random(len(shard.labels), np.float32))
    _, plain, _, _ = trained(PLAIN, rounds=1)
    _, weighted, _, _ = trained(PLAIN, rounds=1, class_weights="own")
    one, other = plain[0].data(pseudo), weighted[0].data(pseudo)
    assert one.labels.tolist() == other.labels.tolist()
    found = [label for label in one.labels.tolist() if label >= 0]
    for label, before, after in zip(one.labels.tolist(), one.weights, other.weights, strict=True):
        factor = len(found) / (10 * found.count(label)) if label >= 0 else 0.0
        assert after == pytest.approx(factor * before, rel=1e-6)
    # Without pseudo-labels there are no class weights.
    assert weighted[0].data(None).weights.tolist() == plain[0].data(None).weights.tolist()
    server, *_ = trained(Method(Alone(SPEC, 256, 5, 0.99)), class_weights="own")
    assert server.model != trained(Method(Alone(SPEC, 256, 5, 0.99)))[0].model


def test_a_client_lost_during_label_propagation_is_left_out_of_the_round() -> None:
    _, _, records, _ = trained(Method(Across(SPEC, XCLP)), Crash("client/1", at="hamming.evaluate", back_after=1.0))
    assert "client/1" not in records[0].averaged
    assert "client/1" in records[1].averaged


def test_a_round_is_lost_if_its_label_propagation_fails() -> None:
    faults = [Crash(f"client/{i}", at="rowsums.mask") for i in range(2)]
    _, _, records, _ = trained(Method(Across(SPEC, XCLP)), *faults, rounds=1)
    assert "clients with labels are left" in records[0].lost


@pytest.mark.parametrize("lasts", [25.0, None], ids=["for two rounds", "for good"])
@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
def test_a_straggler_abandons_a_past_round_and_joins_the_next_once_fast_again(name: str, lasts: float | None) -> None:
    method = Method(additions=UPDATES[name]()) if name == "scaffold" else PLAIN
    slow = Slow(party="client/1", factor=1e6, before="train.update", lasts=lasts)
    server, clients, records, world = trained(method, slow, rounds=6)
    others = tuple(client.name for client in clients if client.name != "client/1")
    assert [record.averaged for record in records[:2]] == [others] * 2
    assert not any(record.lost for record in records)
    if lasts is None:
        assert all(record.averaged == others for record in records)
        assert clients[1].ending.startswith("dismissed: your model did not come")
        assert world.loop.time() < 61.0  # no wait for it was longer than each round's deadline
    else:
        assert all(record.averaged == tuple(client.name for client in clients) for record in records[3:])
        assert clients[1].ending == "completed"
    assert {loss.party for loss in server.lost} == {"client/1"}


def test_a_dismissed_straggler_joins_a_later_round_once_fast_again() -> None:
    stops = [
        Slow(party="client/1", factor=1e6, before=step, lasts=lasts)
        for step, lasts in (("hamming.evaluate", 22.0), ("train.update", 25.0))
    ]
    _, clients, records, _ = trained(Method(Across(SPEC, XCLP)), *stops, rounds=8)
    everybody = tuple(client.name for client in clients)
    assert "client/1" not in {name for record in records[:3] for name in record.averaged}
    assert records[-1].averaged == everybody
    assert clients[1].ending == "completed"


@pytest.mark.parametrize("averaging", [Plain(), Secure()], ids=["plain", "secure"])
def test_a_client_paused_for_rounds_skips_the_past_ones(averaging: Averaging) -> None:
    pause = Pause(party="client/1", before="train.update", lasts=25.0)
    settings = {"rounds": 6, "averaging": averaging, "deadline": 10.0}
    _, clients, records, _ = trained(PLAIN, pause, **settings)
    without, everybody = records[0].averaged, tuple(client.name for client in clients)
    assert without == tuple(name for name in everybody if name != "client/1")
    assert records[-1].averaged == everybody
    assert not any(record.lost for record in records)
    assert all(client.ending == "completed" for client in clients)
