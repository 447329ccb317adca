"""The table of secure sums: real and hollow cells agree, and results are those of the oracle under all losses."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tacit.benchmarks.sums import table
from tacit.benchmarks.sums.table import SUMS, Cell, Row, cells, measured


def agreed(row: Row) -> Row:
    return replace(row, fidelity="", equals_plaintext=None, shape_hash="")


@pytest.mark.parametrize("way", SUMS)
def test_hollow_cells_have_the_figures_of_real_ones(way: str) -> None:
    before = "train.update" if way == "plain" else "sum.mask"
    for cell in (Cell(way, 10, 500, "lan"), Cell(way, 10, 500, "lan", 0.3, before)):
        real, hollow = measured(cell, hollow=False), measured(cell, hollow=True)
        assert real.equals_plaintext and real.outcome == "completed"
        assert agreed(real) == agreed(hollow)


def test_all_steps_of_all_sums_are_struck() -> None:
    whole = list(cells(quick=False))
    each = sum(1 + 2 * len(steps) for steps in table._STEPS.values())
    assert len(whole) == len(set(whole)) == 3 * len({(one.clients, one.numbers) for one in whole}) * each
    assert {one.sum for one in whole} == set(SUMS)


def test_the_command_writes_a_row_for_each_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [Cell("secagg+", 10, 500, "home"), Cell("lightsecagg", 10, 500, "home", 0.3, "sum.reveal")]
    monkeypatch.setattr(table, "cells", lambda quick: few)
    assert table.main(True, None, tmp_path / "sums.csv") == 0
    with (tmp_path / "sums.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["sum"], row["outcome"], row["equals_plaintext"]) for row in rows] == [
        ("secagg+", "completed", "True"),
        ("lightsecagg", "completed", "True"),
    ]
    assert "10 clients, 500 numbers, network home, real" in capsys.readouterr().out
