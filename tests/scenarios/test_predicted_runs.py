"""Predicted virtual time and peak memory, against what runs of the shipped protocols take."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.parties.data.splits import named
from tacit.parties.learning.extras import TORCH
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.splits import material_of
from tacit.scenarios.running.prediction import predict_run, predicted_memory
from tests import warm

UNDISTURBED = ["fault=[]", "network.loss=0.0", 'engine="inline"', "expect={}"]


Run = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


def run_in_a_new_process(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process of its own, which imports everything itself."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(file: str, changes: list[str], folder: Path, ran: Run = run_in_a_new_process, memory: float = 0.25) -> None:
    """Check the time within 1 % and the `memory` within 25 % against a run with the same seed in its own process.

    A forked process has some 15 MB less: the pages of libraries that only imports touch. That is too much of a
    difference for a run without PyTorch.
    """
    predicted = predict_run(read(file, changes, seed=1).scenario)
    options = [part for change in changes for part in ("--set", change)]
    done = ran([sys.executable, "-m", "tacit", "run", file, "--seed", "1", "--out", str(folder), *options])
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert result["outcome"] == "completed"
    assert predicted.virtual_seconds == pytest.approx(result["virtual_seconds"], rel=0.01)
    assert predicted.peak_memory == pytest.approx(result["peak_memory"], rel=memory)


ALIKE = {
    "fedavg": "fedmatch", "fedavg+perclient-lp": "fedmatch", "fedavg+network": "fedmatch", "fedsem+": "fedmatch",
    "fedsiam": "fedmatch", "fedavg+mt": "fedmatch", "fedprox": "scaffold", "fedprop": "fedprop+mt",
    "fedmd": "dd", "local": "fedct", "dp-pate": "dp-fedct",
}  # fmt: skip
"""Protocols that hold their memory in the same parts as another one."""


def shipped(name: str) -> tuple[str, list[str]]:
    """The file of a shipped protocol, and the changes by which its run is small."""
    trained = "training.rounds" in PROTOCOLS[name].uses or "training.share" in PROTOCOLS[name].uses
    changes = [f'protocol.name="{name}"', "data.limit=160", "training.rounds=3", "training.label_from=2"]
    changes += ["cotraining.rounds=3", "learner.steps=4"]
    if name == "centralised":
        changes.append("data.clients=1")
    elif "protocol.hamming" in PROTOCOLS[name].uses and trained:  # transfers for each pair of clients in each round
        changes += ["data.clients=3", "training.rounds=2"]
    return "fedavg-xclp-digits" if trained else "fedct-digits", [*UNDISTURBED, *changes]


@pytest.mark.long
@pytest.mark.parametrize(("name", "other"), ALIKE.items())
def test_similar_protocols_are_predicted_to_hold_the_same_memory(name: str, other: str) -> None:
    """So one of them is run below. `test_predicted_messages` compares the virtual time of each with that of its run."""
    one, another = (predict_run(read(*shipped(each), seed=1).scenario).peak_memory for each in (name, other))
    assert one == pytest.approx(another, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name not in ("flower", *ALIKE)])  # flower: user's app
def test_predictions_of_shipped_protocols_equal_their_runs(name: str, tmp_path: Path) -> None:
    file, changes = shipped(name)
    loaded = PROTOCOLS[name].loaded(read(file, changes).scenario)
    check(file, changes, tmp_path / "run", warm.run if loaded >= TORCH else run_in_a_new_process)


@pytest.mark.long
@pytest.mark.parametrize(
    ("clients", "share", "averaging"), [(10_000, 0.1, "plain"), (10_000, 0.02, "secagg+"), (300, 1.0, "secagg+")]
)
def test_the_predicted_memory_of_many_registered_clients_equals_that_of_the_run(
    clients: int, share: float, averaging: str, tmp_path: Path
) -> None:
    changes = [f"data.clients={clients}", f"training.share={share}", f"training.averaging={averaging}"]
    check("many-clients", [*UNDISTURBED, "training.rounds=1", *changes], tmp_path / "run", warm.run)


@pytest.mark.long
@pytest.mark.parametrize(
    ("hamming", "recovery"),
    [
        ("plaintext", "restart"),
        ("plaintext", "secure"),
        ("paillier", "secure"),
        ("iknp", "restart"),
        ("naor-pinkas", "secure"),
        ("direct", "restart"),
    ],
)
def test_predictions_of_all_variants_of_xclp_equal_their_runs(hamming: str, recovery: str, tmp_path: Path) -> None:
    size = (
        ["protocol.bits=8", "data.limit=24", "data.labeled=0.5"]
        if hamming == "naor-pinkas"
        else ["protocol.bits=64", "data.limit=80"]
    )
    if hamming in ("iknp", "naor-pinkas"):  # transfers for each pair of clients
        size.append("data.clients=3")
    changes = [f'protocol.hamming="{hamming}"', f'protocol.recovery="{recovery}"', *size]
    check("xclp-digits", [*UNDISTURBED, *changes], tmp_path / "run")


@pytest.mark.parametrize(
    ("hamming", "clients", "measured"),
    [
        ("plaintext", 60, 144), ("plaintext", 100, 179), ("plaintext", 150, 240), ("plaintext", 200, 324),
        ("direct", 60, 138), ("direct", 100, 169), ("direct", 150, 237), ("direct", 200, 324),
    ],
)  # fmt: skip
def test_the_predicted_memory_of_many_clients_of_xclp_is_that_measured(
    hamming: str, clients: int, measured: int
) -> None:
    """The measured memory is in MB, of runs with the engine inline. Pairs that do not encrypt hold less."""
    changes = [f"data.clients={clients}", f"data.limit={5 * clients}", "data.labeled=0.2"]
    scenario = read("xclp-digits", [*UNDISTURBED, *changes, f"protocol.hamming={hamming}"]).scenario
    material = material_of(scenario)
    found = predicted_memory(scenario, material.parts, named(material.shards), 0)
    assert found == pytest.approx(measured * 1e6, rel=0.15)


@pytest.mark.long
def test_the_predicted_memory_of_many_clients_of_xclp_equals_that_of_the_run(tmp_path: Path) -> None:
    changes = ["data.clients=60", "data.limit=300", "data.labeled=0.2", "protocol.hamming=plaintext"]
    check("xclp-digits", [*UNDISTURBED, *changes], tmp_path / "run", memory=0.15)
