"""DP-FedCT, PATE and DP-PATE against a few lines of numpy, and against their results without noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.parties.data.splits import Shard
from tacit.parties.playing import play
from tacit.protocols.cotraining import packing
from tacit.protocols.cotraining.consensus import majority
from tacit.protocols.cotraining.experiment import ALGORITHMS, Options
from tacit.protocols.cotraining.fedct import HardLabels, NoisyLabels
from tacit.protocols.cotraining.local_training import Public
from tacit.protocols.cotraining.pate import NoisyTeachers, Teachers
from tacit.protocols.cotraining.round import CotrainingClient, CotrainingServer, CotrainingSettings
from tacit.protocols.privacy.noise import gaussian, laplace
from tacit.protocols.privacy.xor_mechanism import epsilon_of, flip_probability
from tacit.sim.compute import Work
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Crash, Fault
from tacit.sim.latency import parse_latency
from tacit.sim.streams import Entropy, derive
from tacit.sim.world import World

SEEDS = [derive(1, "client", i) for i in range(9)]
SERVER = derive(1, "server")


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """A strategy for the labels (m, n) of m clients for n points, and the number of classes."""
    clients, points, classes = draw(st.integers(1, 9)), draw(st.integers(1, 30)), draw(st.integers(2, 11))
    values = draw(st.lists(st.integers(0, classes - 1), min_size=clients * points, max_size=clients * points))
    return np.array(values).reshape(clients, points), classes


def shared(way: HardLabels, labels: np.ndarray, classes: int) -> tuple[list[bytes], np.ndarray]:
    """The messages of each client, and the resulting labels."""
    sent = [way.send(one, None, classes, seed) for one, seed in zip(labels, SEEDS, strict=False)]
    points = labels.shape[1]
    for one in sent:
        way.check(one, points, classes)
        assert len(one) == way.size(points, classes)
    merged = way.merge(sent, points, classes, SERVER)
    assert len(merged) == way.merged_size(points, classes)
    return sent, way.receive(merged, points, classes).labels


def bits_of(sent: bytes, points: int, classes: int) -> np.ndarray:
    flat = [(byte >> place) & 1 for byte in sent for place in range(8)]
    return np.array(flat[: points * classes]).reshape(points, classes)


@given(labelled(), st.sampled_from(["majority", "qualified"]), st.floats(0.05, 1.0))
def test_without_noise_dp_fedct_and_dp_pate_equal_fedct_and_pate(
    given_labels: tuple[np.ndarray, int], consensus: str, quorum: float
) -> None:
    labels, classes = given_labels
    plain = shared(HardLabels(consensus, quorum), labels, classes)[1]  # type: ignore[arg-type]
    private = shared(NoisyLabels(consensus, quorum, 0.0), labels, classes)[1]  # type: ignore[arg-type]
    assert np.array_equal(plain, private)
    sent, taught = shared(Teachers(), labels, classes)
    same_sent, same = shared(HardLabels(), labels, classes)
    assert sent == same_sent and np.array_equal(taught, same)
    noisy_sent, noisy_taught = shared(NoisyTeachers(sigma=0.0), labels, classes)
    assert noisy_sent == sent and np.array_equal(noisy_taught, taught)


@given(labelled(), st.floats(0.01, 0.49))
def test_the_consensus_is_the_most_noisy_bits_and_ties_are_drawn(
    given_labels: tuple[np.ndarray, int], flip: float
) -> None:
    labels, classes = given_labels
    clients, points = labels.shape
    sent, found = shared(NoisyLabels(flip=flip), labels, classes)
    counts = sum(bits_of(one, points, classes) for one in sent)
    assert all(counts[i, label] == counts[i].max() for i, label in enumerate(found))
    sent, found = shared(NoisyLabels("qualified", 0.6, flip), labels, classes)
    votes = (counts - clients * flip) / (1 - 2 * flip)
    enough = votes.max(1) >= np.ceil(0.6 * clients - 1e-9) - 1e-9
    assert np.array_equal(found >= 0, enough)
    assert all(counts[i, label] == counts[i].max() for i, label in enumerate(found) if label >= 0)


def test_bits_flip_with_the_stated_probability_and_anew_with_each_seed() -> None:
    labels, flip = np.arange(3000) % 10, flip_probability(10_000, 6_000)
    way = NoisyLabels(flip=flip)
    one_hot = np.eye(10, dtype=int)[labels]
    first, again = (bits_of(way.send(labels, None, 10, seed), 3000, 10) for seed in SEEDS[:2])
    assert abs((first != one_hot).mean() - flip) < 0.01
    assert abs((first != again).mean() - 2 * flip * (1 - flip)) < 0.01
    assert epsilon_of(flip, 6_000) == pytest.approx(10_000)
    assert way.size(3000, 10) == 3750 and way.size(3, 3) == 2


def test_ties_are_drawn_without_favouring_a_class() -> None:
    labels = np.zeros((5, 20_000), np.int64)
    found = shared(NoisyLabels(flip=0.5), labels, 10)[1]
    # If ties went to the lowest class, class 9 would have almost none.
    assert np.bincount(found, minlength=10).min() > 1700
    assert (shared(NoisyLabels("qualified", 0.9, 0.5), labels, 10)[1] == -1).all()


def test_votes_estimated_from_flipped_bits_are_unbiased() -> None:
    labels = np.zeros((9, 20_000), np.int64)
    flip = 0.3
    counts = sum(bits_of(one, 20_000, 4) for one in shared(NoisyLabels(flip=flip), labels, 4)[0])
    votes = (counts - 9 * flip) / (1 - 2 * flip)
    assert np.abs(votes.mean(axis=0) - [9, 0, 0, 0]).max() < 0.1


def test_dp_pate_takes_the_largest_noisy_count() -> None:
    labels = np.random.default_rng(0).integers(0, 4, (7, 500))
    sent, found = shared(NoisyTeachers(sigma=2.0), labels, 4)
    counts = np.stack([(labels == c).sum(axis=0) for c in range(4)], axis=1)
    expected = (counts + 2.0 * gaussian((500, 4), Entropy(SERVER))).argmax(axis=1)
    assert np.array_equal(found, expected)
    assert not np.array_equal(found, counts.argmax(axis=1))
    assert sent == [packing.pack(one, 4) for one in labels]


def test_laplace_noise_on_the_votes_has_its_scale() -> None:
    labels = np.random.default_rng(0).integers(0, 4, (7, 500))
    _, found = shared(NoisyTeachers(sigma=0.5, noise="laplace"), labels, 4)
    counts = np.stack([(labels == c).sum(axis=0) for c in range(4)], axis=1)
    assert np.array_equal(found, (counts + 0.5 * laplace((500, 4), Entropy(SERVER))).argmax(axis=1))
    drawn = np.sort(laplace((40_000,), Entropy(SERVER)))
    exact = np.where(drawn < 0, np.exp(-np.abs(drawn)) / 2, 1 - np.exp(-np.abs(drawn)) / 2)
    assert np.abs(exact - (np.arange(40_000) + 0.5) / 40_000).max() < 0.01  # Kolmogorov-Smirnov: 0.0068 in 95 %


def test_only_fedct_is_collaborative_and_pate_trains_a_student() -> None:
    options = Options(flip=0.25, sigma=3.0)
    noisy, pate, dp_pate = (ALGORITHMS[name](options).sharing for name in ("dp-fedct", "pate", "dp-pate"))
    assert noisy == NoisyLabels(flip=0.25) and noisy.collaborative
    assert not pate.collaborative and not dp_pate.collaborative
    assert dp_pate == NoisyTeachers(sigma=3.0)


def test_invalid_settings_and_messages_are_refused() -> None:
    for make in (lambda: NoisyLabels(flip=0.6), lambda: NoisyTeachers(sigma=-1.0), lambda: NoisyLabels(quorum=0.0)):
        with pytest.raises(ValueError, match=r"\(="):
            make()
    way = NoisyLabels(flip=0.1)
    with pytest.raises(ValueError, match="not in"):
        way.send(np.array([3]), None, 3, SEEDS[0])
    with pytest.raises(ValueError, match="2 bytes, not the 1"):
        way.check(b"ab", 2, 3)
    with pytest.raises(ValueError, match="nobody"):
        way.merge([], 2, 3, SERVER)


# --- in a round


@dataclass(frozen=True)
class Nearest:
    """Predicts the label of the nearest point; its state is its latest training data."""

    warm: bool = False

    def initial(self, seed: int | bytes) -> bytes:
        return b""

    def fit(self, state: bytes, points: Any, labels: Any, seed: int | bytes) -> bytes:
        return np.column_stack([points, labels]).astype("<f8").tobytes()

    def predict(self, state: bytes, points: Any) -> Any:
        known = np.frombuffer(state, "<f8").reshape(-1, points.shape[1] + 1)
        return known[((points[:, None] - known[None, :, :-1]) ** 2).sum(2).argmin(1), -1].astype(np.int64)

    def fit_work(self, points: int) -> Work:
        return {}

    def predict_work(self, points: int) -> Work:
        return {}


def perform_round(name: str, options: Options, *faults: Fault) -> tuple[CotrainingServer, list[Shard], Public, World]:
    """A round of an algorithm among four clients, held by a server."""
    dice = np.random.default_rng(5)
    everything = np.ones(8, bool)
    shards = [Shard(dice.normal(size=(8, 2)), dice.integers(0, 3, 8), everything, np.arange(8)) for _ in range(4)]
    public = Public(dice.normal(size=(50, 2)), np.full(50, -1))
    learner: Any = Nearest()
    settings = CotrainingSettings(ALGORITHMS[name](options), (learner,) * 4, learner, public, 3, deadline=10.0)
    world = World(1, conditions=Conditions(latency=parse_latency("5ms")), faults=faults)
    clients = [CotrainingClient(world, f"client/{i}", shard, settings) for i, shard in enumerate(shards)]
    server = CotrainingServer(world, [client.name for client in clients], settings)
    try:
        world.loop.run(play([server, *clients], server))
    finally:
        world.loop.finish()
    return server, shards, public, world


def test_a_round_of_dp_fedct_is_the_votes_on_bits_flipped_by_each_clients_own_entropy() -> None:
    flip = 0.2
    server, shards, public, world = perform_round("dp-fedct", Options(flip=flip))
    counts = np.zeros((50, 3), int)
    for i, shard in enumerate(shards):
        near = ((public.points[:, None] - shard.points) ** 2).sum(2).argmin(1)
        seed = World(1).entropy(f"client/{i}", 1, 1, 1, "sharing").bytes(32)
        words = Entropy(seed).array((50, 3)).astype(object)
        counts += np.eye(3, dtype=int)[shard.labels[near]] ^ (words < flip * 2**64).astype(int)
    agreed = packing.unpack(server.agreed, 50, 3)
    assert all(counts[i, label] == counts[i].max() for i, label in enumerate(agreed))
    clear = counts.max(1) > np.sort(counts, axis=1)[:, -2]
    assert clear.sum() > 10 and np.array_equal(agreed[clear], counts.argmax(1)[clear])
    sent = {row.type: row.payload for row in world.ledger.rows()}
    assert sent["LocalPredictions"] in (19, 4 * 19)  # 150 bits, a row or all of them


def test_a_round_of_dp_pate_teaches_a_student_at_the_server_and_sends_nothing_back() -> None:
    server, shards, public, world = perform_round("dp-pate", Options(sigma=1.5))
    labels = [s.labels[((public.points[:, None] - s.points) ** 2).sum(2).argmin(1)] for s in shards]
    counts = np.stack([(np.stack(labels) == c).sum(0) for c in range(3)], axis=1)
    noise = gaussian((50, 3), Entropy(World(1).entropy("server", 1, 1, 1, "agreeing").bytes(32)))
    taught = (counts + 1.5 * noise).argmax(1)
    assert np.array_equal(packing.unpack(server.agreed, 50, 3), taught)
    # It was trained on these points only.
    assert np.array_equal(Nearest().predict(server.student, public.points), taught)
    assert {row.receiver for row in world.ledger.rows() if row.type == "LocalPredictions"} == {"server"}
    assert next(row.payload for row in world.ledger.rows() if row.type == "CotrainingRound") < 60


@pytest.mark.parametrize("name", ["dp-fedct", "pate", "dp-pate"])
@pytest.mark.parametrize("step", ["cotrain.learn", "cotrain.predict"])
def test_a_client_that_is_lost_is_left_out_of_the_consensus(name: str, step: str) -> None:
    server, shards, public, _ = perform_round(name, Options(), Crash("client/2", at=step))
    left = [s for i, s in enumerate(shards) if i != 2]
    labels = [s.labels[((public.points[:, None] - s.points) ** 2).sum(2).argmin(1)] for s in left]
    assert [loss.party for loss in server.lost] == ["client/2"]
    assert np.array_equal(packing.unpack(server.agreed, 50, 3), majority(np.stack(labels), 3))
