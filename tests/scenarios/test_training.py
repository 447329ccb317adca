"""Federated training by scenario: every algorithm, any losses, determinism, and mistakes in one line."""

import json
import re
import sqlite3
from contextlib import closing
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from tacit import Expect, Result, load, run
from tacit.parties.learning import jobs
from tacit.parties.learning.spec import ModelSpec
from tacit.protocols.registry import PROTOCOLS, using
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.reporting.printed import round_table
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import exit_code
from tacit.scenarios.running.simulation import Simulation

NAMES = using("training.validation")
FILES = {"scenario.toml", "result.json", "labels.csv", "rounds.csv", "run.sqlite", "model.npz", "last"}


def ran(file: Path, *changes: str, faults: str = "", name: str = "fedavg", out: str = "run") -> Result:
    """The result of the tiny scenario with these changes and [[fault]] tables."""
    file.write_text(file.read_text() + faults)
    return run(load(file, [f"protocol.name={name}", *changes]), out=file.parent / out)


def crash(where: str, party: str = "client/1", back: str = "") -> str:
    return f"[[fault]]\nkind = 'crash'\nparty = '{party}'\nat = '{where}'\n" + (
        f"back_after = '{back}'\n" if back else ""
    )


# --- every algorithm


@pytest.mark.parametrize(
    ("fault", "time"),
    [
        ("party = 'client/1'\nat = 'train.update'\nround = 2", "train.update"),
        ("party = 'client/1'\nmessage = 'LocalModel'\nround = 2\noccurrence = 1", "train.update"),
        ("kind = 'lose'\nparty = 'client/1'\nmessage = 'LocalModel'\nround = 2", "train.update"),
        ("party = 'server'\nat = 'train.open'\nround = 2\nback_after = '1s'", "train.open"),
    ],
)
def test_a_fault_in_a_round_loses_its_party_in_that_round(tiny: Path, fault: str, time: str) -> None:
    """The fault is applied in that round, also at the server's step with which the round begins."""
    result = ran(tiny, "training.rounds=3", "network.transport=datagram", faults=f"[[fault]]\n{fault}\n")
    (strike,) = result.faults
    first, _, third = (one.began for one in result.round_records)
    assert first < strike.time < third and strike.step == time
    assert result.round_records[0].lost == () and result.round_records[1].lost == (strike.party,)


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_runs_by_its_name(tiny: Path, name: str) -> None:
    buffer = ["training.buffer=4"] if "training.buffer" in PROTOCOLS[name].uses else []
    result = ran(tiny, "training.rounds=3", *buffer, name=name)
    assert (result.outcome, result.lost, [one.problem for one in result.round_records]) == (
        "completed",
        [],
        ["", "", ""],
    )
    assert [len(one.averaged) for one in result.round_records] == [4, 4, 4]
    labels = "training.label_from" in PROTOCOLS[name].uses
    assert [one.pseudo_accuracy is not None for one in result.round_records] == [labels] * 3
    entered = {row[0] for row in rows(result, "SELECT DISTINCT step FROM steps")}
    listed = {step.name for step in PROTOCOLS[name].steps if not re.search("(only|not) with", step.what)}
    assert entered == listed | ({"rowsums.deal", "rowsums.reveal"} if name.startswith("fedprop") else set())


@pytest.mark.parametrize("update", ["fedprox", "scaffold"])
def test_a_server_update_works_as_a_key_and_as_a_protocol_name(tiny: Path, update: str) -> None:
    steps = "training.epochs=3"  # a proximal term acts from the second step on
    plain = ran(tiny, steps, out="plain")
    key = ran(tiny, steps, f"training.update={update}", out="key")
    named = ran(tiny, steps, name=update, out="named")
    assert key.model_digest == named.model_digest != plain.model_digest
    assert ran(tiny, f"training.update={update}", name="fedavg+network", out="both").outcome == "completed"


def test_stage_one_trains_on_labels_alone(tiny: Path) -> None:
    staged = ran(tiny, "training.rounds=3", "training.label_from=3", name="fedavg+network")
    assert [one.pseudo_accuracy is None for one in staged.round_records] == [True, True, False]
    alone = ran(tiny, "training.rounds=2", out="alone")
    assert [one.accuracy for one in staged.round_records[:2]] == [one.accuracy for one in alone.round_records]


def test_training_with_cryptography_gives_the_model_of_the_plaintext_variant(tiny: Path) -> None:
    keys = ["protocol.key_bits=512", "protocol.insecure_keys=true", "training.rounds=1", "data.clients=3"]
    plain, *encrypted = [
        ran(tiny, *keys, f"protocol.hamming={way}", name="fedavg+xclp", out=way)
        for way in ("plaintext", "paillier", "iknp")
    ]
    assert {one.model_digest for one in encrypted} == {plain.model_digest}
    assert encrypted[0].trace_hash != plain.trace_hash


# --- measurements


def rows(result: Result, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


def test_the_folder_holds_models_figures_and_rounds(tiny: Path) -> None:
    result = ran(tiny, "training.rounds=3", "training.evaluate_every=2", name="fedavg+network")
    assert {path.name for path in result.folder.iterdir()} == FILES
    record = json.loads((result.folder / "result.json").read_text())
    assert record["measured_on"] == "the test part of the data set"
    assert record["environment"]["device"] == "cpu"
    assert record["model_digest"] == result.model_digest and record["labels_digest"] == ""
    # The last round is always measured.
    assert [one["accuracy"] is None for one in record["rounds"]] == [True, False, False]
    assert result.accuracy == result.round_records[-1].accuracy
    counts = rows(result, "SELECT name, count(*) FROM metrics WHERE party = 'server' GROUP BY name ORDER BY name")
    assert counts == [("accuracy", 2), ("loss", 3), ("pseudo_accuracy", 3), ("validation", 2)]


def test_the_saved_model_is_the_one_that_was_measured(tiny: Path) -> None:
    result = ran(tiny, "training.rounds=4")
    from tacit.parties.data.sets import load_split

    test = load_split("digits")[1].first(80)
    with np.load(result.folder / "model.npz") as saved:
        spec = msgspec.json.decode(str(saved["spec"]), type=ModelSpec)
        last, selected = saved["parameters"].tobytes(), saved["selected"].tobytes()
    assert jobs.accuracy(spec, last, test.points, test.labels, "cpu") == result.accuracy
    assert jobs.accuracy(spec, selected, test.points, test.labels, "cpu") == result.accuracy_selected


def test_the_selected_round_is_the_first_with_the_best_validation(tiny: Path) -> None:
    result = ran(tiny, "training.rounds=5", "training.learning_rate=2.0")
    figures = [one.validation for one in result.round_records]
    assert result.selected_round == figures.index(max(figures)) + 1
    assert result.accuracy_selected == result.round_records[result.selected_round - 1].accuracy


def test_without_held_out_points_no_round_is_selected(tiny: Path) -> None:
    result = ran(tiny, "training.validation=0")
    assert (result.accuracy_selected, result.selected_round) == (None, None)
    assert [one.validation for one in result.round_records] == [None, None]


def test_a_file_without_a_test_part_is_measured_on_the_unlabeled_points(tiny: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 60)
    np.savez(tmp_path / "own.npz", features=random.normal(labels[:, None] * 4.0, 1.0, (60, 3)), labels=labels)
    result = ran(tiny, f"data.path={tmp_path / 'own.npz'}", "data.limit=60", "training.rounds=5")
    assert result.measured_on == "the clients' unlabeled points"
    assert result.accuracy is not None and result.accuracy > 0.8


def test_measuring_accuracy_changes_no_trace(tiny: Path) -> None:
    often, seldom = ran(tiny, out="often"), ran(tiny, "training.evaluate_every=50", out="seldom")
    assert (often.trace_hash, often.accuracy) == (seldom.trace_hash, seldom.accuracy)


# --- determinism


@pytest.mark.parametrize("name", ["fedavg+xclp", "fedprop+mt"])
def test_the_same_seed_gives_the_same_run(tiny: Path, name: str) -> None:
    one, two = (ran(tiny, name=name, out=out) for out in ("one", "two"))
    assert (one.trace_hash, one.model_digest) == (two.trace_hash, two.model_digest)
    other = ran(tiny, "seed=4", name=name, out="other")
    assert other.model_digest != one.model_digest


def test_the_announced_work_equals_the_work_done(tiny: Path) -> None:
    for name, share in (("fedavg+xclp", 1.0), ("fedavg+network", 0.5), ("fedavg", 0.5)):
        simulation = Simulation(
            load(tiny, [f"protocol.name={name}", f"training.share={share}", "data.labeled=0.4"]), engine="inline"
        )
        try:
            simulation.run()
        finally:
            simulation.close()
        assert simulation.round == (2, 2)
        least = 0.9 if name == "fedavg" else 0.1  # cheap work of a round with labels is not announced
        assert least < simulation.planned / simulation.done <= 1.0


# --- losses

EVERYONE = tuple(f"client/{i}" for i in range(4))


@pytest.mark.parametrize(
    "step", ["train.update", "train.label", "setup.keys", "setup.seed", "hamming.evaluate", "rowsums.mask"]
)
def test_a_client_lost_in_a_round_is_left_out_and_takes_part_again(tiny: Path, step: str) -> None:
    result = ran(tiny, "training.rounds=3", faults=crash(step, back="1s"), name="fedavg+xclp")
    assert result.outcome == "completed"
    assert [(loss.party, loss.step, loss.round) for loss in result.lost] == [("client/1", step, 1)]
    assert result.round_records[0].averaged == tuple(name for name in EVERYONE if name != "client/1")
    assert result.round_records[2].averaged == EVERYONE
    assert result.round_records[0].lost == ("client/1",) and result.round_records[2].lost == ()
    assert [fault.party for fault in result.faults] == ["client/1"]


@pytest.mark.parametrize("name", ["xclp", "fedavg", "fedavg-then-xclp"])
def test_observers_of_a_server_are_kept_when_the_server_returns(tiny: Path, name: str) -> None:
    simulation = Simulation(load(tiny, [f"protocol.name={name}", "training.rounds=3"]), engine="inline")
    try:
        observers = list(simulation.server.observers)
        assert observers
        simulation.server.device.crash()
        simulation.server.device.rejoin()
        assert simulation.server.observers == observers
    finally:
        simulation.close()


@pytest.mark.parametrize("step", ["sum.deal", "sum.mask"])
def test_a_client_lost_in_a_secure_average_is_left_out(tiny: Path, step: str) -> None:
    result = ran(tiny, "training.averaging=secure", faults=crash(step, back="1s"), name="fedavg+network")
    assert result.round_records[0].averaged == tuple(name for name in EVERYONE if name != "client/1")
    assert [(loss.party, loss.step) for loss in result.lost] == [("client/1", step)]


def test_a_secure_average_gives_the_same_model(tiny: Path) -> None:
    plain, secure = (ran(tiny, f"training.averaging={way}", out=way) for way in ("plain", "secure"))
    assert secure.accuracy == plain.accuracy
    kinds = {row[0] for row in rows(secure, "SELECT DISTINCT type FROM messages")}
    assert "LocalModel" not in kinds and "MaskedChunk" in kinds


def test_a_run_that_loses_every_round_is_aborted(tiny: Path) -> None:
    faults = "".join(crash("train.update", f"client/{i}") for i in range(3))
    result = ran(tiny, "training.min_clients=2", faults=faults)
    assert (result.outcome, exit_code(result, Expect())) == ("aborted", 3)
    assert result.reason.startswith("every round was lost: ")
    assert result.accuracy is not None and result.accuracy_selected is None  # the model is unchanged


def test_a_run_that_loses_one_round_is_completed(tiny: Path) -> None:
    faults = "".join(crash("train.update", f"client/{i}", "1s") for i in range(3))
    result = ran(tiny, "training.min_clients=2", faults=faults)
    assert (result.outcome, [bool(one.problem) for one in result.round_records]) == ("completed", [True, False])


@pytest.mark.parametrize(
    ("step", "where"),
    [("train.enroll", "setup.keys"), ("train.update", "train.update"), ("rowsums.mask", "rowsums.mask")],
)
def test_a_run_that_loses_every_client_fails(tiny: Path, step: str, where: str) -> None:
    result = ran(tiny, faults=crash(step, "client/*"), name="fedavg+xclp")
    assert (result.outcome, exit_code(result, Expect())) == ("failed", 1)
    assert re.match(rf"every client was lost: \d of \d at {re.escape(where)} in round \d \(", result.reason)
    assert "raise protocol.deadline" in result.reason and "back_after" in result.reason


def test_clients_that_return_before_the_first_round_are_reported_and_take_part(tiny: Path) -> None:
    result = ran(tiny, "training.rounds=2", faults=crash("train.enroll", "client/[012]", "1s"))
    assert result.outcome == "completed"
    assert [one.averaged for one in result.round_records] == [("client/3",), EVERYONE]
    assert [(loss.party, loss.step, loss.round) for loss in result.lost] == [
        (name, "train.enroll", 1) for name in EVERYONE[:3]
    ]


@pytest.mark.parametrize("step", ["train.enroll", "train.open", "hamming.collect", "train.average"])
def test_a_lost_server_aborts_the_run(tiny: Path, step: str) -> None:
    result = ran(tiny, faults=crash(step, "server"), name="fedavg+xclp")
    assert (result.outcome, result.reason) == ("aborted", f"the server was lost at {step}")
    known = ("no answer from the server", "never drawn")
    assert all(ending.startswith(known) for ending in result.endings.values())
    assert [loss.party for loss in result.lost] == ["server"]


# --- improvements by the protocol


@pytest.mark.long
def test_labels_by_xclp_beat_labels_alone_and_each_clients_own_propagation(tmp_path: Path) -> None:
    accuracy = {}
    for name in ("fedavg", "fedavg+perclient-lp", "fedavg+xclp"):
        changes = [f"protocol.name={name}", "protocol.hamming=plaintext", "engine=inline", "training.evaluate_every=15"]
        accuracy[name] = run(load("fedavg-xclp-digits", changes), out=tmp_path / name).accuracy
    across, alone, own = accuracy["fedavg+xclp"], accuracy["fedavg"], accuracy["fedavg+perclient-lp"]
    assert across is not None and alone is not None and own is not None
    assert across > max(alone, own) + 0.05


def test_steps_are_listed_in_the_order_of_the_run(tiny: Path) -> None:
    changes = ["training.averaging=secure", "protocol.recovery=secure"]
    result = ran(tiny, *changes, name="fedavg+xclp")
    first = [row[0] for row in rows(result, "SELECT step FROM steps WHERE party = 'client/0' ORDER BY entered")]
    steps = PROTOCOLS["fedavg+xclp"].steps_with(load(tiny, ["protocol.name=fedavg+xclp", *changes]))
    listed = [step.name for step in steps if step.role == "client" and "identity = signed" not in step.what]
    taken = list(dict.fromkeys(first))
    assert set(taken) == set(listed)
    inner = [step for step in taken if step != "train.label"]  # train.label ends after the steps inside it
    assert inner == [step for step in listed if step != "train.label"]


# --- mistakes

# --- bytes

BYTES = [
    ("fedavg", ""),
    ("fedavg+xclp", "protocol.hamming=iknp training.share=0.75"),
    ("fedprop+mt", "network.topology=mesh training.label_from=2"),
    ("fedmatch", "training.share=0.5 training.rounds=4"),
    ("scaffold", "training.averaging=secure"),
    ("fedavg", "training.averaging=secure data.clients=12 data.limit=240 training.share=0.7"),
    ("fedavg+xclp", "training.averaging=secure training.update=scaffold protocol.recipe=authors-code"),
    ("fedsiam", "data.labeled_clients=2 training.share=0.5"),
]


@pytest.mark.parametrize(("name", "changes"), BYTES)
def test_bytes_of_training_equal_the_formulas(tiny: Path, name: str, changes: str) -> None:
    result = ran(tiny, *changes.split(), name=name)
    assert result.outcome == "completed" and not result.lost
    sent = dict(rows(result, "SELECT type, sum(payload) FROM hops GROUP BY type"))
    assert predicted(result.folder, sent) == sent


def test_a_caution_compares_the_deadline_with_the_time_of_a_cohort(tiny: Path) -> None:
    slow = ["protocol.name=fedavg+xclp", "protocol.hamming=iknp", "network.bandwidth=1Mbit/s"]
    slow += ["protocol.deadline=50ms"]  # longer than a round trip, which has a caution of its own

    def caution(*changes: str) -> str:
        return " ".join(line for line in cautions(load(tiny, [*slow, *changes])) if "deadline" in line)

    everyone, some = caution("training.share=1.0"), caution("training.share=0.75")
    assert everyone and some and everyone != some
    assert not caution("protocol.name=fedavg")


def test_of_many_rounds_the_table_shows_the_first_and_the_last(tiny: Path) -> None:
    result = ran(tiny, "training.rounds=45", "training.evaluate_every=45")
    console = Console(width=200, record=True, file=StringIO())
    print_table(console, round_table(result.round_records))
    numbers = re.findall(r"^ *(\d+|\.\.\. \d+ more) ", console.export_text(), re.MULTILINE)
    assert numbers == [*map(str, range(1, 21)), "... 5 more", *map(str, range(26, 46))]
