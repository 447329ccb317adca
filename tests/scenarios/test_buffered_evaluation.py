"""Clients of FedBuff test models on points that they hold out, while others train."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Result, ScenarioError, load, predict, run, steps
from tacit.parties.learning import jobs
from tacit.protocols.federated.buffered import BufferedRound
from tacit.protocols.federated.experiment import model_of
from tacit.protocols.federated.round import PRIVATE
from tacit.scenarios.command.main import app
from tacit.scenarios.files.splits import data_of, parts_of, split
from tacit.scenarios.running.continuing import continue_for
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.running.runner import resume
from tacit.scenarios.running.simulation import Simulation

TINY = """
[data]
name = "digits"
clients = 6
limit = 400
labeled = 0.8
held_out = 0.3
[protocol]
name = "fedbuff"
deadline = "5s"
[model]
name = "linear"
[training]
rounds = 5
evaluation = "plain"
checkpoint_every = 1
[network]
latency = "lognormal:20ms,0.5"
"""

STRAGGLER = '[[fault]]\nkind = "slow"\nparty = "client/2"\nfactor = 60\ntime = "0s"\n'


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of six clients that test models, one of which is slow."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.toml"
    path.write_text(TINY + STRAGGLER)
    return path


@pytest.fixture(scope="module")
def calm(file: Path) -> Result:
    """The result of the run."""
    return run(load(file), out=file.parent / "calm", engine="inline")


def rounds(result: Result) -> list[BufferedRound]:
    found = [one for one in result.round_records if isinstance(one, BufferedRound)]
    assert len(found) == len(result.round_records)
    return found


def command(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    assert found.exit_code == 0, found.output
    return found.output


def test_figures_of_each_round_are_those_of_its_model(file: Path, calm: Result) -> None:
    scenario = load(file)
    held = parts_of(scenario).held
    shards = split(held, data_of(scenario), scenario.seed)
    points, labels = (np.concatenate([getattr(one, at) for one in shards]) for at in ("test_points", "test_targets"))
    simulation, models = Simulation(scenario, engine="inline"), []
    simulation.server.observers.append(lambda record: models.append(simulation.server.model))
    try:
        simulation.run()
    finally:
        simulation.close()
    for one, model in zip(rounds(calm), models, strict=True):
        central = jobs.measured(model_of(scenario, held), model, points, labels, further=True)
        assert one.evaluation["clients"] == 6 and one.evaluation["points"] == len(labels)
        for name in ("accuracy", "balanced_accuracy", "macro_f1"):
            assert one.evaluation[name] == pytest.approx(central[name], rel=1e-12)
        assert one.evaluation["loss"] == pytest.approx(central["loss"], rel=1e-6)
    assert calm.evaluation == rounds(calm)[-1].evaluation and len(calm.evaluation_by_client) == 6


def test_training_does_not_wait_for_figures(file: Path, calm: Result) -> None:
    """Those of the slow client come after it has sent its own model, rounds later."""
    query = "SELECT round, sent FROM messages WHERE type = 'BufferedFigures' AND sender = 'client/2' ORDER BY sent"
    with closing(sqlite3.connect(calm.folder / "run.sqlite")) as record:
        sent = dict(record.execute(query).fetchall())
    began = {one.round: one.began for one in rounds(calm)}
    assert sorted(sent) == [1, 2, 3, 4, 5]
    assert any(sent[number] > began[number + 2] for number in (1, 2, 3))
    assert not calm.lost


@pytest.mark.parametrize("changes", ([], ["training.evaluate_every=2"], ['model.private=["head"]']))
def test_bytes_are_predicted_and_follow_from_the_formula(file: Path, tmp_path: Path, changes: list[str]) -> None:
    if changes and changes[0].startswith("model"):
        changes = ["model.name=linear_embedding", "model.embedding=8", *changes]
    scenario = load(file, changes)
    found = run(scenario, out=tmp_path / "run", engine="inline")
    predicted = predict(scenario, seeds=1)
    assert sum(row.total for row in predicted.rows) == found.bytes_total
    assert predicted.virtual_seconds == pytest.approx(found.virtual_seconds)
    tests = 3 if "training.evaluate_every=2" in changes else 5
    assert found.formula is not None and found.formula["BufferedFigures"] == tests * 6 * 8 * 101
    assert command("bytes", found.folder, "--check")
    assert {"train.evaluate"} < {one.name for one in steps("fedbuff")}


@pytest.mark.parametrize("milliseconds", [170, *(pytest.param(one, marks=pytest.mark.long) for one in (100, 260))])
def test_a_killed_and_resumed_run_has_the_same_figures(
    file: Path, calm: Result, break_off: Callable[..., None], tmp_path: Path, milliseconds: int
) -> None:
    break_off(file, tmp_path / "run", milliseconds)
    found = resume(tmp_path / "run", engine="inline")
    assert found.trace_hash == calm.trace_hash
    assert found.evaluation == calm.evaluation and rounds(found) == rounds(calm) and found.endings == calm.endings
    assert (tmp_path / "run" / "rounds.csv").read_text() == (calm.folder / "rounds.csv").read_text()


def test_a_pool_gives_the_same_figures(file: Path, calm: Result, tmp_path: Path) -> None:
    found = run(load(file), out=tmp_path / "run", engine="pool:2")
    assert found.trace_hash == calm.trace_hash and found.evaluation == calm.evaluation


@pytest.mark.parametrize("fault", ("crash", "lose"))
def test_a_loss_while_testing_costs_the_figures_of_that_client_alone(file: Path, tmp_path: Path, fault: str) -> None:
    struck = {
        "crash": 'kind = "crash"\nparty = "client/1"\nbefore = "train.evaluate"\noccurrence = 2\nback_after = "50ms"',
        "lose": 'kind = "lose"\nparty = "client/1"\nmessage = "BufferedFigures"\nprobability = 1',
    }[fault]
    (tmp_path / "tiny.toml").write_text(f"{TINY}[[fault]]\n{struck}\n")
    changes = ["network.transport=datagram"] if fault == "lose" else []
    found = run(load(tmp_path / "tiny.toml", changes), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed" and found.equals_plaintext
    missing = [one.round for one in rounds(found) if one.evaluation["clients"] == 5]
    assert missing == [1, 2, 3, 4, 5] if fault == "lose" else 2 in missing
    assert all(one.evaluation["clients"] >= 5 for one in rounds(found))
    lost = [loss.party for loss in found.lost if loss.step == "train.evaluate"]
    assert set(lost) == {"client/1"}


def test_a_lost_last_round_ends_the_tests_before_it(file: Path, tmp_path: Path) -> None:
    every = "".join(
        f'[[fault]]\nkind = "crash"\nparty = "client/{i}"\nbefore = "train.update"\noccurrence = 3\n' for i in range(5)
    )
    (tmp_path / "tiny.toml").write_text(TINY + every)
    found = run(load(tmp_path / "tiny.toml"), out=tmp_path / "run", engine="inline")
    *held, last = rounds(found)
    assert last.problem and not last.evaluation
    assert all(one.evaluation for one in held if not one.problem) and any(one.evaluation for one in held)


def test_clients_with_private_layers_test_the_model_with_their_own(file: Path) -> None:
    changes = ["model.name=linear_embedding", "model.embedding=8", 'model.private=["head"]']
    simulation = Simulation(load(file, changes), engine="inline")
    try:
        simulation.run()
        server = simulation.server
        for client in simulation.clients:
            shard, own = client.shard, client.disk[PRIVATE]
            found = jobs.measured(server.settings.spec, server.model, shard.test_points, shard.test_targets, "cpu", own)
            counts = server.sent[client.name][1:].reshape(10, 10)
            assert own and counts.trace() / counts.sum() == pytest.approx(found["accuracy"])
    finally:
        simulation.close()


def test_a_run_with_tests_is_not_continued(calm: Result) -> None:
    with pytest.raises(FolderError, match="clients at work were dismissed after its last round"):
        continue_for(calm.folder, "training.rounds", 9)


def test_a_secure_sum_of_figures_is_refused(file: Path) -> None:
    with pytest.raises(ScenarioError, match=r"training.evaluation: .secure. adds .* and .fedbuff. takes each model by"):
        load(file, ["training.evaluation=secure"])
