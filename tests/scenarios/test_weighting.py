"""The default of `training.weighting`: that of the algorithm's paper, in averages, sums and what a run prints."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import tacit
from tacit import Scenario, ScenarioError, load, run
from tacit.parties.data.splits import Shard
from tacit.parties.learning import jobs
from tacit.parties.learning.vectors import decode
from tacit.protocols.federated.algorithms import ALGORITHMS
from tacit.protocols.federated.experiment import model_of
from tacit.scenarios.command.main import app
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.reporting.report import report

UNEVEN = [
    "protocol.name=fedavg",
    "data.clients=8",
    "data.limit=240",
    "data.labeled=1.0",
    "data.partition=dirichlet:0.5",
]
SUMS = ("lightsecagg", "committee", "flamingo", "secagg+", "secure")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_default_is_that_of_the_paper(tiny: Path, name: str) -> None:
    wanted = "points" if name in ("fedavg", "fedprox") else "equal"
    assert load(tiny, [f"protocol.name={name}"]).training.weighting == wanted


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (["training.update=fedprox"], "points"),
        (["training.update=scaffold"], "equal"),
        (["training.averaging=secure"], "points"),
        (["training.averaging=prio3", "sum.value_bits=8"], "equal"),
        (["training.weighting=equal"], "equal"),
        (["protocol.name=fedavg+xclp", "training.update=fedprox"], "equal"),
        (["protocol.name=scaffold", "training.weighting=points"], "points"),
    ],
)
def test_the_default_follows_from_the_update_and_the_average(tiny: Path, changes: list[str], wanted: str) -> None:
    assert load(tiny, ["protocol.name=fedavg", *changes]).training.weighting == wanted


def test_over_a_run_or_its_scenario_another_algorithm_weighs_as_its_own_paper_does(tiny: Path, tmp_path: Path) -> None:
    """A folder says what its run derived; a weighting that was chosen against the default stays."""
    folder = run(load(tiny, ["protocol.name=fedavg", "training.rounds=1"]), out=tmp_path / "run").folder
    assert tomllib.loads((folder / "scenario.toml").read_text())["training"]["weighting"] == "points"
    for source in (folder, load(folder)):
        assert load(source).training.weighting == "points"
        assert load(source, ["training.rounds=2"]).training.weighting == "points"
        assert load(source, ["protocol.name=scaffold"]).training.weighting == "equal"
        assert load(source, ["training.update=scaffold"]).training.weighting == "equal"
        assert load(source, ["protocol.name=scaffold", "training.weighting=points"]).training.weighting == "points"
    chosen = load(tiny, ["protocol.name=fedavg", "training.weighting=equal"])
    assert load(chosen, ["protocol.name=fedprox"]).training.weighting == "equal"


def test_over_other_data_a_run_has_the_clients_of_those(tmp_path: Path) -> None:
    def rows(clients: int, labels: int) -> str:
        lines = [f"{i % 7},{-i},{i % labels},site {i % clients}" for i in range(12 * clients)]
        return "\n".join(["a,b,label,client", *lines, ""])

    scenario = tmp_path / "natural.toml"
    (tmp_path / "two.csv").write_text(rows(2, 2))
    (tmp_path / "three.csv").write_text(rows(3, 2))
    scenario.write_text(
        'title = "t"\n[data]\npath = "two.csv"\npartition = "natural"\nlabeled = 1.0\n'
        '[protocol]\nname = "fedavg"\nmin_clients = 2\n[model]\nname = "linear"\n[training]\nrounds = 1\nepochs = 1\n'
    )
    folder = run(load(scenario), out=tmp_path / "run").folder
    other = f"data.path={tmp_path / 'three.csv'}"
    assert load(folder).data.clients == load(folder, ["training.rounds=2"]).data.clients == 2
    assert load(folder, [other]).data.clients == 3
    assert load(folder, [other, "data.clients=3"]).data.clients == 3


def gradient(shard: Shard, model: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gradient of the mean cross-entropy of softmax regression, with weight decay."""
    points, count = shard.points.reshape(len(shard.labels), -1).astype(np.float64), len(shard.labels)
    weights, bias = model[:-10].reshape(10, -1), model[-10:]
    scores = np.exp(points @ weights.T + bias)
    errors = (scores / scores.sum(1, keepdims=True) - np.eye(10)[shard.labels]) / count
    return np.concatenate([(errors.T @ points).ravel(), errors.sum(0)]) + 2e-4 * model


def test_fedavg_averages_models_by_points(tiny: Path, tmp_path: Path) -> None:
    """One step of softmax regression in numpy: sum n_k w_k / sum n_k, which differs from the mean of all w_k."""
    alone = ["training.rounds=1", "training.validation=0.0", "training.warmup_rounds=0", "training.decay_rounds=0"]
    scenario = load(tiny, [*UNEVEN, *alone, "training.labeled_batch=1000"])
    result = run(scenario, out=tmp_path / "run")
    material = material_of(scenario)
    first = decode(jobs.initial(model_of(scenario, material.parts.held), scenario.seed)).astype(np.float64)
    counts = np.array([len(shard.labels) for shard in material.shards if len(shard.labels)])
    models = np.array([first - 0.5 * gradient(shard, first) for shard in material.shards if len(shard.labels)])
    with np.load(result.folder / "model.npz") as arrays:
        found = arrays["parameters"]
    wanted = counts @ models / counts.sum()
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.abs(models.mean(0) - wanted).max() > 1e-3


@pytest.mark.parametrize(
    ("averaging", "bits"),
    [("plain", "exact"), ("secure", "exact"), *((one, "10") for one in SUMS)],
)
def test_averages_by_points_equal_the_oracle_and_the_prediction(
    tiny: Path, tmp_path: Path, averaging: str, bits: str
) -> None:
    few = ["training.min_clients=3", "training.rounds=1", "sum.decryptor_rounds=1"]
    scenario = load(tiny, [*UNEVEN, *few, f"training.averaging={averaging}", f"sum.value_bits={bits}"])
    assert scenario.training.weighting == "points"
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed" and result.equals_plaintext
    rows = tacit.bytes(result).rows
    assert {row.type: row.payload for row in rows} == {row.type: row.payload for row in tacit.predict(scenario).rows}
    assert len({len(shard.labels) for shard in material_of(scenario).shards}) > 3


def test_a_run_says_how_models_are_weighed(tiny: Path) -> None:
    folder = tiny.parent / "run"
    done = CliRunner().invoke(app, ["run", str(tiny), "--set", "protocol.name=fedavg", "--out", str(folder)])
    assert 'training.weighting = "points": averages weigh each model by the points' in " ".join(done.output.split())
    assert tomllib.loads((folder / "scenario.toml").read_text())["training"]["weighting"] == "points"
    page = report([folder])
    assert "training.weighting</code></th><td><code>&quot;points&quot;" in page


def test_a_folder_whose_weights_prio3_cannot_prove_is_refused(tiny: Path, tmp_path: Path) -> None:
    result = run(load(tiny, ["protocol.name=fedavg", "training.rounds=1"]), out=tmp_path / "run")
    changes = ["training.averaging=prio3", "sum.value_bits=8", "training.min_clients=2"]
    with pytest.raises(ScenarioError, match=r'"points" does not go with .*"prio3".*allowed: "equal", the default with'):
        load(result.folder, changes)
    assert load(result.folder, [*changes, "training.weighting=equal"]).training.averaging == "prio3"


def test_coded_masks_refuse_weights_beyond_their_field(tiny: Path) -> None:
    changes = [*UNEVEN, "training.averaging=lightsecagg", "training.min_clients=3"]

    def wide(bits: int, *more: str) -> Scenario:
        return load(tiny, [*changes, f"sum.value_bits={bits}", *more])

    with pytest.raises(
        ScenarioError, match=r'weights of up to \d+; allowed: 2 to (2\d), or training.weighting = "equal"'
    ):
        wide(28)
    assert wide(27, "training.weighting=equal").training.weighting == "equal"
