"""Rounds of co-training with any losses: they equal a plain loop over the same learners, and nothing hangs."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.parties.data.sets import load
from tacit.parties.data.splits import Shard, shards
from tacit.parties.learning.learner import Learner, NetworkLearner
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.playing import play
from tacit.protocols.cotraining.experiment import ALGORITHMS, Options
from tacit.protocols.cotraining.keys import ConsensusKeys
from tacit.protocols.cotraining.local_training import Public
from tacit.protocols.cotraining.packing import unpack
from tacit.protocols.cotraining.round import (
    CotrainingClient,
    CotrainingServer,
    CotrainingSettings,
    LocalPredictions,
    Record,
)
from tacit.protocols.registry import PROTOCOLS
from tacit.sim.compute import Engine
from tacit.sim.conditions import Conditions
from tacit.sim.engines import make_engine
from tacit.sim.faults import Crash, Fault, Slow
from tacit.sim.latency import parse_latency
from tacit.sim.streams import derive
from tacit.sim.world import World

STEPS = [step for step in PROTOCOLS["fedct"].steps if "only with" not in step.what]
CLIENTS, CLASSES, POINTS = 4, 10, 60

_WHOLE = load("digits", 240)
PUBLIC = Public(_WHOLE.points[:POINTS], _WHOLE.labels[:POINTS])
SHARDS = shards(_WHOLE.take(slice(POINTS, 240)), CLIENTS, "iid", 0.3, 1)


@dataclass(frozen=True)
class Centroids:
    """A learner that predicts the class with the nearest mean. State: counts and sums by class."""

    warm: bool = False
    classes: int = CLASSES
    dimension: int = 64

    def initial(self, seed: int | bytes) -> bytes:
        return bytes(8 * self.classes * (1 + self.dimension))

    def fit(self, state: bytes, points: Any, labels: Any, seed: int | bytes) -> bytes:
        return self.fit_soft(state, points, np.eye(self.classes, dtype=np.float32)[labels], seed)

    def fit_soft(self, state: bytes, points: Any, targets: Any, seed: int | bytes) -> bytes:
        known = np.frombuffer(state).reshape(self.classes, -1) if self.warm else 0.0
        shares = np.asarray(targets, np.float64)
        found: bytes = (known + np.column_stack([shares.sum(0), shares.T @ points])).tobytes()
        return found

    def predict(self, state: bytes, points: Any) -> NDArray[np.int64]:
        return self.probabilities(state, points).argmax(1)

    def probabilities(self, state: bytes, points: Any) -> NDArray[np.float32]:
        table = np.frombuffer(state).reshape(self.classes, -1)
        counts = np.maximum(table[:, :1], 1e-9)
        distances = ((points[:, None, :] - (table[:, 1:] / counts)[None]) ** 2).mean(2)
        distances[:, table[:, 0] == 0] = 1e3
        scores = np.exp(-distances / 10)
        return (scores / scores.sum(1, keepdims=True)).astype(np.float32)

    def fit_work(self, points: int) -> dict[str, float]:
        return {"vector.add": float(points * self.dimension * 1000)}

    def predict_work(self, points: int) -> dict[str, float]:
        return {"vector.add": float(points * self.dimension * 1000)}


def settings_of(name: str = "fedct", options: Options | None = None, **changes: Any) -> CotrainingSettings:
    """Settings of three rounds."""
    method = ALGORITHMS[name](options or Options())
    learners = (Centroids(),) * CLIENTS
    settings = CotrainingSettings(
        method, learners, Centroids(), PUBLIC, CLASSES, rounds=3, min_clients=2, deadline=10.0
    )
    return replace(settings, **changes)


Ran = tuple[CotrainingServer, list[CotrainingClient], list[Record], World, list[bytes]]


def cotrained(
    settings: CotrainingSettings,
    *faults: Fault,
    seed: int = 1,
    dealt: Sequence[Shard] = SHARDS,
    engine: Engine | None = None,
    client: Callable[..., CotrainingClient] = CotrainingClient,
    access: Sequence[dict[str, float]] = ({},) * CLIENTS,
) -> Ran:
    """The parties after a run, the record of each round, the world, and the consensus after each round."""
    more = {} if engine is None else {"engine": engine}
    world = World(seed, conditions=Conditions(latency=parse_latency("5ms")), faults=faults, **more)
    clients = [client(world, f"client/{i}", shard, settings, **access[i]) for i, shard in enumerate(dealt)]
    server = CotrainingServer(world, [one.name for one in clients], settings)
    records: list[Record] = []
    agreed: list[bytes] = []

    def observe(record: Record) -> None:
        records.append(record)
        agreed.append(server.agreed)

    server.observers.append(observe)
    try:
        world.loop.run(play([server, *clients], server))
    finally:
        world.loop.finish()
    return server, clients, records, world, agreed


def everyone(*but: str) -> tuple[str, ...]:
    return tuple(name for name in (f"client/{i}" for i in range(CLIENTS)) if name not in but)


def seed_of(name: str, incarnation: int, number: int) -> bytes:
    return World(1).entropy(name, incarnation, number, 1, "learning").bytes(32)


def plain_loop(
    learners: Sequence[Learner],
    trained: Sequence[Sequence[str]],
    answered: Sequence[Sequence[str]],
    period: int = 1,
    incarnation: Callable[[str, int], int] = lambda name, number: 1,
    halves: bool = True,
) -> list[list[int]]:
    """The consensus after each round by Algorithm 1, with the clients that `trained` and that `answered` in each round.

    With `halves`, networks use in each step a batch of their own points and a batch of the others.
    """
    states: dict[str, bytes] = {}
    agreed: list[list[int]] = []
    for number, (able, heard) in enumerate(zip(trained, answered, strict=True), 1):
        votes = []
        for i, name in enumerate(everyone()):
            learner, shard = learners[i], SHARDS[i]
            seed = seed_of(name, incarnation(name, number), number)
            points, labels = shard.points[shard.labeled], shard.labels[shard.labeled]
            parts = (len(labels), POINTS)
            if agreed:
                points, labels = np.concatenate([points, PUBLIC.points]), np.concatenate([labels, agreed[-1]])
            if name in able:
                state = states.get(name) or learner.initial(derive(seed, "initial"))
                for fit in range(period):
                    if halves and agreed and isinstance(learner, NetworkLearner):
                        state = learner.fit_parts(state, points, labels, derive(seed, "fit", fit), parts)
                    else:
                        state = learner.fit(state, points, labels, derive(seed, "fit", fit))
                states[name] = state
            if name in heard:
                votes.append(learner.predict(states[name], PUBLIC.points).tolist())
        found = []
        for labels_of_point in zip(*votes, strict=True):
            counts = Counter(labels_of_point)
            found.append(min(label for label in counts if counts[label] == max(counts.values())))
        agreed.append(found)
    return agreed


def labels_of(agreed: Sequence[bytes], gaps: bool = False) -> list[list[int]]:
    return [unpack(one, POINTS, CLASSES, gaps).tolist() for one in agreed]


# --- results


NETWORK = NetworkLearner(ModelSpec("linear", (64,), 10), 0.01, 16, 3, device="cpu")


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize(
    ("learner", "batches"),
    [(Centroids(), "halves"), (Centroids(warm=True), "halves"), (NETWORK, "halves"), (NETWORK, "joined")],
    ids=["cold", "warm", "network", "network, joined"],
)
def test_a_run_is_algorithm_1_over_the_same_learners(
    learner: Learner, batches: Literal["halves", "joined"], period: int
) -> None:
    learners = (learner,) * CLIENTS
    settings = settings_of(options=Options(ConsensusKeys(batches=batches)), learners=learners, period=period)
    server, clients, records, _, agreed = cotrained(settings)
    assert [record.answered for record in records] == [everyone()] * 3
    expected = plain_loop(learners, [everyone()] * 3, [everyone()] * 3, period, halves=batches == "halves")
    assert labels_of(agreed) == expected
    assert {client.ending for client in clients} == {"completed"}
    assert len({client.learnt for client in clients}) == CLIENTS
    assert server.lost == []


def test_clients_may_learn_in_different_ways() -> None:
    learners = (Centroids(), Centroids(warm=True), NetworkLearner(ModelSpec("linear", (64,), 10), 0.01), Centroids())
    _, _, _, _, agreed = cotrained(settings_of(learners=learners))
    assert labels_of(agreed) == plain_loop(learners, [everyone()] * 3, [everyone()] * 3)


def test_a_client_lost_before_its_answer_is_left_out_of_that_rounds_consensus() -> None:
    own = {"client/1": 2, "client/2": 2}
    faults = (
        Crash("client/1", at="cotrain.predict", occurrence=2, back_after=1.0),
        Crash("client/2", at="cotrain.learn", occurrence=2, back_after=1.0),
    )
    learners = (Centroids(warm=True),) * CLIENTS  # warm learners keep their state, so training before a crash matters
    server, _, records, _, agreed = cotrained(settings_of(learners=learners), *faults)
    assert [one.answered for one in records] == [everyone(), everyone("client/1", "client/2"), everyone()]
    trained = [everyone(), everyone("client/2"), everyone()]
    answered = [record.answered for record in records]
    expected = plain_loop(learners, trained, answered, incarnation=lambda name, n: own.get(name, 1) if n == 3 else 1)
    assert labels_of(agreed) == expected
    assert [(loss.party, loss.round) for loss in server.lost] == [("client/1", 2), ("client/2", 2)]


def test_a_quorum_is_of_the_answers_that_were_received() -> None:
    options = Options(ConsensusKeys(consensus="qualified", quorum=1.0))
    _, _, records, _, agreed = cotrained(settings_of(options=options), Crash("client/3", at="cotrain.predict"))
    assert records[0].answered == everyone("client/3")
    votes = np.array([Centroids().predict(Centroids().fit(b"", *own, b""), PUBLIC.points) for own in own_parts()[:3]])
    unanimous = (votes == votes[0]).all(0)
    assert 0 < unanimous.sum() < POINTS
    assert labels_of(agreed, gaps=True)[0] == np.where(unanimous, votes[0], -1).tolist()


def own_parts() -> list[tuple[Any, Any]]:
    return [(shard.points[shard.labeled], shard.labels[shard.labeled]) for shard in SHARDS]


def test_points_without_a_consensus_are_left_out() -> None:
    settings = settings_of(options=Options(ConsensusKeys(consensus="qualified", quorum=1.0)), rounds=2)
    _, clients, _, _, agreed = cotrained(settings)
    labels = np.array(labels_of(agreed, gaps=True)[0])
    assert 0 < (labels >= 0).sum() < POINTS
    for client, (points, own) in zip(clients, own_parts(), strict=True):
        both = np.concatenate([points, PUBLIC.points[labels >= 0]]), np.concatenate([own, labels[labels >= 0]])
        assert client.learnt == Centroids().fit(b"", *both, b"")


def test_a_client_without_labels_learns_from_the_others() -> None:
    bare = Shard(SHARDS[3].points, SHARDS[3].labels, np.zeros_like(SHARDS[3].labeled), SHARDS[3].rows)
    server, clients, records, _, agreed = cotrained(settings_of(), dealt=[*SHARDS[:3], bare])
    assert [record.answered for record in records] == [everyone("client/3"), everyone(), everyone()]
    labels = np.array(labels_of(agreed)[1])
    assert clients[3].learnt == Centroids().fit(b"", PUBLIC.points, labels, b"")
    assert server.lost == []


# --- losses


@pytest.mark.parametrize("back", [None, 1.0])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.role}-{step.name}")
@pytest.mark.parametrize("when", ["at", "after"])
def test_a_crash_at_any_step_ends_in_a_result_or_an_outcome(step: Any, when: str, back: float | None) -> None:
    party = "server" if step.role == "server" else "client/1"
    fault = Crash(party, back_after=None if party == "server" else back, **{when: step.name})
    _, clients, records, _, _ = cotrained(settings_of(), fault)
    if party == "server":
        assert all(client.ending.startswith(("no answer from the server", "completed", "never")) for client in clients)
        return
    others = [client for client in clients if client.name != "client/1"]
    assert {client.ending for client in others} == {"completed"}
    assert all(set(everyone("client/1")) <= set(record.answered) for record in records) and len(records) == 3
    if back is not None:
        assert "client/1" in records[-1].answered
    elif (step.name, when) != ("cotrain.predict", "after"):
        assert "client/1" not in records[-1].answered


def test_too_few_answers_lose_the_round_and_keep_the_agreed_labels() -> None:
    faults = [Crash(f"client/{i}", at="cotrain.learn", occurrence=2, back_after=1.0) for i in range(3)]
    _, _, records, _, agreed = cotrained(settings_of(), *faults)
    assert records[1].lost == "1 client with predictions is left; min_clients is 2"
    assert agreed[0] == agreed[1]
    assert records[2].answered == everyone()


def test_an_answer_that_comes_too_late_does_not_count() -> None:
    fault = Slow("client/2", factor=1e6, at="cotrain.learn")
    server, clients, records, _, _ = cotrained(settings_of(deadline=1.0), fault)
    assert [record.answered for record in records] == [everyone("client/2")] * 3
    lost = [(loss.party, loss.step, loss.action) for loss in server.lost]
    assert lost == [("client/2", "cotrain.agree", "its predictions never came: left out of this round's consensus")] * 3
    assert clients[2].learnt is not None  # it learnt nevertheless, though late


class Babbler(CotrainingClient):
    """A client that sends invalid messages: too short, or with labels beyond the classes."""

    async def take_part(self, call: Any) -> None:
        if self.name in ("client/0", "client/3"):
            self.send(self.server, LocalPredictions(b"?" if self.name == "client/0" else b"\xff" * 30))
        else:
            await super().take_part(call)


def test_invalid_predictions_are_left_out() -> None:
    _, _, records, _, agreed = cotrained(settings_of(), client=Babbler)
    assert [record.answered for record in records] == [everyone("client/0", "client/3")] * 3
    answered = [record.answered for record in records]
    assert labels_of(agreed) == plain_loop(settings_of().learners, answered, answered)


# --- bytes, determinism


@pytest.mark.parametrize(("name", "size"), [("fedct", 30), ("dd", 2400), ("fedmd", 2400), ("local", 0)])
def test_bytes_sent_equal_the_formula(name: str, size: int) -> None:
    settings = settings_of(name)
    _, _, _, world, _ = cotrained(settings)
    payload = {row.type: 0 for row in world.ledger.rows()}
    for row in world.ledger.rows():
        payload[row.type] += row.payload
    assert settings.method.sharing.size(POINTS, CLASSES) == size
    assert payload == {
        "Enroll": 0,
        "Enrolled": 0,
        "CotrainingRound": 2 * CLIENTS * size,
        "LocalPredictions": 3 * CLIENTS * size,
    }


def test_ten_thousand_labels_stay_under_5100_bytes_with_the_envelope() -> None:
    public = Public(np.zeros((10_000, 64)), np.full(10_000, -1))
    _, _, _, world, _ = cotrained(settings_of(public=public, rounds=2))
    rows = {(row.type, row.sender): row for row in world.ledger.rows()}
    up = rows["LocalPredictions", "client/0"]
    assert (up.messages, up.payload) == (2, 10_000)
    assert up.total / up.messages < 5100
    assert sum(row.payload for row in world.ledger.rows() if row.type == "CotrainingRound") == CLIENTS * 5000


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_the_same_seed_gives_the_same_trace_and_models(name: str) -> None:
    settings = settings_of(name, Options(flip=0.1, sigma=1.0))
    (_, one, records, first, _), (_, two, _, second, _) = cotrained(settings), cotrained(settings)
    assert [record.lost for record in records] == [""] * len(records)
    assert first.trace.trace_hash == second.trace.trace_hash
    assert [client.learnt for client in one] == [client.learnt for client in two]


def test_computing_in_a_pool_changes_no_trace_hash() -> None:
    learners = (NetworkLearner(ModelSpec("linear", (64,), 10), 0.01, 16, 3, device="cpu"),) * CLIENTS
    inline = cotrained(settings_of(learners=learners))[3]
    engine = make_engine("pool:2")
    try:
        pooled = cotrained(settings_of(learners=learners), engine=engine)[3]
    finally:
        engine.close()
    assert pooled.trace.trace_hash == inline.trace.trace_hash
