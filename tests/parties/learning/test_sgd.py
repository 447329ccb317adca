import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tacit.parties.learning.jobs import initial, size, train
from tacit.parties.learning.local_update import Active, Addition, LocalData, LocalUpdate, Run, Trained
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Batch
from tacit.parties.learning.vectors import decode, encode
from tacit.sim.pool import Pool
from tacit.sim.streams import generator

LINEAR = ModelSpec("linear", (4,), 3)
SMALL = ModelSpec("fedct_svhn", (1, 8, 8), 3)  # with dropout and batch normalisation


def data_of(spec: ModelSpec, labeled: int = 6, others: int = 0, seed: int = 1) -> LocalData:
    random, n = generator(seed, "data"), labeled + others
    images = random.random((n, *spec.shape), dtype=np.float32)
    weights = random.random(n, dtype=np.float32)
    return LocalData(images, random.integers(0, spec.classes, n), weights, np.arange(n) < labeled)


def update_of(**settings: object) -> LocalUpdate:
    return LocalUpdate(**({"epochs": 1, "learning_rate": 0.5, "device": "cpu"} | settings))  # type: ignore[arg-type]


def gradient(vector: np.ndarray, data: LocalData) -> np.ndarray:
    """The gradient of the mean of weight times cross-entropy, for softmax regression with 4 inputs and 3 classes."""
    weight, bias = vector[:12].reshape(3, 4), vector[12:]
    logits = data.images @ weight.T + bias
    found = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    error = data.weights[:, None] * (found - np.eye(3)[data.labels]) / len(data.labels)
    return np.concatenate([(error.T @ data.images).ravel(), error.sum(0)])


def test_one_step_is_that_of_the_weighted_cross_entropy() -> None:
    data, begin = data_of(LINEAR), decode(initial(LINEAR, 1)).astype(float)
    result = train(LINEAR, encode(begin), data, update_of(weight_decay=0.1), 1000, 1)
    rate = 0.5 * 0.5  # halfway along the cosine
    expected = begin - rate * (gradient(begin, data) + 0.1 * begin)
    np.testing.assert_allclose(decode(result.parameters), expected, rtol=1e-5, atol=1e-6)
    assert result.steps == 1


def test_momentum_carries_over_from_step_to_step() -> None:
    data, vector = data_of(LINEAR), decode(initial(LINEAR, 1)).astype(float)
    update = update_of(epochs=3, momentum=0.9, weight_decay=0.01)
    result = train(LINEAR, encode(vector), data, update, 0, 1)
    velocity = np.zeros_like(vector)
    for _ in range(3):
        velocity = 0.9 * velocity + gradient(vector, data) + 0.01 * vector
        vector = vector - 0.5 * velocity
    np.testing.assert_allclose(decode(result.parameters), vector, rtol=1e-4, atol=1e-6)


def test_the_loss_is_the_mean_over_the_steps() -> None:
    data = data_of(LINEAR)
    begin = decode(initial(LINEAR, 1)).astype(float)
    logits = data.images @ begin[:12].reshape(3, 4).T + begin[12:]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(6), data.labels]
    result = train(LINEAR, encode(begin), data, update_of(), 0, 1)
    assert result.loss == pytest.approx(float((data.weights * losses).mean()), rel=1e-5)


@dataclass(frozen=True)
class Watching(Addition):
    """An addition that stores for each batch the images, as bytes, and the number of labels."""

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return _Watching()


class _Watching(Active):
    def __init__(self) -> None:
        self._seen: list[list[int]] = []

    def loss(self, batch: Batch) -> None:
        self._seen.append([batch.labeled, *batch.images[:, 0].int().tolist()])

    def finish(self) -> tuple[bytes, bytes]:
        return json.dumps(self._seen).encode(), b""


def batches_of_update(labeled: int, others: int, **settings: object) -> list[tuple[int, list[int]]]:
    """The batches of an update, for points that are numbered in their first coordinate."""
    n = labeled + others
    images = np.zeros((n, 4), np.float32)
    images[:, 0] = np.arange(n)
    labels = np.zeros(n, np.int64)
    data = LocalData(images, labels, np.ones(n, np.float32), np.arange(n) < labeled)
    result = train(LINEAR, initial(LINEAR, 1), data, update_of(additions=(Watching(),), **settings), 0, 1)
    rows: list[list[int]] = json.loads(result.sent[0])
    return [(row[0], row[1:]) for row in rows]


def test_batches_are_half_labeled_and_half_pseudo_labeled() -> None:
    batches = batches_of_update(5, 13, epochs=2, labeled_batch=4)
    assert len(batches) == 6
    for known, rows in batches:
        assert known == 4
        assert all(row < 5 for row in rows[:4])
        assert all(row >= 5 for row in rows[4:])
        assert len(rows) == 8
    for epoch in (batches[:3], batches[3:]):
        others = [row for _, rows in epoch for row in rows[4:]]
        assert len(set(others)) == 12  # none of the 13 twice
    labeled = [row for _, rows in batches for row in rows[:4]]
    assert all(sorted(labeled[at : at + 5]) == [0, 1, 2, 3, 4] for at in range(0, 20, 5))  # round and round


def test_labeled_points_alone_are_gone_through_once_an_epoch() -> None:
    batches = batches_of_update(11, 0, epochs=2, labeled_batch=4)
    assert [len(rows) for _, rows in batches] == [4, 4, 3, 4, 4, 3]
    for epoch in (batches[:3], batches[3:]):
        assert sorted(row for _, rows in epoch for row in rows) == list(range(11))
    assert batches[:3] != batches[3:]


def test_a_batch_of_one_point_is_left_out() -> None:
    assert [len(rows) for _, rows in batches_of_update(9, 0, labeled_batch=4)] == [4, 4]


def test_without_a_label_a_batch_is_of_pseudo_labeled_points() -> None:
    assert [(known, len(rows)) for known, rows in batches_of_update(0, 20, labeled_batch=4)] == [(0, 8), (0, 8)]


def test_points_without_any_label_do_not_train() -> None:
    data = data_of(LINEAR, 4, 4)
    labels = np.where(data.labeled, data.labels, -1)
    vector = initial(LINEAR, 1)
    some = train(LINEAR, vector, LocalData(data.images, labels, data.weights, data.labeled), update_of(), 0, 1)
    known = LocalData(data.images[:4], data.labels[:4], data.weights[:4], data.labeled[:4])
    assert some == train(LINEAR, vector, known, update_of(), 0, 1)


def test_training_without_points_keeps_the_parameters() -> None:
    vector = initial(SMALL, 1)
    result = train(SMALL, vector, data_of(SMALL, 0), update_of(), 0, 1)
    assert (result.parameters, result.steps) == (vector, 0)
    assert np.isnan(result.loss)


Arguments = tuple[ModelSpec, bytes, LocalData, LocalUpdate, int, int]


def small_arguments(seed: int = 1, round_number: int = 3) -> Arguments:
    update = update_of(epochs=2, labeled_batch=3, augmentation="translate-flip")
    return SMALL, initial(SMALL, 5), data_of(SMALL, 4, 6), update, round_number, seed


def train_small(seed: int = 1, round_number: int = 3) -> Trained:
    return train(*small_arguments(seed, round_number))


def test_the_same_seed_gives_the_same_parameters_after_other_training() -> None:
    first = train_small()
    torch.rand(5)
    train(SMALL, initial(SMALL, 2), data_of(SMALL, 4), update_of(), 0, 9)
    assert train_small() == first
    assert train_small(seed=2).parameters != first.parameters
    assert train_small(round_number=4).parameters != first.parameters


def test_a_worker_process_gives_the_same_bytes() -> None:
    pool = Pool(1)
    try:
        assert pool.submit(train, small_arguments()).result() == train_small()
    finally:
        pool.close()


def test_torchs_own_draws_are_left_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train_small()
    assert (torch.rand(3) == expected).all()


def test_training_changes_the_running_statistics() -> None:
    trained, vector = train_small(), initial(SMALL, 5)
    running = 2 * (32 + 64 + 128)
    changed = decode(trained.parameters)[-running:] != decode(vector)[-running:]
    assert changed.mean() > 0.9


def test_images_of_bytes_train_like_values_between_0_and_1() -> None:
    spec = ModelSpec("fedct_svhn", (3, 8, 8), 3)
    pictures = generator(1, "pictures").integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    labels, vector = np.array([0, 1, 2, 0, 1, 2]), initial(spec, 1)
    numbers = pictures.astype(np.float32) / 255
    first = train(spec, vector, LocalData.supervised(pictures, labels), update_of(), 0, 1)
    for same in (np.moveaxis(numbers, 3, 1), numbers.reshape(6, -1), numbers.reshape(6, -1).astype(np.float64)):
        assert train(spec, vector, LocalData.supervised(same, labels), update_of(), 0, 1) == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": bytes(4)}, "parameters of linear: 4 bytes, not the 60 of 15 numbers"),
        ({"labels": np.array([0, 3])}, r"labels are in \[0, 3\], not in \[-1, 2\]"),
        ({"images": np.zeros((2, 5))}, r"takes points of shape \(4,\), not \(5,\)"),
        ({"received": [b"", b""]}, "state for 2 additions, but the update has 0"),
        ({"update": update_of(augmentation="rotate-flip")}, "is for images, not for points of shape"),
        ({"update": update_of(device="tpu")}, r"device\(='tpu'\) must be auto, cpu or cuda"),
    ],
)
def test_invalid_data_parameters_and_settings_are_refused_in_one_line(change: dict[str, object], message: str) -> None:
    labels = change.get("labels", np.array([0, 1]))
    data = LocalData.supervised(change.get("images", np.zeros((2, 4))), labels)  # type: ignore[arg-type]
    begin, update = change.get("parameters", bytes(4 * size(LINEAR))), change.get("update", update_of())
    with pytest.raises(ValueError, match=message) as caught:
        train(LINEAR, begin, data, update, 0, 1, change.get("received", ()))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_missing_gpu_is_refused() -> None:
    if torch.cuda.is_available():
        result = train(SMALL, initial(SMALL, 5), data_of(SMALL, 4), update_of(device="cuda"), 0, 1)
        assert len(result.parameters) == 4 * size(SMALL)
        return
    with pytest.raises(ValueError, match="torch finds no GPU here"):
        train(SMALL, initial(SMALL, 5), data_of(SMALL, 4), update_of(device="cuda"), 0, 1)
