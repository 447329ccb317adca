"""Predicted virtual time and peak memory, against runs of all protocols."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario

UNDISTURBED = ["fault=[]", "network.loss=0.0", 'engine="inline"', "expect={}"]


def virtual_seconds(scenario: Scenario) -> float:
    """The virtual time of a run."""
    simulation = Simulation(scenario, engine="inline")
    try:
        assert simulation.run().outcome == "completed"
        return simulation.now
    finally:
        simulation.close()


def peak_memory(file: str, changes: list[str], folder: Path) -> int:
    """The peak memory of a run in a process of its own."""
    options = [part for change in changes for part in ("--set", change)]
    command = [sys.executable, "-m", "tacit", "run", file, "--seed", "1", "--out", str(folder)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(json.loads((folder / "result.json").read_text())["peak_memory"])


def check(file: str, changes: list[str], folder: Path) -> None:
    """Check that the median time of three seeds is within a tenth, and the memory of the first seed within a
    quarter."""
    scenarios = [read(file, changes, seed=seed).scenario for seed in range(1, 4)]
    predicted = [predict_run(scenario) for scenario in scenarios]
    times = [virtual_seconds(scenario) for scenario in scenarios]
    assert median(one.virtual_seconds for one in predicted) == pytest.approx(median(times), rel=0.1)
    assert predicted[0].peak_memory == pytest.approx(peak_memory(file, changes, folder / "run"), rel=0.25)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "flower"])  # runs a user's app
def test_shipped_protocols(name: str, tmp_path: Path) -> None:
    trained = "training.rounds" in PROTOCOLS[name].uses or "training.share" in PROTOCOLS[name].uses
    changes = [f'protocol.name="{name}"', "data.limit=160", "training.rounds=3", "training.label_from=2"]
    changes.append("cotraining.rounds=3")
    if name == "centralised":
        changes.append("data.clients=1")
    elif "protocol.hamming" in PROTOCOLS[name].uses and trained:  # transfers for each pair of clients in each round
        changes.append("data.clients=4")
    check("fedavg-xclp-digits" if trained else "fedct-digits", [*UNDISTURBED, *changes], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("hamming", "recovery"),
    [
        ("plaintext", "restart"),
        ("plaintext", "shamir"),
        ("paillier", "shamir"),
        ("iknp", "restart"),
        ("naor-pinkas", "shamir"),
        ("direct", "restart"),
    ],
)
def test_variants_of_xclp(hamming: str, recovery: str, tmp_path: Path) -> None:
    size = (
        ["protocol.bits=16", "data.limit=24", "data.labeled=0.5"]
        if hamming == "naor-pinkas"
        else ["protocol.bits=64", "data.limit=80"]
    )
    if hamming == "iknp":  # transfers for each pair of clients
        size.append("data.clients=4")
    changes = [f'protocol.hamming="{hamming}"', f'protocol.recovery="{recovery}"', *size]
    check("xclp-digits", [*UNDISTURBED, *changes], tmp_path)
