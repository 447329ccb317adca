"""Clients test the model on points that they hold out; metrics in results, tables and files."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Result, ScenarioError, load, predict, run, steps
from tacit.parties.learning import jobs
from tacit.parties.learning.metrics import Counts, of_classes
from tacit.protocols.federated.experiment import model_of
from tacit.protocols.federated.observer import TrainedRound
from tacit.protocols.federated.round import PRIVATE
from tacit.scenarios.command.main import app
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.splits import data_of, parts_of, split
from tacit.scenarios.running.continuing import continue_for
from tacit.scenarios.running.folder import FolderError, byte_rows
from tacit.scenarios.running.runner import resume
from tacit.scenarios.running.simulation import Simulation

TINY = """
[data]
name = "digits"
clients = 4
limit = 240
labeled = 0.8
held_out = 0.3
[protocol]
name = "fedavg"
deadline = "5s"
[model]
name = "linear"
[training]
rounds = 4
evaluation = "plain"
checkpoint_every = 1
[network]
latency = "lognormal:20ms,0.5"
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of four clients that test models."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def calm(file: Path) -> Result:
    """The result of the run without faults."""
    return run(load(file), out=file.parent / "calm", engine="inline")


def rounds(result: Result) -> list[TrainedRound]:
    found = [one for one in result.round_records if isinstance(one, TrainedRound)]
    assert len(found) == len(result.round_records)
    return found


def test_sums_of_clients_are_what_a_test_of_all_their_points_gives(file: Path, calm: Result) -> None:
    scenario = load(file)
    held = parts_of(scenario).held
    shards = split(held, data_of(scenario), scenario.seed)
    points, labels = (
        np.concatenate([getattr(one, name) for one in shards]) for name in ("test_points", "test_targets")
    )
    with np.load(calm.folder / "model.npz") as arrays:
        model = arrays["parameters"].astype("<f4").tobytes()
    spec = model_of(scenario, held)
    central = jobs.measured(spec, model, points, labels, further=True)
    assert calm.evaluation["points"] == len(labels) and calm.evaluation["clients"] == 4
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        assert calm.evaluation[name] == pytest.approx(central[name], rel=1e-12)
    assert calm.evaluation["loss"] == pytest.approx(central["loss"], rel=1e-6)
    each = [jobs.accuracy(spec, model, one.test_points, one.test_targets) for one in shards]  # type: ignore[arg-type]
    assert [one["accuracy"] for one in calm.evaluation_by_client.values()] == pytest.approx(each)
    assert calm.evaluation["accuracy_worst"] == pytest.approx(min(each))
    assert calm.evaluation["accuracy_mean"] == pytest.approx(np.mean(each))
    assert calm.evaluation["accuracy_p10"] == pytest.approx(np.percentile(each, 10))
    counts = {name: row["points"] for name, row in calm.evaluation_by_class.items()}
    assert sum(counts.values()) == len(labels) and set(counts) == set(map(str, held.classes))


def test_held_out_points_are_nobodys_training_points(file: Path) -> None:
    scenario = load(file)
    held = parts_of(scenario).held
    others = load(file, ["training.evaluation=none"])
    with_tests, without = (split(held, data_of(one), scenario.seed) for one in (scenario, others))
    for one, whole in zip(with_tests, without, strict=True):
        assert one.test_points is not None
        assert len(one.rows) + len(one.test_points) == len(whole.rows) and set(one.rows) < set(whole.rows)
        assert one.labeled.sum() == whole.labeled.sum() - len(one.test_points) > 0
    assert with_tests.labels.tolist() == [int(one.labeled.sum()) for one in with_tests]
    assert with_tests.points.tolist() == [len(one.rows) for one in with_tests]


def test_bytes_are_predicted_and_follow_from_the_formula(file: Path, calm: Result) -> None:
    assert command("bytes", calm.folder, "--check")
    predicted = predict(load(file), seeds=1)
    assert predicted.virtual_seconds == pytest.approx(calm.virtual_seconds)
    assert sum(row.total for row in predicted.rows) == calm.bytes_total
    assert {"train.evaluate"} < {one.name for one in steps("fedavg")}
    assert calm.formula is not None and calm.formula["Figures"] == 4 * 4 * 8 * 101


def command(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize("fault", ("crash", "lose"))
def test_a_loss_while_testing_costs_the_figures_of_that_client_and_nothing_else(
    file: Path, calm: Result, tmp_path: Path, fault: str
) -> None:
    struck = {
        "crash": 'kind = "crash"\nparty = "client/1"\nbefore = "train.evaluate"\noccurrence = 2\nback_after = "4s"',
        "lose": 'kind = "lose"\nparty = "client/1"\nmessage = "Figures"\nprobability = 1',
    }[fault]
    (tmp_path / "tiny.toml").write_text(f"{TINY}[[fault]]\n{struck}\n")
    changes = ["network.transport=datagram"] if fault == "lose" else []
    found = run(load(tmp_path / "tiny.toml", changes), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed"
    hit = [number for number, one in enumerate(rounds(found), 1) if one.evaluation["clients"] == 3]
    assert hit == ([2] if fault == "crash" else [1, 2, 3, 4])
    lost = [loss for loss in found.lost if loss.step == "train.evaluate"]
    assert {(loss.party, loss.round) for loss in lost} == {("client/1", number) for number in hit}
    assert all(one.averaged == ("client/0", "client/1", "client/2", "client/3") for one in rounds(found))
    # A client that comes back trains with other random numbers from then on.
    same = 2 if fault == "crash" else 4
    assert [one.accuracy for one in rounds(found)][:same] == [one.accuracy for one in rounds(calm)][:same]
    assert (found.model_digest == calm.model_digest) == (fault == "lose")


def test_a_killed_and_resumed_run_has_the_same_figures(
    file: Path, calm: Result, break_off: Callable[..., None], tmp_path: Path
) -> None:
    break_off(file, tmp_path / "run", 150)
    assert (tmp_path / "run" / "checkpoint").is_file()
    found = resume(tmp_path / "run", engine="inline")
    assert found.resumed and found.trace_hash == calm.trace_hash
    assert found.evaluation == calm.evaluation and rounds(found) == rounds(calm)
    assert (tmp_path / "run" / "rounds.csv").read_text() == (calm.folder / "rounds.csv").read_text()


def test_a_run_is_continued_only_where_its_last_round_would_have_been_tested_anyway(
    file: Path, calm: Result, tmp_path: Path
) -> None:
    run(load(file, ["training.rounds=2"]), out=tmp_path / "run", engine="inline")
    assert resume(continue_for(tmp_path / "run", "training.rounds", 4), engine="inline").trace_hash == calm.trace_hash
    run(load(file, ["training.rounds=2", "training.evaluate_every=4"]), out=tmp_path / "other", engine="inline")
    with pytest.raises(FolderError, match="clients have tested the model after its last round"):
        continue_for(tmp_path / "other", "training.rounds", 4)


def test_clients_that_test_no_models_hold_out_no_points(file: Path, tmp_path: Path) -> None:
    changes = ["training.evaluation=none", "training.rounds=2"]
    found = [
        run(load(file, [*changes, f"data.held_out={share}"]), out=tmp_path / str(share), engine="inline")
        for share in (0.3, 0.0)
    ]
    assert found[0].trace_hash == found[1].trace_hash and found[0].model_digest == found[1].model_digest


def test_models_are_tested_every_n_rounds_and_at_the_end(file: Path, tmp_path: Path) -> None:
    found = run(load(file, ["training.rounds=3", "training.evaluate_every=2"]), out=tmp_path / "run", engine="inline")
    assert [bool(one.evaluation) for one in rounds(found)] == [False, True, True]


def test_metrics_change_no_trace_and_are_in_every_view(file: Path, tmp_path: Path) -> None:
    names = ["test_loss", "macro_f1", "auroc", "balanced_accuracy"]
    plain = ["training.evaluation=none"]
    none = run(load(file, plain), out=tmp_path / "none", engine="inline")
    found = run(load(file, [*plain, f"training.metrics={names}"]), out=tmp_path / "run", engine="inline")
    assert found.trace_hash == none.trace_hash and none.metrics == {} and list(found.metrics) == names
    assert set(found.by_class) == {str(one) for one in range(10)} and found.evaluation == {}
    with (found.folder / "rounds.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    for one, row in zip(rounds(found), rows, strict=True):
        assert list(one.metrics) == names
        assert float(row["macro_f1"]) == one.metrics["macro_f1"] and float(row["loss"]) == pytest.approx(one.loss)
    assert "macro f1" in command("compare", found.folder, none.folder)
    command("plot", found.folder, "--y", "auroc", "--out", tmp_path / "plot.svg")
    command("report", found.folder)
    assert "macro f1" in (found.folder / "report.html").read_text()
    swept = command(
        "sweep", file, "--over", "training.epochs=1,2", "--set", f"training.metrics={names}", "--set", plain[0],
        "--set", "training.rounds=1", "--out", tmp_path / "sweep",
    )  # fmt: skip
    assert "auroc" in swept
    command("plot", tmp_path / "sweep", "--x", "training.epochs", "--y", "macro_f1", "--out", tmp_path / "other.svg")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.held_out=0"], r"data.held_out: 0 leaves clients no points of their own"),
        (['training.metrics=["f2"]'], 'has no metric "f2"'),
        (["protocol.name=dp-fedavg", "privacy.epsilon=8"], "figures of labels without noise, which dp-fedavg"),
        (["privacy.label_epsilon=2"], "figures of labels without noise, which privacy.label_epsilon"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_an_error_before_the_run(file: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load(file, changes)


@pytest.mark.parametrize("averaging", ("secure", "secagg+"))
def test_secure_averages_go_on_beside_the_figures(file: Path, tmp_path: Path, averaging: str) -> None:
    changes = [f"training.averaging={averaging}", "data.clients=6", "training.rounds=2"]
    found = run(load(file, changes), out=tmp_path / "run", engine="inline")
    assert found.equals_plaintext and found.evaluation["clients"] == 6 and not found.lost
    assert command("bytes", found.folder, "--check")


def test_clients_with_private_layers_test_the_model_with_their_own(file: Path) -> None:
    changes = ["model.name=linear_embedding", "model.embedding=8", 'model.private=["head"]', "training.rounds=2"]
    simulation = Simulation(load(file, changes), engine="inline")
    try:
        simulation.run()
        server, spec = simulation.server, simulation.server.settings.spec
        for client in simulation.clients:
            points, targets = client.shard.test_points, client.shard.test_targets
            own = client.disk[PRIVATE]
            found = jobs.measured(spec, server.model, points, targets, "cpu", own)
            assert own and Counts(spec, (), server.sent[client.name]).metrics["accuracy"] == found["accuracy"]
            others = jobs.measured(spec, server.model, points, targets, "cpu")
            assert Counts(spec, (), server.sent[client.name]).metrics["loss"] != pytest.approx(others["loss"])
    finally:
        simulation.close()


def test_private_layers_without_tests_by_clients_are_cautioned(file: Path, tmp_path: Path) -> None:
    changes = ["model.name=linear_embedding", "model.embedding=8", 'model.private=["head"]', "training.rounds=1"]
    said = [cautions(load(file, [*changes, f"training.evaluation={one}"])) for one in ("none", "plain")]
    assert [any("no accuracy is measured: model.private keeps" in line for line in lines) for lines in said] == [
        True,
        False,
    ]
    run(load(file, changes), out=tmp_path / "run", engine="inline")
    assert "private   head: as built" in command("model", tmp_path / "run")


def test_invalid_figures_are_left_out(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.evaluate

    def false(spec: object, *arguments: object) -> bytes:
        sums = np.frombuffer(real(spec, *arguments)).copy()  # type: ignore[arg-type]
        sums[5] += 0.5
        return sums.tobytes()

    monkeypatch.setattr("tacit.parties.learning.jobs.evaluate", false)
    found = run(load(file, ["training.rounds=1"]), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed" and found.evaluation == {}
    assert {loss.step for loss in found.lost} == {"train.evaluate"} and len(found.lost) == 4


def test_counts_of_a_run_are_counted(calm: Result) -> None:
    assert of_classes(np.diag([3, 4])) == {"accuracy": 1.0, "balanced_accuracy": 1.0, "macro_f1": 1.0}
    output = command("run", calm.folder, "--engine", "inline", "--out", calm.folder.parent / "again")
    assert "points of 4 clients, held out" in output


def test_a_report_has_the_classes(file: Path, calm: Result, tmp_path: Path) -> None:
    assert set(calm.by_class) == {str(one) for one in range(10)}  # without training.metrics
    test = parts_of(load(file)).test
    assert test is not None
    support = {name: one["points"] for name, one in calm.by_class.items()}
    assert support == {str(one): float((test.labels == one).sum()) for one in range(10)}
    hits = sum(one["recall"] * one["points"] for one in calm.by_class.values())
    assert hits / len(test.labels) == pytest.approx(calm.accuracy)
    command("report", calm.folder, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for title, classes in (
        ("By class, on the test part of the data set", calm.by_class),
        ("By class, on points that clients hold out, as they report", calm.evaluation_by_class),
    ):
        table = page.partition(f"<h3>{title}</h3>")[2].partition("</table>")[0]
        assert [head in table for head in ("class", "recall", "precision", "F1", "points")] == [True] * 5
        assert table.count("<tr>") == 11
        for one in classes.values():
            assert f"{one['recall']:.4f}" in table
            assert f"{one['precision']:.4f}" in table


THEN_XCLP = (
    "protocol.name=fedavg-then-xclp", "protocol.hamming=plaintext", "protocol.bits=32", "protocol.k=3",
    "model.name=linear_embedding", "model.embedding=8", "training.rounds=3", "training.evaluate_every=2",
)  # fmt: skip


def test_models_of_training_before_xclp_are_tested_by_clients(file: Path, tmp_path: Path) -> None:
    scenario = load(file, THEN_XCLP)
    found = run(scenario, out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed" and found.equals_plaintext and not found.lost
    *training, labelling = found.round_records
    assert [bool(getattr(one, "evaluation", {})) for one in training] == [False, True, True]
    assert not isinstance(labelling, TrainedRound)
    held = parts_of(scenario).held
    shards = split(held, data_of(scenario), scenario.seed)
    with np.load(found.folder / "model.npz") as arrays:
        model = arrays["parameters"].astype("<f4").tobytes()
    points, labels = (np.concatenate([getattr(one, at) for one in shards]) for at in ("test_points", "test_targets"))
    central = jobs.measured(model_of(scenario, held), model, points, labels, further=True)
    assert found.evaluation["accuracy"] == pytest.approx(central["accuracy"])
    assert found.evaluation["points"] == len(labels) > 0
    assert "points of 4 clients, held out" in command("run", found.folder, "--out", tmp_path / "again")
    assert {"train.evaluate"} < {one.name for one in steps("fedavg-then-xclp")}
    predicted = predict(scenario, seeds=1)
    tested = {row.type: row.total for row in predicted.rows if row.step == "train.evaluate"}
    sent = {row.type: row.total for row in byte_rows(found.folder) if row.step == "train.evaluate"}
    assert sent == tested != {}
    assert command("bytes", found.folder, "--check")


def test_a_client_lost_while_it_tests_takes_part_in_xclp(file: Path, tmp_path: Path) -> None:
    struck = 'kind = "crash"\nparty = "client/1"\nbefore = "train.evaluate"\noccurrence = 2\nback_after = "1s"'
    (tmp_path / "tiny.toml").write_text(f"{TINY}[[fault]]\n{struck}\n")
    found = run(load(tmp_path / "tiny.toml", THEN_XCLP), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed" and found.equals_plaintext
    assert found.evaluation["clients"] == 3
    assert [(loss.party, loss.round) for loss in found.lost if loss.step == "train.evaluate"] == [("client/1", 3)]


def test_a_key_of_evaluation_is_named_where_no_model_is_trained(file: Path) -> None:
    changes = [word for one in ("protocol.name=xclp", "protocol.hamming=plaintext") for word in ("--set", one)]
    assert "training.evaluation: not a key of xclp" in command("predict", file, *changes)
