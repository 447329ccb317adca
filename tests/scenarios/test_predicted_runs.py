"""Predicted virtual time and peak memory, against what runs of the shipped protocols take."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.prediction import predict_run

UNDISTURBED = ["fault=[]", "network.loss=0.0", 'engine="inline"', "expect={}"]


def check(file: str, changes: list[str], folder: Path) -> None:
    """Check the time within 1 % and the memory within 25 % against a run with the same seed in its own process."""
    predicted = predict_run(read(file, changes, seed=1).scenario)
    options = [part for change in changes for part in ("--set", change)]
    command = [sys.executable, "-m", "tacit", "run", file, "--seed", "1", "--out", str(folder)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert result["outcome"] == "completed"
    assert predicted.virtual_seconds == pytest.approx(result["virtual_seconds"], rel=0.01)
    assert predicted.peak_memory == pytest.approx(result["peak_memory"], rel=0.25)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "flower"])  # runs a user's app
def test_predictions_of_all_shipped_protocols_equal_their_runs(name: str, tmp_path: Path) -> None:
    trained = "training.rounds" in PROTOCOLS[name].uses or "training.share" in PROTOCOLS[name].uses
    changes = [f'protocol.name="{name}"', "data.limit=160", "training.rounds=3", "training.label_from=2"]
    changes.append("cotraining.rounds=3")
    if name == "centralised":
        changes.append("data.clients=1")
    elif "protocol.hamming" in PROTOCOLS[name].uses and trained:  # transfers for each pair of clients in each round
        changes += ["data.clients=3", "training.rounds=2"]
    check("fedavg-xclp-digits" if trained else "fedct-digits", [*UNDISTURBED, *changes], tmp_path / "run")


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
def test_predictions_of_all_variants_of_xclp_equal_their_runs(hamming: str, recovery: str, tmp_path: Path) -> None:
    size = (
        ["protocol.bits=16", "data.limit=24", "data.labeled=0.5"]
        if hamming == "naor-pinkas"
        else ["protocol.bits=64", "data.limit=80"]
    )
    if hamming in ("iknp", "naor-pinkas"):  # transfers for each pair of clients
        size.append("data.clients=3")
    changes = [f'protocol.hamming="{hamming}"', f'protocol.recovery="{recovery}"', *size]
    check("xclp-digits", [*UNDISTURBED, *changes], tmp_path / "run")
