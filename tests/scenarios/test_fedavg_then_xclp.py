"""Training, then XCLP once: the compared features, the measurements, and losses at each step."""

import re
import runpy
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tacit import Result, load, run
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.splits import split_data
from tacit.scenarios.reporting.printed import print_result
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import Watch, resume
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.trace import Event

pytest.importorskip("torch")

DOCS = Path(__file__).parents[2] / "docs"
FILE = """
title = "Four clients train and then predict"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 4
labeled = 0.5
new = 0.3
limit = 120
[protocol]
name = "fedavg-then-xclp"
hamming = "plaintext"
bits = 64
k = 3
deadline = "10s"
[network]
latency = "5ms"
[model]
name = "linear_embedding"
embedding = 16
[training]
rounds = 2
epochs = 1
learning_rate = 0.5
device = "cpu"
[expect]
equals_plaintext = true
"""


def ran(folder: Path, *changes: str, faults: str = "", out: str = "run") -> Result:
    file = folder / "file.toml"
    file.write_text(FILE + faults)
    return run(load(file, changes), out=folder / out)


def crash(where: str, party: str = "client/1", more: str = "") -> str:
    return f"[[fault]]\nkind = 'crash'\nparty = '{party}'\nat = '{where}'\n{more}"


def trained_layers(result: Result) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights and biases of the two layers, of 64 x 16 and 16 x 10 numbers."""
    with np.load(result.folder / "model.npz") as arrays:
        vector = arrays["parameters"]
    first, second, third, fourth = np.split(vector, np.cumsum([64 * 16, 16, 160]))
    return first.reshape(16, 64).T, second, third.reshape(10, 16).T, fourth


def test_a_run_trains_then_labels_and_reports_all_rounds_and_baselines(tmp_path: Path) -> None:
    result = ran(tmp_path)
    assert (result.outcome, result.unmet, result.lost) == ("completed", [], [])
    assert [type(one).__name__ for one in result.round_records] == ["TrainedRound", "TrainedRound", "XclpRound"]
    assert [one.round for one in result.round_records] == [1, 2, 3]
    assert set(result.endings.values()) == {"completed"}
    assert set(result.baselines) == {"per-client label propagation", "central label propagation", "network"}
    assert set(result.balanced_baselines) == set(result.baselines) and result.balanced_accuracy is not None
    assert sum(predicted(result.folder).values()) == result.bytes_payload

    held, shards = split_data(load(result.folder))
    w, b, v, c = trained_layers(result)
    hits = [((s.points @ w + b) @ v + c).argmax(1)[s.new] == s.labels[s.new] for s in shards]
    assert result.baselines["network"] == np.concatenate(hits).mean()
    lines = [line.split(",") for line in (result.folder / "labels.csv").read_text().splitlines()[1:]]
    new = {int(row) for shard in shards for row in shard.rows[shard.new]}
    right = [label == str(held.labels[int(row)]) for _, _, row, label, _ in lines if int(row) in new]
    assert result.accuracy == np.mean(right) and len(right) == len(new)


def test_rounds_of_training_and_of_xclp_are_distinguished(tmp_path: Path) -> None:
    printed = StringIO()
    print_result(Console(file=printed, width=140), ran(tmp_path, "training.rounds=1"), [], "star")
    heads = [line.split() for line in printed.getvalue().splitlines() if line.startswith("round ")]
    assert [head[2] for head in heads] == ["cohort", "joined"]


def test_hashes_are_made_of_the_trained_models_features(tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text(FILE)
    scenario = load(tmp_path / "file.toml", ["protocol.bits=16384"])
    result = run(scenario, out=tmp_path / "run")
    simulation = Simulation(scenario, engine="inline")
    try:
        simulation.run()
        w, b, _, _ = trained_layers(result)
        for client in simulation.clients:
            features = client.shard.points @ w + b
            features /= np.linalg.norm(features, axis=1, keepdims=True)
            angles = np.arccos(np.clip(features @ features.T, -1, 1)) / np.pi
            bits = client.bits_of_round.astype(float)
            apart = np.abs(bits[:, None] - bits[None]).mean(axis=2)
            assert np.abs(apart - angles).max() < 0.03  # 8 deviations of the mean of 16384 bits
    finally:
        simulation.close()


def test_dense_matrices_with_exact_cosines_give_similar_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = ran(tmp_path, "protocol.bits=16384")
    runpy.run_path(str(DOCS / "dense.py"))["main"]([str(result.folder)])
    dense, balanced = map(float, re.findall(r"0\.\d+", capsys.readouterr().out)[:2])
    assert balanced == pytest.approx(result.balanced_accuracy, abs=1e-4)
    assert dense == pytest.approx(balanced, abs=0.1)


def test_the_trained_model_equals_that_of_fedavg_without_new_points(tmp_path: Path) -> None:
    models = {ran(tmp_path, f"data.unlabeled={share}", out=str(share)).model_digest for share in (0, 1)}
    assert len(models) == 1
    own = f"data.path={_as_file(tmp_path)}"
    then = ran(tmp_path, own, out="then")
    alone = ran(tmp_path, own, "protocol.name=fedavg", "training.validation=0", out="alone")
    assert then.model_digest == alone.model_digest not in models


def _as_file(folder: Path) -> Path:
    dice = np.random.Generator(np.random.PCG64(1))
    labels = dice.integers(0, 3, 90)
    np.savez(folder / "own.npz", features=dice.normal(size=(90, 5)) + labels[:, None], labels=labels)
    return folder / "own.npz"


def test_a_run_with_a_client_without_labels_completes(tmp_path: Path) -> None:
    result = ran(tmp_path, 'data.without_labels=["client/2"]', "data.new=0", "data.labeled=1")
    assert (result.outcome, result.unmet) == ("completed", [])
    assert set(result.baselines) == {"central label propagation", "network"}


@pytest.mark.parametrize("update", ["fedprox", "scaffold"])
def test_other_server_updates_complete_with_bytes_equal_to_the_formula(tmp_path: Path, update: str) -> None:
    result = ran(tmp_path, f"training.update={update}", "training.averaging=secure", "training.share=0.5")
    assert (result.outcome, result.unmet) == ("completed", [])
    assert sum(predicted(result.folder).values()) == result.bytes_payload


ALWAYS = [
    step.name
    for step in PROTOCOLS["fedavg-then-xclp"].steps
    if step.role == "client" and "only with" not in step.what and step.name not in ("rowsums.deal", "rowsums.reveal")
]


@pytest.mark.parametrize("step", ALWAYS)
def test_a_run_completes_without_a_permanently_lost_client(tmp_path: Path, step: str) -> None:
    result = ran(tmp_path, faults=crash(step))
    assert (result.outcome, result.unmet) == ("completed", [])
    assert {loss.party for loss in result.lost} == {"client/1"}
    assert result.accuracy is not None and result.endings["client/1"] == "crashed"
    assert {loss.step for loss in result.lost if loss.party == "client/1"} >= {step}
    assert [one.round for one in result.round_records] == [1, 2, 3]


def test_a_client_that_comes_back_in_time_gets_labels(tmp_path: Path) -> None:
    result = ran(tmp_path, faults=crash("train.update", more="occurrence = 2\nback_after = '1s'\n"))
    assert [(loss.party, loss.round) for loss in result.lost] == [("client/1", 2)]
    assert result.round_records[-1].labeled == tuple(f"client/{i}" for i in range(4))  # type: ignore[attr-defined]
    late = ran(tmp_path, faults=crash("predict.embed", more="back_after = '1s'\n"), out="late")
    assert [(loss.party, loss.round) for loss in late.lost] == [("client/1", 3)]
    assert (late.outcome, "client/1" in late.round_records[-1].labeled) == ("completed", False)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("where", "rounds"),
    [("train.average", 1), ("train.open", 0), ("hamming.collect", 3), ("setup.keys", 3), ("rowsums.sum", 3)],
)
def test_a_lost_server_aborts_the_run(tmp_path: Path, where: str, rounds: int) -> None:
    result = ran(tmp_path, faults=crash(where, "server"))
    assert result.outcome == "aborted" and result.reason.startswith(f"the server was lost at {where}")
    assert [loss.step for loss in result.lost] == [where]
    assert (len(result.round_records) == 3) == (rounds == 3) and result.accuracy is None


def test_a_server_lost_after_the_last_model_aborts_the_run(tmp_path: Path) -> None:
    fault = "[[fault]]\nkind = 'crash'\nparty = 'server'\nafter = 'train.open'\noccurrence = 3\n"
    result = ran(tmp_path, faults=fault)
    assert (result.outcome, [loss.party for loss in result.lost]) == ("aborted", ["server"])


def test_too_few_clients_for_xclp_abort_the_run_with_a_reason(tmp_path: Path) -> None:
    result = ran(tmp_path, faults=crash("lsh.hash") + crash("lsh.hash", "client/2"))
    assert result.outcome == "aborted" and "min_clients is 3" in result.reason
    assert result.accuracy is None and (result.folder / "model.npz").exists()


def test_a_run_whose_rounds_are_all_lost_is_aborted(tmp_path: Path) -> None:
    result = ran(tmp_path, "training.min_clients=4", faults=crash("train.update"))
    assert result.outcome == "aborted" and result.reason.startswith("every round of training was lost: 3 clients")
    assert result.round_records[-1].finished  # type: ignore[attr-defined]


class Breaker(Watch):
    """A watch that interrupts a run when XCLP has begun."""

    def __call__(self, event: Event) -> None:
        if event.step == "hamming.evaluate":
            raise KeyboardInterrupt


def test_a_run_interrupted_during_xclp_resumes_after_its_training(tmp_path: Path) -> None:
    unbroken = ran(tmp_path, "training.checkpoint_every=1")
    with pytest.raises(KeyboardInterrupt):
        run(load(tmp_path / "file.toml", ["training.checkpoint_every=1"]), out=tmp_path / "broken", watch=Breaker())
    found = resume(tmp_path / "broken")
    assert found.resumed == [2]
    names = (
        "trace_hash",
        "model_digest",
        "labels_digest",
        "round_records",
        "accuracy",
        "baselines",
        "bytes_total",
        "unmet",
    )
    assert [getattr(found, name) for name in names] == [getattr(unbroken, name) for name in names]


def test_a_sized_run_equals_the_real_run_except_for_contents(tmp_path: Path) -> None:
    keys = ["protocol.hamming=paillier", "protocol.key_bits=512", "protocol.insecure_keys=true", "data.limit=80"]
    real, sized = (ran(tmp_path, *keys, f"fidelity={one}", out=one) for one in ("real", "sized"))
    same: dict[str, Any] = {
        name: getattr(real, name)
        for name in ("shape_hash", "virtual_seconds", "bytes_total", "accuracy", "baselines", "model_digest", "unmet")
    }
    assert {name: getattr(sized, name) for name in same} == same and sized.trace_hash != real.trace_hash
    assert sum(predicted(sized.folder).values()) == sized.bytes_payload
