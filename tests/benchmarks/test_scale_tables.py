"""Topics of the scale benchmark that print tables: `--only TOPIC --json FILE` writes their rows."""

import json
from pathlib import Path

import pytest

from tacit.benchmarks.scale import flower, growth


def test_the_rows_of_a_table_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert growth.main(quick=True, json_file=out, only="stragglers") == 0
    found = json.loads(out.read_bytes())
    assert found["quick"] is True and [row["way"] for row in found["rows"]][:2] == ["even", "FedAvg"]
    assert "FedBuff" in capsys.readouterr().out


def test_sums_of_flower_and_of_tacit_add_vectors_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr")
    monkeypatch.setenv("NUMBERS", "109386")  # as the rounds before leave it
    monkeypatch.setenv("ROUNDS", "1")
    row = flower.moved(10, quick=True)
    found = flower.summed(10)
    assert row.clients == 10 and row.a_round > 0
    assert [one.protocol for one in found] == ["Flower, SecAgg+", "Tacit, secure sum", "Tacit, SecAgg+"]
    first, *ours = found
    assert 10 * 8 * 650 < first.bytes["flower.collect_masked_vectors"] < 3 * 10 * 8 * 650
    assert all(9 * 8 * 650 < one.bytes["sum.mask"] < 11 * 8 * 650 for one in ours)
