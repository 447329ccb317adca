from functools import partial

import pytest
from torch import nn

from tacit.parties.learning.fitting import measure_costs
from tacit.parties.learning.jobs import embed_work, size, train_work, trained_size
from tacit.parties.learning.learner import NetworkLearner
from tacit.parties.learning.local_update import Addition, LocalUpdate
from tacit.parties.learning.networks import BUILDERS
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.work import operations
from tacit.sim.compute import CostTable

SMALL = ModelSpec("small_cnn", (1, 28, 28), 10)


class Teacher(Addition):
    forwards = vectors = 1.0


class Control(Addition):
    vectors = 1.0


def test_the_number_of_multiplications_follows_from_the_layers() -> None:
    first, second = 26 * 26 * 16 * 9, 11 * 11 * 32 * 16 * 9 + 800 * 128 + 128 * 10
    one = operations(SMALL)
    assert one.inference.point.multiply_adds == first + second
    assert one.training.point.multiply_adds == 2 * first + 3 * second  # points need no gradients
    linear = operations(ModelSpec("linear", (7,), 3))
    assert linear.inference.point.multiply_adds == 21
    assert (linear.numbers, linear.trained) == (24, 24)


def test_normalising_weights_costs_the_same_for_every_batch() -> None:
    spec = ModelSpec("cnn13", (3, 32, 32), 10)
    first = 32 * 32 * 128 * 9 * (3 + 128 + 128)
    second = 16 * 16 * 256 * 9 * (128 + 256 + 256)
    third = 36 * (512 * 9 * 256 + 512 * 256 + 256 * 128)
    one = operations(spec).inference
    assert one.point.multiply_adds == first + second + third + 128 * 10
    assert one.batch.multiply_adds == 0
    assert one.batch.values > size(spec) / 2


def test_the_work_of_training_follows_from_its_batches() -> None:
    update = LocalUpdate(epochs=5, labeled_batch=10)
    work = train_work(SMALL, update, 10, 45)  # four batches of 10 and 10 an epoch
    one = operations(SMALL)
    each, once = one.training.point, one.training.batch
    assert work["train.multiply-add"] == 5 * 4 * 20 * each.multiply_adds
    assert work["train.value"] == 5 * 4 * 20 * each.values + 20 * once.values
    assert work["train.update"] == 1
    assert work["train.step"] == 20
    assert work["train.parameter"] == 20 * trained_size(SMALL)
    assert work["model.load"] == work["model.store"] == size(SMALL)


def test_a_teacher_adds_the_work_of_a_forward_pass() -> None:
    plain, taught = (
        train_work(SMALL, LocalUpdate(additions=additions), 50, 50) for additions in ((), (Teacher(), Control()))
    )
    assert taught["train.multiply-add"] == plain["train.multiply-add"]
    one = operations(SMALL)
    ratio = one.inference.point.multiply_adds / one.training.point.multiply_adds
    assert taught["embed.multiply-add"] == pytest.approx(ratio * taught["train.multiply-add"])
    assert taught["train.parameter"] == 3 * plain["train.parameter"]


def test_embedding_costs_a_forward_pass_of_every_point() -> None:
    work = embed_work(SMALL, 501)
    assert work["embed.multiply-add"] == 501 * operations(SMALL).inference.point.multiply_adds
    assert work["embed.batch"] == 3


def test_the_cost_table_has_every_operation() -> None:
    table = CostTable.load()
    update = LocalUpdate(additions=(Teacher(),))
    for work in (train_work(SMALL, update, 50, 50), embed_work(SMALL, 9), NetworkLearner(SMALL).fit_work(100)):
        assert table.duration(work) > 0


def test_costs_are_measured_for_every_operation() -> None:
    costs = measure_costs(repeats=1, quick=True)
    work = train_work(SMALL, LocalUpdate(), 9, 0) | embed_work(SMALL, 9)
    assert set(costs) == set(work)
    assert min(costs.values()) >= 0
    assert max(costs.values()) > 0


def test_functions_cost_more_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    table, spec = CostTable.load(), ModelSpec("linear", (64,), 10)
    found = []
    for layer in (nn.ReLU, nn.GELU):
        body = partial(
            lambda spec, layer: (nn.Sequential(nn.Linear(64, 512), layer()), nn.Linear(512, 10)), layer=layer
        )
        monkeypatch.setitem(BUILDERS, "linear", body)
        found.append((train_work(spec, LocalUpdate(), 100, 0), embed_work(spec, 100)))
    for (simple, function), kind in zip(zip(*found, strict=True), ("train", "embed"), strict=True):
        assert f"{kind}.function" not in simple
        assert table.duration(function) > table.duration(simple)
        assert function[f"{kind}.value"] == simple[f"{kind}.value"]


def test_more_work_costs_more() -> None:
    table = CostTable.load()
    costs = [table.duration(train_work(SMALL, LocalUpdate(), n, 0)) for n in (10, 50, 500)]
    assert costs == sorted(costs)
    assert costs[2] == pytest.approx(10 * costs[1], rel=0.2)
