"""Inference of membership from recorded messages: high if they reveal it, one half if not."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tacit import Result, ScenarioError, load, run
from tacit.parties.learning import jobs
from tacit.parties.learning.spec import ModelSpec
from tacit.protocols.cotraining.round import LocalPredictions
from tacit.protocols.experiment.probe import NOBODY, probe_of, shadowed
from tacit.protocols.federated.fedavg import LocalModel
from tacit.scenarios.files.splits import parts_of, split
from tacit.scenarios.running.folder import FolderError, byte_rows
from tacit.scenarios.running.membership import attack
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.streams import generator
from tacit.sim.wire import Frame, decode_body, decode_frame, encode_body

CLIENTS, OUTSIDE, PUBLIC, DIMENSIONS = 3, 60, 20, 96
ATTACKED = f"""
title = "Labels that only memory can tell"
seed = 5
engine = "inline"
cost = "free"
[data]
path = "chance.npz"
clients = {CLIENTS}
labeled = 1.0
[protocol]
name = "fedavg"
[model]
name = "linear"
[training]
rounds = 3
epochs = 20
learning_rate = 1.0
validation = 0.0
device = "cpu"
[cotraining]
rounds = 2
[learner]
name = "network"
learning_rate = 0.1
batch = 50
steps = 40
[network]
latency = "5ms"
[attack]
kind = "membership"
points = {OUTSIDE}
"""


@pytest.fixture
def chance(tmp_path: Path) -> Path:
    """A scenario whose labels are independent of the points, so that a model can know them only from training."""
    random = generator(1, "chance")
    n = 2 * (OUTSIDE + 50 * CLIENTS) + PUBLIC
    points, labels = random.normal(size=(n, DIMENSIONS)), random.integers(3, size=n)
    np.savez(tmp_path / "chance.npz", features=points, labels=labels)
    path = tmp_path / "chance.toml"
    path.write_text(ATTACKED + f"[public]\nsize = {PUBLIC}\n")
    return path


def ran(file: Path, *changes: str, out: str = "run") -> Result:
    return run(load(file, changes), out=file.parent / out)


def frames(result: Result) -> list[tuple[int, Frame]]:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as connection:
        rows = connection.execute("SELECT round, frame FROM contents ORDER BY rowid").fetchall()
    return [(number, decode_frame(frame)) for number, frame in rows]


def test_overfitted_models_reveal_membership(chance: Path) -> None:
    result = ran(chance)
    found = result.vulnerability
    assert found is not None and result.outcome == "completed"
    assert found.auc > 0.9
    assert (found.signal, found.types, found.epochs, found.messages) == ("parameters", ("LocalModel",), 3, 9)
    assert (found.nonmembers, set(found.members.values()), found.shadow_models) == (OUTSIDE, {50}, CLIENTS)
    assert found.auc == pytest.approx(np.mean(list(found.clients.values())))
    record = json.loads((result.folder / "result.json").read_text())["vulnerability"]
    assert (record["auc"], set(record["clients"])) == (found.auc, {"client/0", "client/1", "client/2"})


def test_untrained_models_reveal_no_membership(chance: Path) -> None:
    found = ran(chance, "training.learning_rate=1e-6", "training.rounds=1", "attack.shadows=2").vulnerability
    assert found is not None and found.shadow_models == 2 * CLIENTS
    assert abs(found.auc - 0.5) < 0.1  # three deviations of 150 members and 60 others


@pytest.mark.parametrize(
    ("name", "signal", "least", "most"),
    # A label is right for all members and for one in three others, so the AUC is at most (1 + 2/3) / 2.
    [("fedct", "labels", 0.75, 0.9), ("pate", "labels", 0.75, 0.9), ("dd", "probabilities", 0.9, 1.0)],
)
def test_predictions_for_forged_points_reveal_membership(
    chance: Path, name: str, signal: str, least: float, most: float
) -> None:
    result = ran(chance, f"protocol.name={name}")
    found = result.vulnerability
    assert found is not None and result.outcome == "completed"
    assert least < found.auc < most
    assert (found.signal, found.types, found.epochs, found.messages) == (signal, ("LocalPredictions",), 1, CLIENTS)
    asked = OUTSIDE + sum(found.members.values())
    size = {"labels": -(-2 * asked // 8), "probabilities": 4 * 3 * asked}[signal]
    kept = [frame for _, frame in frames(result) if frame.attempt > 1]
    assert [len(decode_body(frame, frame.body, LocalPredictions).predictions) for frame in kept] == [size] * CLIENTS
    payloads = {row.type: row.payload for row in byte_rows(result.folder)}
    assert predicted(result.folder)["LocalPredictions"] == payloads["LocalPredictions"]


@pytest.mark.parametrize("name", ["fedct", "pate"])
def test_counts_of_votes_reveal_less_membership_than_labels(chance: Path, name: str) -> None:
    """The server has only counts of secure votes, in which a member's label is one of three."""
    plain = ran(chance, f"protocol.name={name}", out="plain").vulnerability
    result = ran(chance, f"protocol.name={name}", "cotraining.votes=secure")
    found = result.vulnerability
    assert plain is not None and found is not None and result.outcome == "completed"
    assert 0.55 < found.auc < plain.auc - 0.05
    assert (found.signal, found.types, found.messages) == ("counts", ("AskedCounts",), CLIENTS)
    assert (found.members, found.nonmembers) == (plain.members, plain.nonmembers)
    payloads = {row.type: row.payload for row in byte_rows(result.folder)}
    formula = predicted(result.folder)
    assert [kind for kind in formula if formula[kind] != payloads.get(kind, 0)] == []
    assert payloads["AskedCounts"] == CLIENTS * 2 * 3 * (OUTSIDE + sum(found.members.values()))


def test_labels_of_barely_trained_models_reveal_no_membership(chance: Path) -> None:
    barely = ["learner.learning_rate=1e-6", "learner.steps=1", "cotraining.rounds=1", "attack.shadows=2"]
    found = ran(chance, "protocol.name=fedct", *barely).vulnerability
    assert found is not None and abs(found.auc - 0.5) < 0.1


def test_the_attackers_questions_after_training_change_no_model(chance: Path) -> None:
    once, thrice = (ran(chance, "protocol.name=fedct", f"attack.epochs={k}", out=str(k)) for k in (1, 3))
    assert once.vulnerability is not None and thrice.vulnerability is not None
    assert thrice.vulnerability.messages == 3 * CLIENTS and thrice.vulnerability.epochs == 3
    assert once.model_digest == thrice.model_digest
    assert once.round_records == thrice.round_records and len(once.round_records) == 2


def test_only_recorded_messages_are_used(chance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ran(chance)
    carry_out = Simulation.run

    def forget(self: Simulation) -> object:
        simulated = carry_out(self)
        self.server.model = bytes(len(self.server.model))
        for client in self.clients:
            client._shard = client.settings = None
        return simulated

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "run", forget)
        forgotten = ran(chance, out="forgotten")
    assert forgotten.outcome == "completed", forgotten.reason
    assert forgotten.vulnerability == honest.vulnerability
    record = honest.folder / "run.sqlite"
    assert attack(load(honest.folder), record) == honest.vulnerability

    fresh = jobs.initial(ModelSpec("linear", (DIMENSIONS,), 3), 9)
    with closing(sqlite3.connect(record, isolation_level=None)) as connection:
        for row, data in connection.execute("SELECT rowid, frame FROM contents").fetchall():
            frame = decode_frame(data)
            other = Frame(
                *[getattr(frame, name) for name in frame.__struct_fields__[:-1]], encode_body(message_of(fresh))
            )
            encoded = encode_body(other)  # type: ignore[arg-type]
            connection.execute("UPDATE contents SET frame = ? WHERE rowid = ?", (encoded, row))
    replaced = attack(load(honest.folder), record)
    assert replaced is not None and abs(replaced.auc - 0.5) < 0.1


def message_of(model: bytes) -> LocalModel:
    return LocalModel(model, [], bytes(16))


def test_contents_are_recorded_only_for_an_attack_and_only_of_the_last_rounds(chance: Path) -> None:
    assert frames(ran(chance, "attack.kind=''", out="none")) == []
    last = ran(chance, "attack.epochs=2", out="last")
    kept = frames(last)
    assert [(number, frame.type, frame.receiver) for number, frame in kept] == [
        (number, "LocalModel", "server") for number in (2, 2, 2, 3, 3, 3)
    ]
    assert last.vulnerability is not None and last.vulnerability.epochs == 2
    with closing(sqlite3.connect(last.folder / "run.sqlite")) as connection:
        (same,) = connection.execute(
            "SELECT count(*) FROM messages WHERE type = 'LocalModel' AND fate = 'received' AND round > 1"
        ).fetchone()
    assert same == len(kept)


def test_an_attack_reserves_points_and_questions_members_and_others_of_each_client(chance: Path) -> None:
    scenario = load(chance)
    parts = parts_of(scenario)
    shadow = shadowed(parts, OUTSIDE, 7)
    assert parts.outside is not None and parts.attacker is not None and shadow.outside is not None
    kinds = [parts.held, parts.outside, shadow.held, shadow.outside]
    assert [len(kind.labels) for kind in kinds] == [150, OUTSIDE, 150, OUTSIDE]
    points = np.concatenate([kind.points for kind in kinds])
    assert len(np.unique(points, axis=0)) == len(points)  # no two clients have a common point
    probe = probe_of(parts, shards := split(parts.held, scenario.data, scenario.seed), 10, scenario.seed)
    for number, shard in enumerate(shards):
        own = probe.points[probe.owners == number]
        assert len(own) == 10
        assert all((shard.points == point).all(1).any() for point in own)
        assert set(probe.owners[probe.rows(number)]) == {number, NOBODY}
    once, again = (ran(chance, f"attack.shadows={count}", out=str(count)) for count in (1, 2))
    assert once.trace_hash == again.trace_hash


def test_a_client_that_never_answers_is_not_reported(chance: Path) -> None:
    chance.write_text(chance.read_text() + "[[fault]]\nkind = 'crash'\nparty = 'client/1'\nat = 'train.update'\n")
    found = ran(chance).vulnerability
    assert found is not None and set(found.clients) == {"client/0", "client/2"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["attack.points=300"], "attack.points: 300 points that nobody has and 3 clients need more than half of 420"),
        (["training.averaging=secure"], "attack.kind: .*the server sees no client's model"),
        (["protocol.name=xclp", "protocol.hamming=plaintext"], "attack.kind: .*whose clients send nothing of a model"),
        (["protocol.name=local"], "attack.kind: .*whose clients send nothing of a model"),
        (["protocol.name=dd", "byzantine.clients=1"], "attack.kind: .*byzantine.clients"),
        (["protocol.name=dd", "byzantine.clients=3"], "byzantine.clients: 3 of 3 clients leave no honest one"),
        (["attack.epochs=0"], "attack.epochs: 0 .*1 or more"),
    ],
)
def test_invalid_keys_of_an_attack_are_refused_in_one_line(chance: Path, changes: list[str], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem) as raised:
        load(chance, changes)
    assert "\n" not in str(raised.value)


def test_a_record_without_contents_is_refused_in_one_line(chance: Path, tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_text("no data base at all, no data base")
    with pytest.raises(FolderError, match=re.escape("run.sqlite: file is not a database")):
        attack(load(chance), tmp_path / "run.sqlite")
