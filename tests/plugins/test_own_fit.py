"""Local training of one's own, optimizers by name, data whose labels are no classes, and what travels, as declared."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import load, run
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalData, LocalUpdate
from tacit.parties.learning.vectors import decode
from tacit.protocols.federated.experiment import model_of
from tacit.scenarios.files.splits import parts_of
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.schema.scenario import Scenario, ScenarioError

torch = pytest.importorskip("torch")

PLUGIN = """
import numpy as np
import torch
from torch import nn
from tacit import Dataset, Task, add_dataset, add_fit, add_model, add_task

def loop(model, data, settings, generator):
    optimizer, losses = settings.optimizer(model), []
    for _ in range(settings.epochs):
        for rows in torch.randperm(len(data.inputs), generator=generator).split(settings.batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data.inputs[rows]), data.targets[rows])
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    return {"loss": sum(losses) / len(losses), "last": losses[-1]}

add_fit("loop", "the loop of Tacit, again", loop)
add_fit("wrong", "returns no figures by name", lambda model, data, settings, generator: 3)

def labels(kind):
    r = np.random.default_rng(1)
    points = r.standard_normal((120, 6))
    return points, {
        "numbers": points[:, :2] * 3,
        "missing": np.where(np.arange(120)[:, None] % 3 > 0, points[:, :1], np.nan),
        "several": points[:, :3] > 0,
        "infinite": np.full(120, np.inf),
        "two": np.full((120, 2), 2, np.uint8),
        "outside": np.full((120, 6), 7, np.int64),
    }[kind]

for kind, names in (("numbers", ("a", "b")), ("missing", ("a",)), ("several", ("a", "b", "c")), ("infinite", ("a",)),
                    ("two", ("a", "b")), ("outside", ("a", "b")), ("unnamed", ("a",))):
    add_dataset(kind, kind, lambda kind=kind, names=names: Dataset(
        kind, *(labels("numbers" if kind == "unnamed" else kind)), names))

class Wrong(Task):
    def loss(self, model, batch):
        return batch.outputs.sum(1)[:1]

    def metrics(self, outputs, targets):
        return {}

add_task("wrong", "one loss for two points", Wrong())
add_model("deep", "two layers with a norm", lambda spec: nn.Sequential(
    nn.Flatten(), nn.Linear(64 if len(spec.shape) == 3 else spec.shape[0], 8), nn.BatchNorm1d(8), nn.ReLU(),
    nn.Linear(8, spec.classes)))
"""

SCENARIO = """
title = "one's own"
seed = 1
plugins = ["own.py"]
engine = "inline"
[data]
name = "digits"
clients = 3
limit = 150
labeled = 1.0
[protocol]
name = "fedavg"
[model]
name = "deep"
[training]
rounds = 2
epochs = 2
labeled_batch = 13
learning_rate = 0.1
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Scenario]:
    (tmp_path / "own.py").write_text(PLUGIN)
    (tmp_path / "own.toml").write_text(SCENARIO)
    return lambda *changes: load(tmp_path / "own.toml", changes)


def vector(scenario: Scenario, out: Path) -> np.ndarray:
    result = run(scenario, out=out)
    assert result.outcome == "completed", result.reason
    with np.load(result.folder / "model.npz") as arrays:
        return arrays["parameters"]


def test_a_loop_of_ones_own_trains_like_that_of_tacit(own: Callable[..., Scenario], tmp_path: Path) -> None:
    two = (vector(own(*changes), tmp_path / str(len(changes))) for changes in ([], ["training.fit=loop"]))
    np.testing.assert_allclose(*two, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [["training.averaging=secure", "sum.value_bits=16"], ["protocol.name=fedbuff"], ["protocol.name=dp-fedavg"]],
    ids=lambda changes: changes[0].partition("=")[2],
)
def test_it_goes_with_every_averaging_and_is_predicted(
    own: Callable[..., Scenario], tmp_path: Path, changes: list[str]
) -> None:
    private = ['model.private=["type:BatchNorm1d"]', "privacy.clip=1.0"] if "dp-" in changes[0] else []
    scenario = own("training.fit=loop", *private, *changes)
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed", result.reason
    assert result.equals_plaintext is not False
    rows = {row.type: row.payload for row in byte_rows(result.folder)}
    assert rows == {row.type: row.payload for row in tacit.predict(scenario).rows}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["training.fit=loops"], "training.fit: .loops. is not known; allowed: loop, wrong; did you mean loop"),
        (["training.fit=loop", "protocol.name=scaffold"], "replaces the loop of local training"),
        (["training.optimizer=adamw", "training.momentum=0.5"], "momentum.*is not an option of optimizer"),
        (["training.optimizer=adam", 'training.optimizer_options=["lr=3"]'], "which is the key training.learning_rate"),
        (["training.optimizer=adam", 'training.optimizer_options=["beta"]'], "must be NAME=VALUE"),
        (["training.optimizer=lbfgs"], "is not known; allowed: adadelta"),
        (["training.task=wrong"], "must give the loss of each point"),
        (["training.task=regression"], "labels are classes.*choose training.task = .classification."),
        (["data.name=numbers"], "labels are numbers.*choose training.task = .regression."),
        (["data.name=numbers", "training.task=regression", "protocol.name=fedavg+xclp"], "no features"),
        (["data.name=numbers", "training.task=regression", "protocol.name=fedmatch"], "no classes, which protocol"),
        (["data.name=numbers", "training.task=regression", "data.partition=dirichlet:1"], "are no classes"),
        (["data.name=several", "training.task=multi-label", "privacy.label_epsilon=2"], "label_epsilon: 2 randomises"),
        (["data.name=infinite", "training.task=regression"], "labels, row 0: inf is too large"),
        (["data.name=two", "training.task=multi-label"], "labels, row 0, column 0: 2 is neither 0 nor 1"),
        (["data.name=outside", "training.task=next-token"], "labels, row 0: 7 is not an index into classes, 0 to 1"),
        (["data.name=unnamed", "training.task=regression"], "classes are 1 names; there must be 2"),
        (['model.private=["head"]'], "model.private: .*fits no tensor of the network; it has 1.weight"),
        (['model.private=["*"]'], "no parameter to train for all clients: all are private"),
        (['model.kept=["1"]'], "fits 1.weight, which is a parameter and no buffer"),
        (['model.private=["1"]', 'model.frozen=["1"]'], "fits 1.weight, which is private"),
        (
            ['model.private=["4"]', "protocol.name=fedct", "public.size=30"],
            "model.private: has no effect where clients share no model",
        ),
        (['model.private=["4"]', "protocol.name=fedmatch"], "model.private: .*trains a second network"),
    ],
)
def test_mistakes_are_one_line(own: Callable[..., Scenario], changes: list[str], said: str) -> None:
    with pytest.raises(ScenarioError, match=said) as error:
        own(*changes)
    assert "\n" not in str(error.value)


def test_figures_without_names_end_the_run(own: Callable[..., Scenario], tmp_path: Path) -> None:
    result = run(own("training.fit=wrong"), out=tmp_path / "run")
    assert "must return its figures by name, not 3" in str(result.reason)


@pytest.mark.parametrize(
    ("name", "task"), [("numbers", "regression"), ("missing", "regression"), ("several", "multi-label")]
)
def test_labels_that_are_no_classes_are_learned(
    own: Callable[..., Scenario], tmp_path: Path, name: str, task: str
) -> None:
    scenario = own(f"data.name={name}", f"training.task={task}", "training.rounds=6", "data.limit=120")
    held = parts_of(scenario).held
    assert held.targets is not None
    assert (held.labels < 0).any() == (name == "missing")
    spec, rows = model_of(scenario, held), np.flatnonzero(held.labels >= 0)
    before = jobs.measured(spec, jobs.initial(spec, scenario.seed), held.points[rows], held.targets[rows])
    result = run(scenario, out=tmp_path / "run")
    with np.load(result.folder / "model.npz") as arrays:
        model = arrays["parameters"].astype("<f4").tobytes()
    after = jobs.measured(spec, model, held.points[rows], held.targets[rows])
    assert after["loss"] < 0.9 * before["loss"]
    score, better = {"regression": ("rmse", "smaller"), "multi-label": ("f1", "larger")}[task]
    assert (result.score, result.measured_on) == (score, f"the test part of the data set ({better} is better)")
    assert list(after) == {"regression": ["loss", "rmse", "mae"], "multi-label": ["loss", "f1", "accuracy"]}[task]


# --- what travels


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ([], 64 * 8 + 8 + 4 * 8 + 80 + 10),
        (['model.private=["type:BatchNorm1d"]'], 64 * 8 + 8 + 80 + 10),
        (['model.private=["4"]'], 64 * 8 + 8 + 4 * 8),
        (['model.frozen=["1"]'], 4 * 8 + 80 + 10),
        (['model.frozen=["2"]'], 64 * 8 + 8 + 80 + 10),
        (['model.kept=["2.running_*"]'], 64 * 8 + 8 + 2 * 8 + 80 + 10),
    ],
    ids=str,
)
def test_only_what_is_shared_is_sent(
    own: Callable[..., Scenario], tmp_path: Path, changes: list[str], numbers: int
) -> None:
    scenario = own(*changes, "training.rounds=1")
    rows = {row.type: row.payload for row in byte_rows(run(scenario, out=tmp_path / "run").folder)}
    assert rows["TrainingRound"] == 3 * 4 * numbers


@pytest.mark.parametrize(
    "changes", [["protocol.name=fedbuff"], ["protocol.name=scaffold"], ["training.update=fedprox"]], ids=str
)
def test_private_parts_go_with_other_algorithms(
    own: Callable[..., Scenario], tmp_path: Path, changes: list[str]
) -> None:
    scenario = own('model.private=["4"]', *changes)
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed", result.reason
    rows = {row.type: row.payload for row in byte_rows(result.folder)}
    assert rows == {row.type: row.payload for row in tacit.predict(scenario).rows}


def test_private_numbers_go_on_from_the_last_update(own: Callable[..., Scenario]) -> None:
    scenario = own('model.private=["type:BatchNorm1d", "4"]')
    held = parts_of(scenario).held
    spec, data = model_of(scenario, held), LocalData.supervised(held.points[:40], held.labels[:40])
    update, first = LocalUpdate(2, 10, learning_rate=0.1, device="cpu"), jobs.initial(spec, 1)
    one = jobs.train(spec, first, data, update, 0, 1)
    again = jobs.train(spec, first, data, update, 0, 1, private=one.private)
    assert len(one.private) == jobs.private_layout(spec).size == 4 * (4 * 8 + 80 + 10)
    assert again.loss < one.loss
    assert one.private != again.private
    assert jobs.train(spec, first, data, update, 0, 1) == one  # nothing of it outlives a job
    own_loss = jobs.measured(spec, one.parameters, data.images, data.labels, private=one.private)["loss"]
    assert own_loss < jobs.measured(spec, one.parameters, data.images, data.labels)["loss"]


# --- optimizers and schedules


@pytest.mark.parametrize(
    ("name", "rate", "options", "decay", "momentum", "make"),
    [
        ("adamw", 0.01, ("betas=[0.8, 0.9]", "amsgrad=true"), 0.1, 0.0,
         lambda one: torch.optim.AdamW(one, lr=0.01, betas=(0.8, 0.9), amsgrad=True, weight_decay=0.1)),
        ("rmsprop", 0.01, (), 0.0, 0.5, lambda one: torch.optim.RMSprop(one, lr=0.01, momentum=0.5)),
        ("sgd", 0.1, ("nesterov=true",), 0.01, 0.9,
         lambda one: torch.optim.SGD(one, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)),
    ],
)  # fmt: skip
def test_an_optimizer_is_that_of_torch(
    own: Callable[..., Scenario], name: str, rate: float, options: tuple[str, ...], decay: float, momentum: float,
    make: Callable[..., torch.optim.Optimizer],
) -> None:  # fmt: skip
    held = parts_of(own()).held
    spec, data = tacit.ModelSpec("linear", (64,), 10), LocalData.supervised(held.points[:30], held.labels[:30])
    update = LocalUpdate(
        3, 30, learning_rate=rate, weight_decay=decay, momentum=momentum, decay_rounds=0, device="cpu", optimizer=name,
        optimizer_options=options, gradient_clip=0.3,
    )  # fmt: skip
    first = jobs.initial(spec, 1)
    network = torch.nn.Linear(64, 10)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(decode(first).copy()), network.parameters())
    optimizer, inputs = make(network.parameters()), torch.from_numpy(held.points[:30].astype(np.float32))
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs), torch.from_numpy(held.labels[:30].copy())).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.3)
        optimizer.step()
    found = decode(jobs.train(spec, first, data, update, 0, 1).parameters)
    wanted = torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_rates_follow_the_schedule() -> None:
    def rates(schedule: str, rounds: int = 4, warmup: int = 0) -> list[float]:
        update = LocalUpdate(1, 10, learning_rate=1.0, schedule=schedule, decay_rounds=rounds, warmup_rounds=warmup)
        return [round(update.rate(10, number), 4) for number in range(6)]

    assert rates("cosine") == [1.0, 0.8536, 0.5, 0.1464, 0.0, 0.0]
    assert rates("linear") == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert rates("step", 2) == [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    assert rates("exponential", 2) == [1.0, 0.3162, 0.1, 0.0316, 0.01, 0.0032]
    assert rates("constant", warmup=3) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_another_optimizer_has_the_rate_of_torch(own: Callable[..., Scenario]) -> None:
    assert [jobs.default_rate(name) for name in ("sgd", "adamw", "adagrad")] == [None, 0.001, 0.01]


NAMED = """
import numpy as np
from tacit import Task, add_task
from tacit.parties.learning.tasks import Classification

class Named(Task):
    form, names = "numbers", ()
    def loss(self, model, batch):
        return (batch.outputs - batch.targets).square().mean(1)
    def metrics(self, outputs, targets):
        return {name: 1.0 for name in self.names}

class Classes(Classification):
    def metrics(self, outputs, targets):
        return super().metrics(outputs, targets) | {"auroc": 0.5}

for number, names in enumerate((("bytes", "test_bytes"), ("test_loss",), ("bytes", "other"))):
    add_task(f"named{number}", "numbers", type(f"Named{number}", (Named,), {"names": names})())
add_task("classes", "classes", Classes())
"""


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ("named0", 'metric "test_bytes", which is recorded as "test_bytes", as is the metric "bytes"; rename one'),
        ("named1", 'metric "test_loss", which is recorded as "test_loss", as is the mean loss; rename one'),
        ("named2", ""),
        ("classes", 'metric "auroc", which is recorded as "auroc", as is auroc of classes; rename one of them'),
    ],
)
def test_metrics_that_are_recorded_under_one_name_are_an_error(tmp_path: Path, task: str, problem: str) -> None:
    (tmp_path / "own.py").write_text(PLUGIN + NAMED)
    (tmp_path / "one.toml").write_text(SCENARIO)
    data = [] if task == "classes" else ["data.name=numbers", "model.name=linear"]
    changes = [*data, f"training.task={task}"]
    if not problem:
        assert load(tmp_path / "one.toml", changes).training.task == task
        return
    with pytest.raises(ScenarioError, match=re.escape(problem)):
        load(tmp_path / "one.toml", changes)
