"""Runs whose networks have state of their own give one trace, wherever their jobs run, and after a resume."""

import hashlib
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import load, run
from tacit.parties.learning import jobs
from tacit.parties.learning.vectors import encode
from tacit.protocols.federated.experiment import model_of
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.splits import parts_of
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.runner import resume
from tests import warm
from tests.scenarios.test_resume import KILLED

pytest.importorskip("torch")

ZOO = Path(__file__).parents[1] / "parties" / "learning" / "zoo.py"

SCENARIO = """
title = "Networks with state"
seed = 1
plugins = ["zoo.py"]
[data]
name = "digits"
clients = 5
labeled = 1.0
limit = 200
partition = "dirichlet:0.3"
[protocol]
name = "fedavg"
[model]
name = "zoo_bn_cumulative"
[training]
rounds = 3
epochs = 2
labeled_batch = 10
learning_rate = 0.1
checkpoint_every = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "zoo.py").write_text(ZOO.read_text())
    found = tmp_path / "state.toml"
    found.write_text(SCENARIO)
    return found


@pytest.mark.parametrize(
    ("name", "workers"), [("bn_cumulative", (2,)), pytest.param("attribute_list", (2, 3), marks=pytest.mark.long)]
)
def test_one_trace_in_every_engine_and_after_a_resume(file: Path, name: str, workers: tuple[int, ...]) -> None:
    network = f"model.name=zoo_{name}"
    traces = {
        engine: run(load(file, [network, f'engine="{engine}"']), out=file.parent / engine.replace(":", "")).trace_hash
        for engine in ("inline", *(f"pool:{count}" for count in workers))
    }
    out = file.parent / "killed"
    arguments = [str(file), str(out), "write2", network, 'engine="inline"']
    assert warm.run([sys.executable, "-c", KILLED, *arguments]).returncode == -signal.SIGKILL
    traces["resumed"] = resume(out).trace_hash
    assert len(set(traces.values())) == 1, traces


METHODS = (
    ["training.averaging=plain"],
    ["training.averaging=secure"],
    ["training.averaging=secure", "sum.value_bits=12"],
    ["training.averaging=lightsecagg", "sum.value_bits=12"],
    ["protocol.name=scaffold"],
    ["protocol.name=fedprox"],
    ["protocol.name=fedbuff"],
    ["protocol.name=fedavg+mt", "data.labeled=0.5"],
    ["protocol.name=fedmatch", "data.labeled=0.5"],
    ["protocol.name=fedsiam", "data.labeled=0.5"],
    ["protocol.name=fedprop", "data.labeled=0.5", "training.label_from=1", "protocol.hamming=plaintext"],
)
NETWORKS = ("half", "lora", "bfloat", "lstm", "lazy", "bn")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param(
            name,
            changes,
            id=f"{name}-{','.join(one.partition('=')[2] for one in changes)}",
            marks=[pytest.mark.long] * (place != turn % 2 or "protocol.name=fedprop" in changes),
        )
        for place, name in enumerate(NETWORKS)
        for turn, changes in enumerate(METHODS)
        if place < 2 or (turn + place) % 2 == 0  # each network with half of the methods, the next with the others
    ],
)
def test_every_method_takes_such_networks(file: Path, name: str, changes: list[str]) -> None:
    """Each method takes one of two networks in the fast tests; the long ones take the other, and half of the rest."""
    scenario = load(file, [f"model.name=zoo_{name}", "training.rounds=2", "training.epochs=1", *changes])
    result = run(scenario, out=file.parent / "run")
    assert result.outcome == "completed", result.reason
    assert result.equals_plaintext is not False
    sent = {row.type: row.payload for row in byte_rows(result.folder)}
    assert sent == {row.type: row.payload for row in tacit.predict(scenario).rows}


@pytest.mark.parametrize("name", ["half", "bfloat", "lora"])
def test_the_stored_model_is_the_vector_exactly(file: Path, name: str) -> None:
    scenario = load(file, [f"model.name=zoo_{name}", "training.rounds=1"])
    result = run(scenario, out=file.parent / "run")
    spec = model_of(scenario, parts_of(scenario).held)
    with np.load(result.folder / "model.npz") as arrays:
        vector = encode(arrays["parameters"], jobs.layout(spec))
    assert result.model_digest == hashlib.sha256(vector).hexdigest()


@pytest.mark.parametrize("protocol", ["fedavg", "fedbuff"])
def test_a_client_with_one_point_sits_out_where_batches_are_normalised(tmp_path: Path, protocol: str) -> None:
    random, owners = np.random.default_rng(1), np.repeat([0, 1, 2, 3], [12, 13, 12, 1])
    np.savez(
        tmp_path / "one.npz",
        features=random.integers(0, 255, (38, 8, 8, 1), dtype=np.uint8), labels=np.arange(38) % 3, clients=owners,
    )  # fmt: skip
    text = '[data]\npath = "one.npz"\npartition = "natural"\nclients = 4\nlabeled = 1.0\n'
    text += f'[protocol]\nname = "{protocol}"\n[model]\nname = "fedct_cifar10"\n'
    text += "[training]\nrounds = 2\nepochs = 1\nlabeled_batch = 6\nvalidation = 0.0\n"
    (tmp_path / "one.toml").write_text('title = "One point"\nseed = 1\n' + text)
    scenario = load(tmp_path / "one.toml")
    (caution,) = cautions(scenario)
    assert caution.startswith("client/3: too few labeled points to train") and "fedct_cifar10" in caution
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed" and not result.lost
    assert all("client/3" not in one.averaged for one in result.round_records)
    sent = {row.type: row.payload for row in byte_rows(result.folder)}
    assert sent == {row.type: row.payload for row in tacit.predict(scenario).rows}
    with pytest.raises(tacit.ScenarioError, match=r"training\.labeled_batch: 1 is too small"):
        run(load(tmp_path / "one.toml", ["training.labeled_batch=1"]), out=tmp_path / "small")
