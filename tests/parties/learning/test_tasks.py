"""Tasks: the loss that trains, and the metrics that measure."""

from collections.abc import Iterator

import numpy as np
import pytest

from tacit.parties.learning.jobs import accuracy, initial, logits, measured, train
from tacit.parties.learning.local_update import LocalData, LocalUpdate
from tacit.parties.learning.networks import NeuralNetwork, nn
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import TASKS, Batch, Classification, TaskKind

SPEC = ModelSpec("linear", (4,), 3)


@pytest.fixture
def added() -> Iterator[None]:
    yield
    for one in TASKS.added():
        TASKS.remove(one.name)


def points(many: int = 40) -> LocalData:
    random = np.random.default_rng(1)
    images, labels = random.standard_normal((many, 4)), random.integers(3, size=many)
    images[np.arange(many), labels] += 2
    return LocalData.supervised(images, labels)


class Focal(Classification):
    """Cross-entropy times (1 - p)^2 (Lin et al. 2017)."""

    def loss(self, model: NeuralNetwork, batch: Batch):
        losses = nn.functional.cross_entropy(model(batch.inputs), batch.targets, reduction="none")
        return (1 - (-losses).exp()) ** 2 * losses

    def metrics(self, outputs, targets):
        return {**super().metrics(outputs, targets), "points": len(targets)}


class Mean(Focal):
    def loss(self, model: NeuralNetwork, batch: Batch):
        return super().loss(model, batch).mean()


def test_measures_loss_and_metrics() -> None:
    data, vector = points(), initial(SPEC, 1)
    found = measured(SPEC, vector, data.images, data.labels)
    scores = logits(SPEC, vector, data.images).astype(np.float64)
    losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(scores)), data.labels]
    assert list(found) == ["loss", "accuracy"]
    assert found["loss"] == pytest.approx(losses.mean(), rel=1e-6)
    assert found["accuracy"] == accuracy(SPEC, vector, data.images, data.labels)


def test_trains_on_the_loss_of_its_own(added: None) -> None:
    TASKS.add("focal", TaskKind("focal loss", Focal()))
    TASKS.add("mean", TaskKind("the mean of it", Mean()))
    data, update = points(), LocalUpdate(3, 7, learning_rate=0.1, device="cpu")
    plain = train(SPEC, initial(SPEC, 1), data, update, 0, 1)
    focal, mean = (
        train(ModelSpec("linear", (4,), 3, task=name), initial(SPEC, 1), data, update, 0, 1)
        for name in ("focal", "mean")
    )
    assert plain.parameters != focal.parameters
    assert np.frombuffer(focal.parameters, "<f4") == pytest.approx(np.frombuffer(mean.parameters, "<f4"), abs=1e-6)
    spec = ModelSpec("linear", (4,), 3, task="focal")
    assert list(measured(spec, focal.parameters, data.images, data.labels)) == ["loss", "accuracy", "points"]
