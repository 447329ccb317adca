import pickle

import numpy as np
import pytest
import torch

from tacit.parties.learning.jobs import initial
from tacit.parties.learning.learner import Learner, NetworkLearner
from tacit.parties.learning.networks import build
from tacit.parties.learning.parameters import load
from tacit.parties.learning.spec import ModelSpec
from tacit.sim.streams import generator

SPEC = ModelSpec("fedct_svhn", (1, 8, 8), 3)
LINEAR = ModelSpec("linear", (4,), 3)


def clusters(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = generator(1, "clusters")
    labels = np.arange(n) % 3
    return (np.eye(3, 4)[labels] + 0.1 * random.normal(size=(n, 4))).astype(np.float32), labels


def test_a_network_learns_clusters_and_predicts_their_labels() -> None:
    learner: Learner = NetworkLearner(LINEAR, learning_rate=0.1, steps=60, batch=20)
    points, labels = clusters()
    fresh = learner.initial(1)
    state = learner.fit(fresh, points, labels, 1)
    assert (learner.predict(state, points) == labels).all()
    assert (learner.predict(fresh, points) != labels).any()
    assert (learner.probabilities(state, points).argmax(1) == labels).all()


def test_training_steps_equal_those_of_adam() -> None:
    points, labels = clusters(6)
    learner = NetworkLearner(LINEAR, learning_rate=0.1, steps=3, batch=10, device="cpu")
    state = learner.fit(learner.fit(learner.initial(1), points, labels, 1), points, labels, 2)
    network = build(LINEAR)
    load(network, initial(LINEAR, 1))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    for _ in range(6):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(torch.tensor(points)), torch.tensor(labels)).backward()
        optimiser.step()
    expected = network(torch.tensor(points)).softmax(1).detach().numpy()
    np.testing.assert_allclose(learner.probabilities(state, points), expected, rtol=1e-4, atol=1e-6)


def test_a_step_takes_a_batch_of_each_part() -> None:
    points, labels = clusters(7)
    learner = NetworkLearner(LINEAR, learning_rate=0.1, steps=1, batch=1, device="cpu")
    begun = learner.initial(1)
    for own, seed in [(1, 1), (1, 2), (3, 3), (6, 4)]:
        found = learner.fit_parts(begun, points, labels, seed, (own, 7 - own))
        pairs = [[first, second] for first in range(own) for second in range(own, 7)]
        possible = [NetworkLearner(LINEAR, 0.1, 2, 1, device="cpu").fit(begun, points[p], labels[p], 1) for p in pairs]
        numbers = [np.frombuffer(one[8:], np.float32) for one in (found, *possible)]
        assert min(np.abs(one - numbers[0]).max() for one in numbers[1:]) < 1e-6


def test_training_on_parts_needs_all_points_and_visits_each_equally_often() -> None:
    points, labels = clusters(6)
    learner = NetworkLearner(LINEAR, learning_rate=0.1, steps=4, batch=2, device="cpu")
    begun = learner.initial(1)
    assert learner.fit_parts(begun, points, labels, 5, (6, 0)) == learner.fit(begun, points, labels, 5)
    assert learner.fit_parts(begun, points, labels, 5, ()) == learner.fit(begun, points, labels, 5)
    with pytest.raises(ValueError, match=r"parts of \[2, 3\] points must be 6 points in all"):
        learner.fit_parts(begun, points, labels, 5, (2, 3))
    whole = NetworkLearner(LINEAR, learning_rate=0.1, steps=1, batch=4, device="cpu")
    halved, joined = (
        one[8:] for one in (whole.fit_parts(begun, points, labels, 5, (2, 4)), whole.fit(begun, points, labels, 5))
    )
    full = NetworkLearner(LINEAR, 0.1, 6, 1, device="cpu").fit(begun, points, labels, 9)[8:]
    np.testing.assert_allclose(np.frombuffer(halved, np.float32), np.frombuffer(full, np.float32), atol=1e-6)
    assert np.abs(np.frombuffer(joined, np.float32) - np.frombuffer(full, np.float32)).max() > 1e-3
    assert learner.parts_work((1, 6)) == NetworkLearner(LINEAR, steps=4, batch=3).fit_work(6)


def test_the_same_seed_gives_the_same_state_in_a_copy_of_the_learner() -> None:
    learner = NetworkLearner(SPEC, steps=3, batch=4)
    points = generator(1, "points").random((9, 8, 8, 1), dtype=np.float32).reshape(9, -1)
    labels = np.arange(9) % 3
    state = learner.fit(learner.initial(1), points, labels, 1)
    assert pickle.loads(pickle.dumps(learner)).fit(learner.initial(1), points, labels, 1) == state
    assert learner.fit(learner.initial(1), points, labels, 2) != state


def test_a_cold_learner_starts_again() -> None:
    points, labels = clusters()
    cold, warm = NetworkLearner(LINEAR, warm=False), NetworkLearner(LINEAR)
    first = cold.fit(cold.initial(1), points, labels, 5)
    assert cold.fit(first, points, labels, 5) == first == warm.fit(warm.initial(5), points, labels, 5)
    assert warm.fit(first, points, labels, 5) != first


def test_training_without_points_keeps_the_state() -> None:
    learner = NetworkLearner(LINEAR)
    state = learner.initial(1)
    assert learner.fit(state, np.empty((0, 4)), np.empty(0, np.int64), 1) == state


def test_invalid_states_labels_and_settings_are_refused() -> None:
    learner, (points, labels) = NetworkLearner(LINEAR), clusters()
    with pytest.raises(ValueError, match=r"state of linear: 4 bytes, not 188"):
        learner.predict(bytes(4), points)
    with pytest.raises(ValueError, match=r"labels are in \[1, 3\]"):
        learner.fit(learner.initial(1), points, labels + 1, 1)
    for settings in ({"batch": 0}, {"steps": -1}, {"learning_rate": 0.0}):
        with pytest.raises(ValueError, match="must be > 0, >= 1 and >= 0"):
            NetworkLearner(LINEAR, **settings)  # type: ignore[arg-type]


def test_a_single_point_does_not_train_a_network_with_batch_normalisation() -> None:
    points, labels = np.zeros((1, 3, 12, 12), np.float32), np.array([1])
    for name, learns in (("fedct_pneumonia", False), ("small_cnn", True)):
        learner = NetworkLearner(ModelSpec(name, (3, 12, 12), 2), steps=1, device="cpu")
        first = learner.initial(1)
        assert (learner.fit(first, points, labels, 1) != first) == learns
