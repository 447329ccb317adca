"""Scenarios with Byzantine clients: their effect on agreed labels and averages, and on measured accuracies."""

from pathlib import Path

import numpy as np
import pytest

from tacit import Result, ScenarioError, load, run
from tacit.scenarios.files.reading import read

LIED_TO = """
title = "Some of five clients lie"
seed = 2
engine = "inline"
cost = "free"
[data]
name = "digits"
clients = 5
labeled = 1.0
limit = 500
[public]
size = 100
[protocol]
name = "fedct"
[model]
name = "linear"
[learner]
name = "network"
learning_rate = 0.05
steps = 20
[cotraining]
rounds = 2
[training]
validation = 0.0
device = "cpu"
[network]
latency = "5ms"
"""

AVERAGED = (
    "protocol.name=fedavg", "data.limit=200", "training.epochs=2", "training.rounds=2", "training.min_clients=2",
    "sum.clip=1.0", "byzantine.clients=1",
)  # fmt: skip
"""Federated training with a Byzantine client."""
ONCE = "training.rounds=1"


def ran(folder: Path, *changes: str) -> Result:
    path = folder / "lied.toml"
    path.write_text(LIED_TO)
    return run(load(path, changes), out=folder / f"run-{len([*folder.iterdir()])}")


def agreed_accuracies(result: Result) -> list[float]:
    return [one.agreed_accuracy for one in result.round_records]


@pytest.mark.parametrize("kind", ["random", "flipped", "colluding"])
def test_accuracy_is_measured_on_honest_clients_only(tmp_path: Path, kind: str) -> None:
    result = ran(tmp_path, f"byzantine.kind={kind}", "byzantine.clients=2")
    assert (result.outcome, result.lost) == ("completed", [])
    assert set(result.client_accuracy) == {"client/0", "client/1", "client/2"}
    assert result.accuracy == pytest.approx(sum(result.client_accuracy.values()) / 3)


def test_colluding_clients_decide_once_they_are_the_majority(tmp_path: Path) -> None:
    few, many = (ran(tmp_path, "byzantine.kind=colluding", f"byzantine.clients={n}") for n in (1, 3))
    assert min(agreed_accuracies(few)) > 0.7
    assert max(agreed_accuracies(many)) < 0.2
    assert few.accuracy is not None and many.accuracy is not None and few.accuracy > many.accuracy


def test_a_qualified_majority_leaves_points_out_instead_of_taking_false_labels(tmp_path: Path) -> None:
    lies = ["byzantine.kind=colluding", "byzantine.clients=2"]
    few = ran(tmp_path, *lies, "cotraining.consensus=qualified", "cotraining.quorum=0.9")
    assert [one.agreed for one in few.round_records] == [0.0, 0.0]


def test_without_byzantine_clients_their_kind_does_not_change_the_trace(tmp_path: Path) -> None:
    assert ran(tmp_path).trace_hash == ran(tmp_path, "byzantine.kind=colluding").trace_hash
    assert ran(tmp_path, "byzantine.clients=1").trace_hash != ran(tmp_path, "byzantine.clients=2").trace_hash


def test_false_labels_in_federated_training_and_only_false_clients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match='"random" is no kind of false updates; allowed: "scaled", "stuffed"'):
        ran(tmp_path, *AVERAGED)
    with pytest.raises(ScenarioError, match="leave no honest one"):
        ran(tmp_path, *AVERAGED, "byzantine.kind=noise", "byzantine.clients=5")
    with pytest.raises(ScenarioError, match='"membership" does not go with byzantine'):
        ran(tmp_path, *AVERAGED, "byzantine.kind=noise", "attack.kind=membership")


@pytest.mark.parametrize("kind", ["scaled", "stuffed", "noise"])
def test_a_false_model_counts_in_a_plain_average(tmp_path: Path, kind: str) -> None:
    result = ran(tmp_path, *AVERAGED, f"byzantine.kind={kind}")
    assert (result.outcome, result.lost, result.equals_plaintext) == ("completed", [], True)
    honest = ran(tmp_path, *AVERAGED, "byzantine.clients=0", f"byzantine.kind={kind}")
    assert result.model_digest != honest.model_digest


@pytest.mark.parametrize(
    ("averaging", "weighting"),
    [
        ("secure", "equal"), ("secure", "points"), ("secagg+", "points"), ("lightsecagg", "points"),
        ("committee", "points"), ("flamingo", "equal"), ("prio3", "equal"),
    ],
)  # fmt: skip
def test_a_false_model_counts_in_a_sum_of_integers_modulo_the_words(
    tmp_path: Path, averaging: str, weighting: str
) -> None:
    keys = f"training.averaging={averaging}", f"training.weighting={weighting}", "sum.value_bits=6"
    result = ran(tmp_path, *AVERAGED, *keys, "byzantine.kind=noise", "training.rounds=1")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)
    assert [loss.party for loss in result.lost] == (["client/4"] if averaging == "prio3" else [])


@pytest.mark.parametrize("kind", ["scaled", "stuffed", "noise"])
def test_prio3_refuses_numbers_out_of_range_and_bounds_the_others(tmp_path: Path, kind: str) -> None:
    keys = "sum.value_bits=8", f"byzantine.kind={kind}"
    refused = ran(tmp_path, *AVERAGED, *keys, "training.averaging=prio3")
    assert {one.averaged for one in refused.round_records} == {tuple(f"client/{i}" for i in range(4))}
    (loss,) = {one.action for one in refused.lost}
    assert loss.startswith("its report is refused: the report's proof fails")
    inside = ran(tmp_path, *AVERAGED, *keys, "training.averaging=prio3", "byzantine.clipped=true", ONCE)
    assert (inside.lost, inside.equals_plaintext) == ([], True)
    small = ran(tmp_path, *AVERAGED, *keys, "training.averaging=prio3", "byzantine.weight=1", "sum.clip=20", ONCE)
    assert small.lost == [] and small.equals_plaintext  # all numbers of its model are in range


def test_a_false_model_moves_an_average_of_proved_numbers_by_the_clip_at_most(tmp_path: Path) -> None:
    keys = *AVERAGED, "sum.value_bits=8", "training.averaging=prio3", "training.rounds=1"
    models = []
    for changes in (("byzantine.clients=0",), ("byzantine.kind=noise", "byzantine.clipped=true")):
        result = ran(tmp_path, *keys, *changes)
        models.append(np.load(result.folder / "model.npz")["parameters"])
    moved = np.abs(models[0] - models[1]).max()
    assert 0.1 < moved <= 2 * 1.0 / 5 + 1e-6


def test_fedbuff_averages_false_models_and_dp_fedavg_has_no_false_clients(tmp_path: Path) -> None:
    noise = "byzantine.kind=noise"
    buffered = (*AVERAGED[:-1], "protocol.name=fedbuff", "training.min_clients=1")
    lied = ran(tmp_path, *buffered, noise, "byzantine.clients=1")
    assert lied.outcome == "completed" and lied.model_digest != ran(tmp_path, *buffered).model_digest
    private = (*AVERAGED, "protocol.name=dp-fedavg", "training.min_clients=1", noise)
    assert "byzantine.clients" in read(tmp_path / "lied.toml", list(private)).unused


def test_keys_of_false_models_need_false_clients_and_values_in_range(tmp_path: Path) -> None:
    (tmp_path / "lied.toml").write_text(LIED_TO)

    def needless(*changes: str) -> set[str]:
        return {*read(tmp_path / "lied.toml", list(changes)).needless}

    keys = "byzantine.weight=2", "byzantine.clipped=true"
    assert needless(*keys) == {"byzantine.weight", "byzantine.clipped"}
    training = (*keys, *AVERAGED, "byzantine.kind=scaled")
    assert needless(*training) == {"byzantine.clipped", "sum.clip"}
    assert needless(*training, "training.averaging=secure", "sum.value_bits=8") == set()
