"""Clients of co-training test their own models on points that they hold out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Result, ScenarioError, load, predict, run, steps
from tacit.parties.learning.metrics import counts_of, of_classes
from tacit.protocols.cotraining.experiment import learners_of
from tacit.protocols.cotraining.observer import CotrainedRound
from tacit.scenarios.command.main import app
from tacit.scenarios.files.splits import data_of, parts_of, split
from tacit.scenarios.running.continuing import continue_for
from tacit.scenarios.running.folder import FolderError, byte_rows
from tacit.scenarios.running.runner import resume

TINY = """
[data]
name = "digits"
clients = 4
limit = 240
labeled = 0.8
held_out = 0.3
[public]
size = 30
[protocol]
name = "fedct"
deadline = "5s"
[learner]
names = ["decision-tree", "network"]
[model]
name = "linear"
[cotraining]
rounds = 4
[training]
evaluation = "plain"
checkpoint_every = 1
[network]
latency = "lognormal:20ms,0.5"
"""

SECURE = ["cotraining.votes=secure", "training.evaluation=secure"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of four clients with learners of two kinds, which test their models."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def calm(file: Path) -> Result:
    """The result of the run without faults."""
    return run(load(file), out=file.parent / "calm", engine="inline")


def rounds(result: Result) -> list[CotrainedRound]:
    found = [one for one in result.round_records if isinstance(one, CotrainedRound)]
    assert len(found) == len(result.round_records)
    return found


def command(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    assert found.exit_code == 0, found.output
    return found.output


def expected(file: Path, result: Result) -> dict[str, dict[str, float]]:
    """The metrics of each client's saved model on the points that it holds out, and those of all together ("")."""
    scenario = load(file)
    held = parts_of(scenario).held
    shards = split(held, data_of(scenario), scenario.seed)
    counts = {}
    with np.load(result.folder / "model.npz") as arrays:
        for i, (shard, learner) in enumerate(zip(shards, learners_of(scenario, held), strict=True)):
            assert shard.test_points is not None and shard.test_targets is not None and len(shard.test_points)
            found = learner.predict(arrays[f"client-{i}"].tobytes(), shard.test_points)
            counts[f"client/{i}"] = counts_of(found, shard.test_targets, len(held.classes))
    counts[""] = np.sum([*counts.values()], axis=0)
    return {name: of_classes(one) for name, one in counts.items()}


def test_figures_are_those_of_each_clients_own_model(file: Path, calm: Result) -> None:
    own = expected(file, calm)
    whole = own.pop("")
    assert {name: calm.evaluation[name] for name in whole} == pytest.approx(whole)
    assert calm.evaluation_by_client == own
    accuracies = [one["accuracy"] for one in own.values()]
    assert len(set(accuracies)) > 1
    assert calm.evaluation["accuracy_worst"] == min(accuracies)
    assert calm.evaluation["accuracy_mean"] == pytest.approx(np.mean(accuracies))
    assert calm.evaluation["clients"] == 4
    assert sum(row["points"] for row in calm.evaluation_by_class.values()) == calm.evaluation["points"]
    assert [bool(one.evaluation) for one in rounds(calm)] == [True] * 4
    assert rounds(calm)[-1].evaluation == calm.evaluation


@pytest.mark.parametrize("votes", ("secure", "committee", "flamingo"))
def test_a_secure_sum_of_votes_adds_the_same_figures(file: Path, tmp_path: Path, votes: str) -> None:
    found = run(load(file, [*SECURE, f"cotraining.votes={votes}"]), out=tmp_path / "run", engine="inline")
    whole = expected(file, found)[""]
    assert {name: found.evaluation[name] for name in whole} == pytest.approx(whole)
    assert found.evaluation["clients"] == 4 and found.evaluation_by_client == {}
    assert not {row.type for row in byte_rows(found.folder)} & {"LearnerFigures", "LearnerToTest"}
    assert command("bytes", found.folder, "--check")
    assert "held out, summed)" in command("run", found.folder, "--out", tmp_path / "again")


@pytest.mark.parametrize("changes", ([], SECURE, ["cotraining.votes=prio3"], ["training.evaluate_every=3"]))
def test_bytes_are_predicted_and_follow_from_the_formula(file: Path, tmp_path: Path, changes: list[str]) -> None:
    scenario = load(file, changes)
    found = run(scenario, out=tmp_path / "run", engine="inline")
    predicted = predict(scenario, seeds=1)
    assert sum(row.total for row in predicted.rows) == found.bytes_total
    assert predicted.virtual_seconds == pytest.approx(found.virtual_seconds)
    assert command("bytes", found.folder, "--check")
    tests = 0 if changes == SECURE else 2 if changes == ["training.evaluate_every=3"] else 4
    assert (found.formula or {}).get("LearnerFigures", 0) == tests * 4 * 8 * 100
    assert {"train.evaluate"} < {one.name for one in steps("fedct")}


def test_figures_change_no_model(file: Path, calm: Result, tmp_path: Path) -> None:
    """As long as clients hold the same points out."""
    found = run(load(file, ["training.evaluate_every=4"]), out=tmp_path / "run", engine="inline")
    assert (found.model_digest, found.labels_digest) == (calm.model_digest, calm.labels_digest)
    assert found.evaluation == calm.evaluation


@pytest.mark.parametrize("fault", ("crash", "lose"))
def test_a_loss_while_testing_costs_the_figures_of_that_client_alone(
    file: Path, calm: Result, tmp_path: Path, fault: str
) -> None:
    struck = {
        "crash": 'kind = "crash"\nparty = "client/1"\nbefore = "train.evaluate"\noccurrence = 2\nback_after = "4s"',
        "lose": 'kind = "lose"\nparty = "client/1"\nmessage = "LearnerFigures"\nprobability = 1',
    }[fault]
    (tmp_path / "tiny.toml").write_text(f"{TINY}[[fault]]\n{struck}\n")
    changes = ["network.transport=datagram"] if fault == "lose" else []
    found = run(load(tmp_path / "tiny.toml", changes), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed"
    hit = [number for number, one in enumerate(rounds(found), 1) if one.evaluation["clients"] == 3]
    assert hit == ([2] if fault == "crash" else [1, 2, 3, 4])
    lost = {(loss.party, loss.round) for loss in found.lost if loss.step == "train.evaluate"}
    assert lost == {("client/1", number) for number in hit}
    assert all(len(one.answered) == 4 for one in rounds(found))
    assert found.labels_digest == calm.labels_digest


def test_a_killed_and_resumed_run_has_the_same_figures(
    file: Path, calm: Result, break_off: Callable[..., None], tmp_path: Path
) -> None:
    break_off(file, tmp_path / "run", 150)
    assert (tmp_path / "run" / "checkpoint").is_file()
    found = resume(tmp_path / "run", engine="inline")
    assert found.resumed and found.trace_hash == calm.trace_hash
    assert found.evaluation == calm.evaluation and rounds(found) == rounds(calm)


def test_a_run_is_continued_where_its_last_round_would_have_been_tested_anyway(file: Path, tmp_path: Path) -> None:
    changes = ["training.evaluate_every=2"]
    whole = run(load(file, changes), out=tmp_path / "whole", engine="inline")
    run(load(file, [*changes, "cotraining.rounds=2"]), out=tmp_path / "run", engine="inline")
    found = resume(continue_for(tmp_path / "run", "cotraining.rounds", 4), engine="inline")
    assert found.trace_hash == whole.trace_hash and found.evaluation == whole.evaluation
    run(load(file, [*changes, "cotraining.rounds=1"]), out=tmp_path / "other", engine="inline")
    with pytest.raises(FolderError, match="clients have tested the model after its last round"):
        continue_for(tmp_path / "other", "cotraining.rounds", 4)


def test_a_curious_server_still_asks_afterwards(file: Path, tmp_path: Path) -> None:
    changes = ["attack.kind=membership", "attack.points=10", "attack.epochs=2", "cotraining.rounds=2"]
    plain, tested = (
        run(load(file, [*changes, f"training.evaluation={one}"]), out=tmp_path / one, engine="inline")
        for one in ("none", "plain")
    )
    for found in (plain, tested):
        answers = next(row for row in byte_rows(found.folder) if row.type == "LocalPredictions")
        assert answers.messages == 4 * (2 + 2)
        assert found.vulnerability is not None and found.vulnerability.messages == 4 * 2
    assert tested.evaluation["clients"] == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.held_out=0"], r"data.held_out: 0 leaves clients no points of their own"),
        (["protocol.name=dp-fedct", "privacy.epsilon=8"], "without noise, which dp-fedct promises"),
        (["privacy.label_epsilon=2"], "without noise, which privacy.label_epsilon promises"),
        (
            ["cotraining.votes=prio3", "privacy.votes_epsilon=50", "privacy.delta=0.001"],
            "without noise, which privacy.votes_epsilon promises",
        ),
        (["training.evaluation=secure"], "cotraining.votes is .plain., which has none"),
        (["training.evaluation=secure", "cotraining.votes=prio3"], "whose proofs are of one label for each point"),
        (["training.evaluation=secure", "protocol.name=local"], "and local counts no votes"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_an_error_before_the_run(file: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load(file, changes)
