"""The same scenario and seed give the same trace hash, for any process, hash seed and engine."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario

PROGRAM = """
import json, sys
import msgspec
from tacit.scenarios.schema.scenario import Scenario
from tacit.scenarios.running.simulation import Simulation

if __name__ == "__main__":
    scenario = msgspec.convert(json.loads(sys.argv[1]), Scenario)
    simulation = Simulation(scenario, engine=sys.argv[2])
    found = simulation.run()
    simulation.close()
    hashes = [simulation.trace.trace_hash, simulation.trace.shape_hash]
    print(json.dumps([*hashes, found.labels_digest, found.equals_plaintext]))
"""

BASE = {
    "seed": 5,
    "data": {"name": "digits", "limit": 28, "clients": 4, "labeled": 0.3},
    "protocol": {"key_bits": 512, "insecure_keys": True, "bits": 32, "k": 4, "min_clients": 2},
    "fault": [{"kind": "crash", "party": "client/2", "at": "hamming.report"}],
}


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory: pytest.TempPathFactory):
    script = tmp_path_factory.mktemp("determinism") / "program.py"
    script.write_text(PROGRAM)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def outcome(engine: str, hash_seed: str) -> list[object]:
        ran = subprocess.run(
            [sys.executable, script, json.dumps(BASE), engine],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, f"PYTHONHASHSEED={hash_seed}, {engine}:\n{ran.stderr}"
        return json.loads(ran.stdout)

    return outcome


def outcome_in_this_process(**changes: object) -> list[object]:
    simulation = Simulation(msgspec.convert({**BASE, **changes}, Scenario), engine="inline")
    try:
        found = simulation.run()
    finally:
        simulation.close()
    return [simulation.trace.trace_hash, simulation.trace.shape_hash, found.labels_digest, found.equals_plaintext]


@pytest.fixture(scope="module")
def base() -> list[object]:
    return outcome_in_this_process()


@pytest.mark.parametrize(
    ("engine", "hash_seed"),
    [
        ("pool:2", "7"),
        pytest.param("inline", "4242", marks=pytest.mark.long),
        pytest.param("inline", "0", marks=pytest.mark.long),
        pytest.param("inline", "1", marks=pytest.mark.long),
        pytest.param("pool:1", "0", marks=pytest.mark.long),
    ],
)
def test_the_trace_hash_is_the_same_in_every_process_and_engine(outcome_of, base, engine, hash_seed) -> None:
    assert outcome_of(engine, hash_seed) == base


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 6},
        {"network": {"latency": "lognormal:41ms,0.3"}},
        {"data": {**BASE["data"], "limit": 29}},
        {"device": {"speed": 0.5}},
        {"fault": []},
        {"entropy": "os"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_other_choice_changes_the_trace_hash(base, change) -> None:
    trace_hash, shape_hash, _, equal = outcome_in_this_process(**change)
    assert trace_hash != base[0]
    assert equal
    if "entropy" in change:  # equal messages at equal times, with other contents
        assert shape_hash == base[1]
