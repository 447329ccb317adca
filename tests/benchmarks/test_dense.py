"""The dense computation of FedAvg+XCLP: its labels are XCLP's, up to hashing, and its models are as accurate."""

from pathlib import Path

import numpy as np
import pytest

from tacit import ProtocolKeys, ScenarioError, load
from tacit.benchmarks.dense import dense_labels, main, train
from tacit.protocols.xclp import oracle
from tacit.protocols.xclp.lsh import hash_bits, planes
from tacit.scenarios.running.runner import carry_out

SMALL = ["data.limit=400", "protocol.hamming=plaintext", "engine=inline", "training.rounds=14", "expect={}"]


@pytest.mark.parametrize("recipe", ["paper", "authors-code"])
def test_dense_labels_match_the_oracle_on_long_hashes(recipe: str) -> None:
    random = np.random.default_rng(7)
    truth = np.arange(240) % 4
    features = random.normal(size=(4, 20))[truth] + 0.8 * random.normal(size=(240, 20))
    known = np.where(np.arange(240) < 24, truth, -1)
    labels, weights = dense_labels(features.astype(np.float32), known, 4, ProtocolKeys(k=6, recipe=recipe))  # type: ignore[arg-type]
    bits = hash_bits(features, planes(bytes(32), 32768, 20))
    wanted = oracle.xclp([bits], [known], [0], 4, 6, 0.99, recipe=recipe)
    free = known < 0
    assert (labels == wanted.labels)[free].mean() > 0.97
    largest = weights[free].max() if recipe == "authors-code" else 1.0
    assert np.corrcoef(weights[free] / largest, wanted.confidence[free])[0, 1] > 0.95
    assert (labels == truth)[free].mean() > 0.8


def test_a_model_of_the_dense_copy_is_as_accurate_as_the_protocols(tmp_path: Path) -> None:
    scenario = load("fedavg-xclp-digits", SMALL)
    ran = carry_out(scenario, "digits", out=tmp_path / "run").accuracy
    assert ran is not None and abs(train(scenario) - ran) < 0.08


def test_an_unsupported_protocol_or_scenario_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"protocol\.name: allowed: fedavg, fedavg\+xclp"):
        train(load("fedavg-xclp-digits", [*SMALL, "protocol.name=fedprop"]))
    with pytest.raises(SystemExit, match="error: no-such-scenario: "):
        main(["no-such-scenario"])
