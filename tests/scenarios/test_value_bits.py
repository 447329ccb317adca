"""Secure averages of numbers of few bits: the plaintext oracle's average of quantised models, and the stated bytes."""

import tracemalloc
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tacit
from tacit import Scenario, ScenarioError, load, run
from tacit.scenarios.chaos.campaign import verdict
from tacit.scenarios.command.main import app

CRASH = """
[[fault]]
kind = "crash"
party = "client/1"
before = "sum.reveal"
[[fault]]
kind = "crash"
party = "client/2"
before = "sum.mask"
"""


def scenario(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    tiny.write_text(tiny.read_text() + faults)
    return load(tiny, ["protocol.name=fedavg", "data.clients=6", "training.min_clients=2", *changes])


@pytest.mark.parametrize(
    ("averaging", "weighting", "bits"),
    [
        *(("secure", "points", bits) for bits in (2, 7, 16, 32)),
        *(("secagg+", "equal", bits) for bits in (2, 7, 16, 32)),
        ("secure", "equal", 7),
        ("secagg+", "points", 7),
    ],
)
def test_the_average_equals_that_of_the_quantised_models_under_any_losses(
    tiny: Path, averaging: str, weighting: str, bits: int
) -> None:
    keys = (f"training.averaging={averaging}", f"training.weighting={weighting}", f"sum.value_bits={bits}")
    keys = (*keys, "sum.tolerated_dropouts=0.34")
    found = run(scenario(tiny, *keys, "sum.clip=0.1", "training.rounds=2", faults=CRASH), out=tiny.parent / "run")
    assert found.outcome == "completed" and found.equals_plaintext
    first, second = found.round_records
    assert first.averaged == ("client/0", "client/1", "client/3", "client/4", "client/5")
    assert 0 < first.clipped < 1 and first.largest > 0.1 and second.equals_plaintext


@pytest.mark.parametrize("largest", [1, 2])
def test_a_client_with_more_points_counts_as_one_with_the_largest_weight(tiny: Path, largest: int) -> None:
    keys = ("training.averaging=secure", "training.weighting=points", f"sum.largest_weight={largest}")
    found = run(scenario(tiny, *keys, "sum.value_bits=8", "data.limit=240"), out=tiny.parent / "run")
    assert found.outcome == "completed" and found.equals_plaintext


def test_a_loss_beyond_the_range_of_its_words_is_clipped(tiny: Path) -> None:
    """Each loss is clipped to 2^15; else it would carry into a word that the sum does not have."""
    keys = ("training.averaging=secure", "sum.value_bits=8", "training.learning_rate=1e9", "training.epochs=5")
    found = run(scenario(tiny, *keys, "training.rounds=1", "sum.clip=100.0"), out=tiny.parent / "run")
    assert [record.loss for record in found.round_records] == [32768]


@pytest.mark.parametrize(("weighting", "more"), [("equal", 0), ("points", 2)])
def test_few_value_bits_take_fewer_bytes_by_formula_prediction_and_run(tiny: Path, weighting: str, more: int) -> None:
    """Weights of up to 3, the most labels of a client, take 2 bits `more`."""
    masked = {}
    for bits in ("exact", "16", "8"):
        keys = (f"sum.value_bits={bits}", f"training.weighting={weighting}", "training.rounds=1")
        one = scenario(tiny, "training.averaging=secure", *keys)
        found = run(one, out=tiny.parent / f"run{bits}")
        counted = tacit.bytes(found)
        sent = {row.type: row.payload for row in counted.rows}
        assert counted.formula == sent
        assert sent == {row.type: row.payload for row in tacit.predict(one).rows}
        masked[bits] = sent["MaskedChunk"]
    parameters = (masked["exact"] // (8 * 6)) - 3
    wide, narrow = 19 + more, 11 + more  # 6 (2^16 - 1) < 2^19, the loss in 3 words
    assert masked["16"] == 6 * -(-(parameters + 2 + 3) * wide // 8)
    assert masked["8"] == 6 * -(-(parameters + 2 + 5) * narrow // 8)


@pytest.mark.parametrize("bits", ["16", pytest.param("exact", marks=pytest.mark.long)])
def test_a_prediction_with_value_bits_holds_no_model_in_memory(tiny: Path, bits: str) -> None:
    """Eight clients would each hold a model of 4 MB, and words of 8 MB."""
    ways = ("training.averaging=secure", f"sum.value_bits={bits}", "model.name=linear_embedding")
    small, large = (
        scenario(tiny, *ways, f"model.embedding={width}", "data.clients=8", "training.rounds=1")
        for width in (100, 13_000)
    )
    tacit.predict(small)  # reads the data, and imports what a prediction needs
    tracemalloc.start()
    try:
        tacit.predict(large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


@pytest.mark.parametrize("averaging", ["secure", "committee", "prio3"])
def test_a_prediction_with_value_bits_has_all_rounds(tiny: Path, averaging: str) -> None:
    """Clients refuse a repeated model, and a hollow model of a few bits must not look like a repetition."""
    ways = (f"training.averaging={averaging}", "sum.value_bits=9", "sum.clip=1.0", "training.rounds=4")
    one = scenario(tiny, *ways, "data.clients=8")
    sent = {row.type: row.payload for row in tacit.bytes(run(one, out=tiny.parent / "run")).rows if row.payload}
    assert sent == {row.type: row.payload for row in tacit.predict(one).rows if row.payload}


PLUGIN = """
import numpy as np

from tacit import Phases, ProtocolKeys, SecureSum, add_protocol


class Spread(SecureSum):
    name = "spread"
    value_bits, clip = 9, 2.0

    def dimension(self, keys):
        return 3

    def vector(self, keys, shard, public):
        return shard.features.mean(axis=0)[:3] - 4


class Quantised(Phases):
    name, summary = "quantised-spread", "a sum of numbers of nine bits"
    learned = {"server": "the sum and who is in it", "client": "who takes part"}
    keys, parts, tolerance = ProtocolKeys, (Spread(),), 1e-9

    def oracle(self, keys, over):
        step = 4 / 511
        inputs = [np.clip(shard.features.mean(axis=0)[:3] - 4, -2, 2) for shard in over["spread"].values()]
        return {"spread": sum(np.rint((one + 2) / step) * step - 2 for one in inputs)}


add_protocol(Quantised())
"""


def test_a_plugins_sum_with_value_bits_equals_its_oracle_and_formula(tmp_path: Path) -> None:
    (tmp_path / "spread.py").write_text(PLUGIN)
    (tmp_path / "spread.toml").write_text(
        'plugins = ["spread.py"]\n[data]\nname = "digits"\nclients = 5\nlimit = 60\n[protocol]\n'
        'name = "quantised-spread"\n[[fault]]\nkind = "crash"\nparty = "client/2"\nbefore = "sum.mask"\n'
    )
    found = run(tmp_path / "spread.toml", out=tmp_path / "run")
    assert found.outcome == "completed" and found.equals_plaintext and found.lost[0].party == "client/2"
    calm = run(load(tmp_path / "spread.toml", ["fault=[]"]), out=tmp_path / "calm")
    counted = tacit.bytes(calm)
    assert counted.formula == {row.type: row.payload for row in counted.rows}
    assert counted.formula["MaskedChunk"] == 5 * 5  # three words of 12 bits


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["sum.value_bits=1"], "value_bits"),
        (["sum.value_bits=32", "training.weighting=points", "sum.largest_weight=100000000"], "at most 57"),
        (["protocol.name=dp-fedavg", "privacy.noise_at=clients", "sum.value_bits=8"], "would round the noise"),
    ],
)
def test_incompatible_keys_of_value_bits_are_refused(tiny: Path, changes: list[str], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        run(scenario(tiny, "training.averaging=secure", *changes), out=tiny.parent / "never")


STANDS = ("training.averaging=secure", "sum.value_bits=8", "training.learning_rate=0.001", "training.rounds=6")


@pytest.mark.parametrize("averaging", ["secure", "secagg+", "prio3"])
def test_no_round_is_opened_with_the_model_of_an_earlier_one(tiny: Path, averaging: str) -> None:
    """Clients would refuse it: they give values for a secure sum once for a model."""
    one = scenario(tiny, *STANDS, f"training.averaging={averaging}", "training.weighting=equal", "sum.clip=1")
    found = run(one, out=tiny.parent / "run")
    assert found.outcome == "completed" and found.equals_plaintext and not found.lost
    first = next(number for number, record in enumerate(found.round_records, 1) if not record.cohort)
    assert 1 < first < 6 and len(found.round_records) == 6
    assert not any(record.cohort for record in found.round_records[first - 1 :])
    assert found.reason.startswith(f"no round is opened from round {first} on: its model is the one that round ")
    assert found.virtual_seconds < 30  # no deadline has passed
    assert not any(line.kind == "refusal" or "refused to" in line.text for line in tacit.events(found))


def test_a_model_that_stands_still_is_judged_by_chaos_and_assumed_to_move_by_predict(tiny: Path) -> None:
    one = scenario(tiny, *STANDS)
    stands = verdict(one)
    assert stands.outcome == "completed" and "no round is opened" in stands.reason and not stands.broken
    keys = ("protocol.name=fedavg", *STANDS)
    printed = CliRunner().invoke(app, ["predict", str(tiny), *(word for key in keys for word in ("--set", key))])
    assert "the rounded average moves the model in each round" in " ".join(printed.stdout.split())


def test_training_that_stands_still_ends_with_the_labels_of_its_last_round(tiny: Path) -> None:
    keys = ("protocol.name=fedavg-then-xclp", "protocol.hamming=plaintext", "protocol.bits=64", "protocol.k=3")
    found = run(scenario(tiny, *STANDS, *keys), out=tiny.parent / "run")
    assert found.outcome == "completed" and not found.lost and found.reason.startswith("no round is opened from")
    assert len(found.round_records) == 7 and found.equals_plaintext  # the last one is that of XCLP
