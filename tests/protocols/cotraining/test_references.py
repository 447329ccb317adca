"""Algorithms against numpy that shares no code with them: softmax regression by Adam, all points at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.parties.learning.learner import NetworkLearner
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.playing import play
from tacit.protocols.cotraining.experiment import ALGORITHMS, Options
from tacit.protocols.cotraining.local_training import Public
from tacit.protocols.cotraining.round import CotrainingClient, CotrainingServer, CotrainingSettings
from tacit.sim.streams import derive
from tacit.sim.world import World

CLIENTS, CLASSES, RATE = 3, 10, 0.01
LEARNER = NetworkLearner(ModelSpec("linear", (64,), CLASSES), RATE, batch=1000, steps=1, device="cpu")
WHOLE = load("digits", 150)
PUBLIC = Public(WHOLE.points[:50], WHOLE.labels[:50])
SHARDS = shards(WHOLE.take(slice(50, 150)), CLIENTS, "iid", 0.5, 1)

Matrix = NDArray[np.float64]


class Softmax:
    """p = softmax(W x + b), trained by Kingma and Ba's algorithm 1."""

    def __init__(self, state: bytes) -> None:
        count = CLASSES * 65
        vector = np.frombuffer(state[8 : 8 + 4 * count], "<f4").astype(np.float64)
        self.weights = np.column_stack([vector[: CLASSES * 64].reshape(CLASSES, 64), vector[CLASSES * 64 :]])
        self.first, self.second, self.steps = np.zeros_like(self.weights), np.zeros_like(self.weights), 0

    def probabilities(self, points: Any) -> Matrix:
        scores = self._inputs(points) @ self.weights.T
        scores = np.exp(scores - scores.max(1, keepdims=True))
        result: Matrix = scores / scores.sum(1, keepdims=True)
        return result

    def step(self, points: Any, targets: Any) -> None:
        wanted = np.eye(CLASSES)[targets] if np.ndim(targets) == 1 else targets
        gradient = (self.probabilities(points) - wanted).T @ self._inputs(points) / len(points)
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        mean, square = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.999**self.steps)
        self.weights = self.weights - RATE * mean / (np.sqrt(square) + 1e-8)

    @staticmethod
    def _inputs(points: Any) -> Matrix:
        return np.column_stack([points, np.ones(len(points))])


def cotrained(name: str, rounds: int, period: int = 1) -> tuple[CotrainingServer, list[CotrainingClient]]:
    world = World(1)
    settings = CotrainingSettings(
        ALGORITHMS[name](Options()), (LEARNER,) * CLIENTS, LEARNER, PUBLIC, CLASSES, rounds=rounds, period=period
    )
    clients = [CotrainingClient(world, f"client/{i}", shard, settings) for i, shard in enumerate(SHARDS)]
    server = CotrainingServer(world, [client.name for client in clients], settings)
    try:
        world.loop.run(play([server, *clients], server))
    finally:
        world.loop.finish()
    return server, clients


def initial_networks() -> list[Softmax]:
    """Each client's network before training."""
    seeds = [World(1).entropy(f"client/{i}", 1, 1, 1, "learning").bytes(32) for i in range(CLIENTS)]
    return [Softmax(LEARNER.initial(derive(seed, "initial"))) for seed in seeds]


def labeled_part(i: int) -> tuple[Any, Any]:
    shard = SHARDS[i]
    return shard.points[shard.labeled], shard.labels[shard.labeled]


def assert_same(clients: Sequence[CotrainingClient], expected: Sequence[Softmax]) -> None:
    for client, one in zip(clients, expected, strict=True):
        assert client.learnt is not None
        np.testing.assert_allclose(Softmax(client.learnt).weights, one.weights, atol=2e-6)


def test_a_dd_client_learns_the_mean_probabilities_and_its_own_labels() -> None:
    server, clients = cotrained("dd", 2)
    expected = initial_networks()
    for i, one in enumerate(expected):
        one.step(*labeled_part(i))
    mean = np.mean([one.probabilities(PUBLIC.points) for one in expected], axis=0)
    for i, one in enumerate(expected):
        points, labels = labeled_part(i)
        one.step(np.concatenate([points, PUBLIC.points]), np.concatenate([np.eye(CLASSES)[labels], mean]))
    assert_same(clients, expected)
    last = np.mean([one.probabilities(PUBLIC.points) for one in expected], axis=0)
    np.testing.assert_allclose(np.frombuffer(server.agreed, "<f4").reshape(-1, CLASSES), last, atol=1e-5)


def test_a_fedmd_client_learns_public_labels_then_digests_and_revisits() -> None:
    _, clients = cotrained("fedmd", 2, period=2)
    expected = initial_networks()
    for i, one in enumerate(expected):
        for points, labels in ((PUBLIC.points, PUBLIC.labels), labeled_part(i)):
            one.step(points, labels)
            one.step(points, labels)
    mean = np.mean([one.probabilities(PUBLIC.points) for one in expected], axis=0)
    for i, one in enumerate(expected):
        for points, targets in ((PUBLIC.points, mean), labeled_part(i)):
            one.step(points, targets)
            one.step(points, targets)
    assert_same(clients, expected)


@pytest.mark.parametrize("name", ["local", "centralised"])
def test_local_and_centralised_learning_equal_training_alone(name: str) -> None:
    server, clients = cotrained(name, 3)
    expected = initial_networks()
    for i, one in enumerate(expected):
        for _ in range(3):
            one.step(*labeled_part(i))
    assert_same(clients, expected)
    assert server.agreed == b""


def test_a_fedct_client_learns_the_majority_and_its_own_labels() -> None:
    _, clients = cotrained("fedct", 2)
    expected = initial_networks()
    for i, one in enumerate(expected):
        one.step(*labeled_part(i))
    votes = np.array([one.probabilities(PUBLIC.points).argmax(1) for one in expected])
    agreed = np.array([np.bincount(column).argmax() for column in votes.T])
    for i, one in enumerate(expected):
        points, labels = labeled_part(i)
        one.step(np.concatenate([points, PUBLIC.points]), np.concatenate([labels, agreed]))
    assert_same(clients, expected)
