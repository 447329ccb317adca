"""Sized runs of scenarios: the real run's bytes, times and results, and a remark in every output."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import ScenarioError, run
from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.prediction import predicted

SMALL = ["data.limit=40", "cost=modelled", "engine=inline", "protocol.insecure_keys=true", "protocol.key_bits=512"]


def printed(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "settings",
    [
        ["protocol.hamming=paillier", "protocol.recovery=secure"],
        ["protocol.hamming=paillier", "protocol.packing=none", "network.topology=mesh", "protocol.bits=16"],
        ["protocol.hamming=iknp", "protocol.recipe=authors-code", "protocol.rounds=2", "data.clients=3"],
        ["protocol.hamming=naor-pinkas", "protocol.bits=8", "data.limit=12", "data.labeled=0.5", "data.clients=3"],
        ["protocol.hamming=direct"],
    ],
)
def test_a_sized_run_equals_the_real_run_except_for_contents(quick: Path, tmp_path: Path, settings: list[str]) -> None:
    found = {}
    for fidelity in ("real", "sized"):
        scenario = read(quick, [*SMALL, *settings, f"fidelity={fidelity}"]).scenario
        found[fidelity] = run(scenario, out=tmp_path / fidelity)
    real, sized = found["real"], found["sized"]
    assert (real.fidelity, sized.fidelity) == ("real", "sized")
    assert sized.unmet == real.unmet == []
    same = (
        "shape_hash", "virtual_seconds", "message_count", "bytes_total", "bytes_payload", "bytes_sealing",
        "bytes_envelope", "accuracy", "baselines", "equals_plaintext", "hamming_digest", "labels_digest",
        "round_records",
    )  # fmt: skip
    for name in same:
        assert getattr(sized, name) == getattr(real, name), name
    # The direct variant has no cryptography to leave out.
    assert (sized.trace_hash == real.trace_hash) == ("protocol.hamming=direct" in settings)
    measured = {kind: size for kind, size in predicted(sized.folder).items() if size}
    assert measured == {kind: size for kind, size in predicted(real.folder).items() if size}
    assert sum(measured.values()) == sized.bytes_payload


def test_a_pool_leaves_the_trace_of_a_sized_run_unchanged(quick: Path, tmp_path: Path) -> None:
    settings = [*SMALL, "protocol.hamming=paillier", "fidelity=sized"]
    one, other = (
        run(read(quick, settings).scenario, out=tmp_path / engine, engine=engine) for engine in ("inline", "pool:2")
    )
    assert one.trace_hash == other.trace_hash
    assert one.baselines == other.baselines and len(one.baselines) == 2


def test_a_sized_run_takes_the_times_of_a_recorded_one(quick: Path, tmp_path: Path) -> None:
    settings = [*SMALL, "protocol.hamming=paillier"]
    real = run(read(quick, [*settings, "cost=measured"]).scenario, out=tmp_path / "real")
    again = [*settings, f"cost=replayed:{real.folder}", "fidelity=sized"]
    sized = run(read(quick, again).scenario, out=tmp_path / "sized")
    assert (sized.shape_hash, sized.virtual_seconds) == (real.shape_hash, real.virtual_seconds)


@pytest.mark.parametrize("cost", ["free", "measured"])
def test_a_sized_run_has_modelled_times_or_replayed_ones(quick: Path, cost: str) -> None:
    with pytest.raises(ScenarioError) as error:
        read(quick, ["fidelity=sized", f"cost={cost}"])
    assert error.value.key == "cost"
    assert error.value.problem.endswith('does not go with fidelity = "sized"; allowed: modelled, replayed:RUN_DIR')


def test_every_output_names_the_fidelity(quick: Path, tmp_path: Path) -> None:
    sets = [part for text in (*SMALL, "fidelity=sized") for part in ("--set", text)]
    lines = printed("run", quick, *sets, "--out", tmp_path / "run").splitlines()
    assert any(line.startswith("WARNING  fidelity") for line in lines)
    assert any(line.startswith("fidelity  sized") for line in lines)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["fidelity"] == "sized"
    assert printed("bytes", tmp_path / "run").splitlines()[0].endswith("(sized)")
    swept = printed("sweep", quick, *sets, "--seeds", 2, "--out", tmp_path / "sweep")
    assert any(line.startswith("fidelity  sized") for line in swept.splitlines())
    assert printed("bytes", tmp_path / "sweep").splitlines()[0].endswith("sweep (sized): means over the completed runs")
    with (tmp_path / "sweep" / "sweep.csv").open(newline="") as file:
        assert {row["fidelity"] for row in csv.DictReader(file)} == {"sized"}
    real = printed("run", quick, "--out", tmp_path / "real") + printed("bytes", tmp_path / "real")
    assert "sized" not in real


def test_sized_training_with_secure_sums_equals_the_real_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    settings = [
        *SMALL, "data.limit=150", "data.clients=4", "protocol.hamming=paillier", "protocol.bits=64",
        "training.rounds=2", "training.label_from=1", "training.averaging=secure", "training.min_clients=2",
        'fault=[{kind="crash", party="client/2", after="hamming.encode", back_after=1.0}]', "expect.lost=['client/2']",
    ]  # fmt: skip
    real, sized = (
        run(read("fedavg-xclp-digits", [*settings, f"fidelity={one}"]).scenario, out=tmp_path / one)
        for one in ("real", "sized")
    )
    assert (sized.outcome, sized.unmet) == ("completed", [])
    assert sized.shape_hash == real.shape_hash
    assert (sized.virtual_seconds, sized.bytes_total) == (real.virtual_seconds, real.bytes_total)
    assert (sized.model_digest, sized.round_records) == (real.model_digest, real.round_records)
    assert sized.trace_hash != real.trace_hash
