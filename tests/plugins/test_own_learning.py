"""The examples of networks, tasks and local training of one's own: beside plain torch, and in every way to run."""

import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit import load, run
from tacit.parties.data.splits import named
from tacit.parties.learning import jobs
from tacit.parties.learning.backend import seeded
from tacit.parties.learning.spec import MODELS
from tacit.parties.learning.vectors import decode
from tacit.protocols.federated.experiment import model_of
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.folder import Result, byte_rows
from tacit.scenarios.running.runner import resume
from tacit.scenarios.schema.scenario import Scenario
from tests import warm
from tests.deployed.together import Together
from tests.scenarios.test_resume import KILLED

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
CHANGES = {
    "char_lstm": ["data.limit=60"],
    "diabetes": ["data.limit=150"],
    "focal": ["data.limit=150", "data.partition=iid"],
    "fedbn": ["data.limit=200"],
    "lora": ["data.limit=40"],
}
NAMES = [pytest.param(name, marks=pytest.mark.long) if name == "lora" else name for name in CHANGES]


@pytest.fixture
def example(tmp_path: Path) -> Callable[..., Scenario]:
    """The scenario of an example, copied to a folder of its own, with changes; three rounds."""

    def example(name: str, *changes: str) -> Scenario:
        for file in (f"{name}.py", f"{name}.toml", "lines.py"):
            shutil.copy(EXAMPLES / file, tmp_path / file)
        rounds = 2 if name == "lora" else 3
        return load(tmp_path / f"{name}.toml", [*CHANGES[name], f"training.rounds={rounds}", *changes])

    return example


def sent(rows: Any) -> dict[str, int]:
    return {row.type: row.payload for row in rows}


@pytest.mark.parametrize("name", CHANGES)
def test_examples_are_short(name: str) -> None:
    for end in (".py", ".toml"):
        assert len((EXAMPLES / f"{name}{end}").read_text().splitlines()) <= 60


# --- beside an independent loop


LOSSES = {
    "char_lstm": lambda outputs, targets: torch.nn.functional.cross_entropy(outputs.transpose(1, 2), targets),
    "diabetes": lambda outputs, targets: torch.nn.functional.huber_loss(outputs, targets),
    "focal": lambda outputs, targets: sum(
        -((1 - p[t]) ** 2) * p[t].log() for p, t in zip(outputs.softmax(1), targets, strict=True)
    ) / len(targets),
    "fedbn": torch.nn.functional.cross_entropy,
    "lora": torch.nn.functional.cross_entropy,
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "char_lstm": lambda moving: torch.optim.Adam(moving, lr=0.01, eps=0.01, weight_decay=2e-4),
    "diabetes": lambda moving: torch.optim.SGD(moving, lr=0.05, weight_decay=2e-4),
    "focal": lambda moving: torch.optim.AdamW(moving, lr=0.003, betas=(0.9, 0.99), eps=0.01, weight_decay=0.01),
    "fedbn": lambda moving: torch.optim.SGD(moving, lr=0.1, weight_decay=2e-4),
    "lora": lambda moving: torch.optim.AdamW(moving, lr=0.005, eps=0.01, weight_decay=2e-4),
}


def plain_fedavg(name: str, scenario: Scenario, rounds: int, private: tuple[str, ...]) -> np.ndarray:
    """The parameters after FedAvg in plain torch, one batch an epoch, from the same network and the same data."""
    material = material_of(scenario)
    spec = model_of(scenario, material.parts.held)
    with seeded(torch.device("cpu"), 0):
        network = MODELS[spec.name].build(spec).train()
    moving = [(key, one) for key, one in network.named_parameters() if one.requires_grad]
    statistics = [
        (key, one) for key, one in network.named_buffers() if one.is_floating_point() and key in network.state_dict()
    ]
    own = [key for key, _ in [*moving, *statistics] if any(part in key for part in private)]
    shared = [(key, one) for key, one in [*moving, *statistics] if key not in own]
    as_built = {key: one.detach().clone() for key, one in network.state_dict().items()}
    kept: dict[str, dict[str, Any]] = {}
    model = torch.from_numpy(decode(jobs.initial(spec, scenario.seed)).copy())
    for _ in range(rounds):
        models, counts = [], []
        for client, shard in named(material.shards).items():
            network.load_state_dict(as_built | kept.get(client, {}))
            with torch.no_grad():
                at = 0
                for _, tensor in shared:
                    tensor.copy_(model[at : at + tensor.numel()].view(tensor.shape))
                    at += tensor.numel()
            targets = torch.from_numpy((shard.labels if shard.targets is None else shard.targets).copy())
            inputs = torch.from_numpy(shard.points.astype(np.float32))
            if name == "char_lstm":
                inputs = inputs.long()
            optimizer = OPTIMIZERS[name]([one for _, one in moving])
            for _ in range(scenario.training.epochs):
                optimizer.zero_grad()
                LOSSES[name](network(inputs), targets).backward()
                if name == "char_lstm":
                    torch.nn.utils.clip_grad_norm_([one for _, one in moving], 1.0)
                optimizer.step()
            models.append(torch.cat([one.detach().reshape(-1) for _, one in shared]))
            counts.append(len(inputs))
            kept[client] = {key: network.state_dict()[key].detach().clone() for key in own}
        n = torch.tensor(counts).double()
        model = (n @ torch.stack(models).double() / n.sum()).float()
    return model.numpy()


OPTIONS = {
    # With the eps of 1e-8, Adam's first steps follow the sign of gradients that are 0 but for rounding.
    "char_lstm": ['training.optimizer_options=["eps=0.01"]'],
    "focal": ['training.optimizer_options=["betas=[0.9, 0.99]", "eps=0.01"]'],
    "lora": ['training.optimizer_options=["eps=0.01"]'],
}


@pytest.mark.parametrize("name", NAMES)
def test_fedavg_equals_an_independent_loop(example: Callable[..., Scenario], tmp_path: Path, name: str) -> None:
    constant = ["training.decay_rounds=0", "training.warmup_rounds=0"]
    constant += ["training.evaluation=none", "data.held_out=0", f"training.rounds={2 if name == 'lora' else 3}"]
    scenario = example(name, *constant, *OPTIONS.get(name, []), "training.labeled_batch=1000", 'engine="inline"')
    result = run(scenario, out=tmp_path / "run")
    with np.load(result.folder / "model.npz") as arrays:
        found = arrays["parameters"]
    private = ("0.", "2.") if name == "fedbn" else ()
    wanted = plain_fedavg(name, scenario, scenario.training.rounds, private)
    np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)


# --- in every way to run


def test_clients_of_fedbn_test_the_model_with_their_own_normalisation(
    example: Callable[..., Scenario], tmp_path: Path
) -> None:
    result = run(example("fedbn", "training.rounds=1"), out=tmp_path / "run", engine="inline")
    assert set(result.evaluation_by_client) == {f"client/{number}" for number in range(5)}
    assert result.evaluation["accuracy_worst"] <= result.evaluation["accuracy_mean"]


SECURE = ["training.averaging=secure", "sum.value_bits=16"]
FAST = ("focal", "fedbn")
"""Examples whose secure average is run in the fast tests, too: a common network, and one with parts that stay."""


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(pytest.param(name, [], id=f"{name}-plain") for name in CHANGES if name != "lora"),
        *(
            pytest.param(name, SECURE, id=f"{name}-secure", marks=[pytest.mark.long] * (name not in FAST))
            for name in CHANGES
        ),
    ],
)
def test_examples_lose_a_client_and_send_the_predicted_bytes(
    example: Callable[..., Scenario], tmp_path: Path, name: str, changes: list[str]
) -> None:
    """Networks with low-rank adapters take secure averages here, and plain ones in `test_state_of_networks`."""
    fault = 'fault=[{kind="crash", party="client/1", at="train.update", round=2}]'
    scenario = example(name, fault, "protocol.deadline=5s", *changes)
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed", result.reason
    assert {loss.party for loss in result.lost} == {"client/1"}
    assert result.equals_plaintext
    assert sent(byte_rows(result.folder)) == sent(tacit.predict(scenario).rows)


@pytest.mark.parametrize(
    "changes", [[], pytest.param(["training.averaging=secure", "sum.value_bits=16"], marks=pytest.mark.long)]
)
def test_clients_measure_a_metric_of_ones_own(
    example: Callable[..., Scenario], tmp_path: Path, changes: list[str]
) -> None:
    evaluation = "secure" if changes else "plain"
    asked = [f"training.evaluation={evaluation}", "data.held_out=0.2", 'training.metrics=["worst class"]']
    scenario = example("focal", "training.rounds=2", *asked, *changes)
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed", result.reason
    assert 0 <= result.evaluation["worst class"] <= result.evaluation["accuracy"]
    if each := result.evaluation_by_client:
        points = [len(one.test_points) for one in material_of(scenario).shards if one.test_points is not None]
        mean = np.average([one["worst class"] for one in each.values()], weights=points)
        assert result.evaluation["worst class"] == pytest.approx(mean)
    assert sent(byte_rows(result.folder)) == sent(tacit.predict(scenario).rows)


def digest(scenario: Scenario, out: Path) -> tuple[str, str]:
    result = run(scenario, out=out)
    return result.trace_hash, result.model_digest


@pytest.mark.parametrize("name", ["fedbn", pytest.param("focal", marks=pytest.mark.long)])
def test_one_trace_in_every_engine_and_after_a_resume(
    example: Callable[..., Scenario], tmp_path: Path, name: str
) -> None:
    changes = ["training.checkpoint_every=1"]
    found = {
        engine: digest(example(name, *changes, f'engine="{engine}"'), tmp_path / engine.replace(":", ""))
        for engine in ("inline", "pool:2")
    }
    arguments = [*CHANGES[name], "training.rounds=3", *changes, 'engine="inline"']
    out = tmp_path / "killed"
    killed = warm.run([sys.executable, "-c", KILLED, str(tmp_path / f"{name}.toml"), str(out), "write2", *arguments])
    assert killed.returncode == -signal.SIGKILL
    result: Result = resume(out)
    found["resumed"] = result.trace_hash, result.model_digest
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("name", ["fedbn", "diabetes"])
def test_deployed_parties_train_the_same_model(example: Callable[..., Scenario], tmp_path: Path, name: str) -> None:
    scenario = example(name, "network.latency=0ms", "protocol.deadline=20s", "training.rounds=2")
    (tmp_path / "parties").mkdir()
    real = Together(scenario, tmp_path / "parties").run()
    simulated = run(scenario, out=tmp_path / "simulated", engine="inline")
    assert (real.outcome, real.model_digest) == ("completed", simulated.model_digest)
