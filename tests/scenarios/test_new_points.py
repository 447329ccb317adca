"""XCLP as one-shot prediction: new points with training data, a client left out, partly labeled training data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import Result, ScenarioError, run
from tacit.parties.data.splits import Shard
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.splits import split_data
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.simulation import Simulation


def settings(**values: Any) -> list[str]:
    return [f"data.{key}={value}" for key, value in values.items()]


def run_completed(quick: Path, out: Path, **values: Any) -> tuple[Result, list[Shard]]:
    scenario = read(quick, settings(**{"limit": 200, **values})).scenario
    result = run(scenario, out=out)
    assert (result.outcome, result.unmet) == ("completed", [])
    return result, split_data(scenario)[1]


def accuracy_by_hand(result: Result, shards: list[Shard], counts: Any, of_class: int | None = None) -> float:
    """The accuracy from labels.csv; `counts(shard)` are the points that count, optionally only those `of_class`."""
    lines = [line.split(",") for line in (result.folder / "labels.csv").read_text().splitlines()[1:]]
    found = {(party, int(row)): label for party, _, row, label, _ in lines}
    hits = [
        found.get((f"client/{i}", int(row))) == str(label)
        for i, shard in enumerate(shards)
        for row, label, counting in zip(shard.rows, shard.labels, counts(shard), strict=True)
        if counting and of_class in (None, label)
    ]
    return float(np.mean(hits))


@pytest.mark.parametrize("recipe", ["paper", "authors-code"])
@pytest.mark.parametrize("labeled", [1.0, 0.4])
def test_new_points_are_predicted_and_scored_apart(quick: Path, tmp_path: Path, labeled: float, recipe: str) -> None:
    scenario = read(quick, [*settings(limit=200, new=0.3, labeled=labeled), f"protocol.recipe={recipe}"]).scenario
    result, shards = run(scenario, out=tmp_path / "out"), split_data(scenario)[1]
    assert (result.outcome, result.unmet) == ("completed", [])
    assert all(shard.new.sum() == 15 for shard in shards)
    assert all((shard.labeled == ~shard.new).all() for shard in shards) == (labeled == 1.0)
    assert result.accuracy == accuracy_by_hand(result, shards, lambda shard: shard.new)
    classes = {int(label) for shard in shards for label in shard.labels[shard.new]}
    shares = [accuracy_by_hand(result, shards, lambda shard: shard.new, of_class) for of_class in sorted(classes)]
    assert result.balanced_accuracy == pytest.approx(np.mean(shares)) != result.accuracy
    assert result.measured_on.startswith("the new points")
    assert (
        set(result.balanced_baselines)
        == set(result.baselines)
        == {"per-client label propagation", "central label propagation"}
    )
    assert sum(predicted(result.folder).values()) == result.bytes_payload


@pytest.mark.parametrize("rows", ["unlabeled", "paper"])
def test_orthogonal_planes_give_other_bits_and_labels_equal_to_the_oracle(
    quick: Path, tmp_path: Path, rows: str
) -> None:
    found = {}
    for planes in ("gaussian", "orthogonal"):
        changes = [f"protocol.planes={planes}", "protocol.recipe=authors-code", f"protocol.rows={rows}"]
        result = run(read(quick, changes).scenario, out=tmp_path / planes)
        assert (result.outcome, result.unmet, result.equals_plaintext) == ("completed", [], True)
        found[planes] = result
    assert found["gaussian"].hamming_digest != found["orthogonal"].hamming_digest
    assert found["gaussian"].bytes_total == found["orthogonal"].bytes_total


def test_each_client_has_the_given_number_of_new_points(quick: Path, tmp_path: Path) -> None:
    _, shards = run_completed(quick, tmp_path / "out", new=7, labeled=1.0)
    assert [shard.new.sum() for shard in shards] == [7, 7, 7, 7]


def test_one_client_can_be_left_out_of_training(quick: Path, tmp_path: Path) -> None:
    result, shards = run_completed(quick, tmp_path / "out", without_labels='["client/2"]', labeled=1.0)
    assert [bool(shard.labeled.all()) for shard in shards] == [True, True, False, True]
    assert not shards[2].labeled.any() and shards[2].new.all()
    assert result.accuracy == accuracy_by_hand(result, shards, lambda shard: shard.new)
    assert result.accuracy is not None and result.accuracy > 0.5
    assert set(result.baselines) == {"central label propagation"}  # no client with such points has labels


def test_unlabeled_training_data_changes_no_labeled_or_new_points(quick: Path, tmp_path: Path) -> None:
    found = {}
    for share in (0, 0.5, 1):
        result, shards = run_completed(
            quick, tmp_path / str(share), new=10, labels_per_client=12, unlabeled=share, clients=4
        )
        assert [shard.labeled.sum() for shard in shards] == [12] * 4
        assert [len(shard.rows) - shard.labeled.sum() - shard.new.sum() for shard in shards] == [round(28 * share)] * 4
        found[share] = [(shard.rows[shard.new].tolist(), shard.rows[shard.labeled].tolist()) for shard in shards]
        assert result.accuracy == accuracy_by_hand(result, shards, lambda shard: shard.new)
    assert found[0] == found[0.5] == found[1]


def test_without_new_points_accuracy_is_that_of_the_unlabeled(quick: Path, tmp_path: Path) -> None:
    result, shards = run_completed(quick, tmp_path / "out")
    assert result.accuracy == accuracy_by_hand(result, shards, lambda shard: ~shard.labeled)
    assert result.measured_on.startswith("the unlabeled points")


@pytest.mark.parametrize(
    ("values", "key", "problem"),
    [
        ({"new": 1.5}, "data.new", "1.5 must be a share below 1, or a whole number of points"),
        ({"new": 99}, "data.new", "99 is more than client 0's 15 points with a known label"),
        ({"without_labels": '["client/4"]'}, "data.without_labels", "'client/4' must be clients, client/0 to client/3"),
        ({"without_labels": '["server"]'}, "data.without_labels", "'server' must be clients, client/0 to client/3"),
        ({"unlabeled": 0, "labeled_clients": 3}, "data.unlabeled", "0.0 leaves client 3 no point"),
    ],
)
def test_an_impossible_split_is_an_error_at_its_key(quick: Path, values: Any, key: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as error:
        read(quick, settings(**values))
    assert (error.value.key, error.value.problem) == (key, problem)


def test_a_client_with_only_new_points_gets_labels_for_all_points(quick: Path) -> None:
    simulation = Simulation(read(quick, settings(without_labels='["client/0"]', labeled=1.0)).scenario, engine="inline")
    simulation.run()
    try:
        labels = [client.labels for client in simulation.clients]
        assert [len(own.labels) for own in labels] == [15, 0, 0, 0]
    finally:
        simulation.close()


@pytest.mark.parametrize("more", [[], ["data.test=1700"]], ids=["training part", "all rows but some"])
def test_xclp_after_training_has_the_same_new_points_as_xclp_alone(quick: Path, more: list[str]) -> None:
    given = ["data.limit=97", "data.new=0.5", "data.unlabeled=0.3", "data.partition=dirichlet:0.5", *more]
    found = []
    for name in ("xclp", "fedavg-then-xclp"):
        held, shards = split_data(read(quick, [*given, f"protocol.name={name}"]).scenario)
        assert len(held.labels) == 97 == (1797 - 1700)
        found.append([(s.rows.tolist(), s.new.tolist(), s.labeled.tolist(), s.points.tolist()) for s in shards])
    assert found[0] == found[1]
