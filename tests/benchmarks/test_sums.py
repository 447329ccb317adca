"""The table of secure sums: real and hollow cells agree, and results are those of the oracle under all losses."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from tacit.benchmarks.measure import read_records
from tacit.benchmarks.sums import peers, published, run, table
from tacit.benchmarks.sums.table import SUMS, Cell, Row, cells, measured, steps_of


def without_fidelity(row: Row) -> Row:
    return replace(row, fidelity="", equals_plaintext=None, trace="")


def one_by_one(jobs: int, function: Callable[..., Row], calls: Sequence[Any]) -> Iterator[tuple[int, Row]]:
    """Make the calls in this process: the long tests import torch in others."""
    yield from ((place, function(*call)) for place, call in enumerate(calls))


@pytest.mark.parametrize("way", SUMS)
def test_hollow_cells_have_the_figures_of_real_cells(way: str) -> None:
    cell = Cell(way, 10, 16, "lan", 0.3, steps_of(way)[-1])
    real, hollow = measured(cell, hollow=False), measured(cell, hollow=True)
    assert real.equals_plaintext and real.outcome == "completed"
    assert without_fidelity(real) == without_fidelity(hollow)
    assert real.critical


def test_a_cell_is_measured_again_with_the_same_figures() -> None:
    cell = Cell("secure", 4, 16, "lan")
    assert measured(cell) == measured(cell, hollow=False)


@pytest.mark.parametrize("way", SUMS)
def test_formulas_have_the_payloads_of_runs(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames and seals come on top, which are a few dozen bytes a message."""
    run = measured(Cell(way, 10, 10_000, "lan"), hollow=True)
    monkeypatch.setattr(table, "MOST_REAL", 0)
    monkeypatch.setattr(table, "MOST_RUN", 0)
    found = measured(Cell(way, 10, 10_000, "lan"))
    assert found.fidelity == "formula"
    assert found.client_up is not None and run.client_up is not None
    assert 0.85 * run.client_up < found.client_up < run.client_up
    assert found.client_down is not None and run.client_down is not None
    assert 0.85 * run.client_down < found.client_down < run.client_down


def test_the_cells_lose_clients_at_every_step_of_every_sum() -> None:
    whole = list(cells(quick=False))
    assert len(whole) == len(set(whole))
    for clients, numbers in ((10, 10_000), (10, 10**6), (100, 10_000), (100, 10**6)):
        struck = {
            (one.sum, one.before) for one in whole if (one.clients, one.numbers, one.lost) == (clients, numbers, 0.3)
        }
        assert struck == {(way, step) for way in SUMS for step in steps_of(way)}
    assert {one.network for one in whole} == set(table.NETWORKS)


def test_the_command_writes_a_row_for_each_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [
        Cell("secagg+", 10, 500, "home"),
        *(Cell("lightsecagg", 10, 500, "home", lost, "sum.mask") for lost in (0.1, 0.3)),
    ]
    monkeypatch.setattr(run, "cells", lambda quick: few)
    monkeypatch.setattr(run, "in_workers", one_by_one)
    monkeypatch.setattr(peers, "calls", lambda quick: [])
    assert run.main(True, None, tmp_path / "sums.csv", tmp_path / "sums.svg", jobs=1) == 0
    with (tmp_path / "sums.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["sum"], row["outcome"], row["equals_plaintext"]) for row in rows] == [
        ("secagg+", "completed", "True"),
        ("lightsecagg", "completed", "True"),
        ("lightsecagg", "completed", "True"),
    ]
    printed = capsys.readouterr()
    assert "10 clients, 500 numbers, network home, real" in printed.out
    assert "3 of 3 cells" in printed.err and "3 cells took" in printed.err and "of CPU time" in printed.err
    read = read_records(tmp_path / "sums.csv", Row)
    assert [row.trace for row in read] == [measured(cell).trace for cell in few]
    for name in ("sums.svg", "sums-recovery.svg"):
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")


def test_flowers_sum_equals_that_of_the_survivors() -> None:
    pytest.importorskip("flwr")
    row = peers._flower(peers.PeerCell(peers.FLOWER, 4, 16, "lan", 0.25, "flower.unmask"))
    assert row.outcome == "completed" and row.equals_plaintext
    lost = peers._flower(peers.PeerCell(peers.FLOWER, 4, 16, "lan", 0.25, "flower.collect_masked_vectors"))
    assert lost.equals_plaintext


def test_a_library_that_is_not_installed_has_a_row_that_says_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_has", lambda name: False)
    assert {function(cell).outcome for function, cell in peers.calls(True)} == {"not installed"}
    assert len(peers.missing()) == 2


def test_an_omitted_cell_has_a_row_that_says_not_run() -> None:
    """Two cells of Flower among 100 clients are measured; rows say that the others were not run."""
    whole = [(function, cell) for function, cell in peers.calls(False) if cell.clients == 100]
    flower = [cell for _, cell in whole if cell.sum == peers.FLOWER]
    assert {(cell.before, cell.lost) for cell in flower if cell.numbers == 10_000} == {
        ("", 0.0), *((step, lost) for step in peers._STEPS[peers.FLOWER] for lost in table.LOST)
    }  # fmt: skip
    measured_ones = [(cell.numbers, cell.lost, cell.before) for cell in flower if cell.fidelity == "measured"]
    assert measured_ones == [(10_000, 0.0, ""), (10_000, 0.3, "flower.collect_masked_vectors")]
    for function, cell in whole:
        if cell.fidelity == "omitted":
            row = function(cell)
            assert (row.fidelity, row.outcome, row.server_bytes) == ("omitted", "not run", None)


@pytest.mark.parametrize(("free", "expected"), [(4 * 10**9, [1, 2]), (12 * 10**9, [2, 2])])
def test_the_largest_cells_run_first_and_only_as_many_at_a_time_as_fit(
    free: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, list[int]]] = []

    def noted(jobs: int, function: Any, calls: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        asked.append((jobs, [cell.clients * cell.numbers for _, cell in calls]))
        yield from one_by_one(jobs, function, calls)

    monkeypatch.setattr(run, "in_workers", noted)
    monkeypatch.setattr(run.psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    made = [Cell("secure", n, d, "home") for n, d in ((10, 100), (1_000, 100), (10, 10_000), (1_000, 10_000))]
    assert run._performed([(lambda cell: cell, cell) for cell in made], 2) == made
    assert asked == [(expected[0], [10**7, 10**5]), (expected[1], [10**5, 10**3])]


@pytest.mark.long
def test_the_published_comparison_is_repeated_with_both_kinds_of_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [published.Published(way, lost, 12, 200) for way in published.WAITS for lost in (0, 1)]
    monkeypatch.setattr(published, "cells", lambda quick: few)
    assert run.published_main(False, csv_file=tmp_path / "rows.csv", jobs=1) == 0
    rows = {(row.sum, row.lost): row for row in read_records(tmp_path / "rows.csv", published.Again)}
    assert {row.outcome for row in rows.values()} == {"completed"} and len(rows) == 4
    for way, waits in (("flamingo", 16), ("secagg+", 65)):
        calm, lossy = rows[way, 0], rows[way, 1]
        assert calm.waits == waits and waits < calm.theirs < waits + 5 and calm.server_seconds > 0
        assert 0.1 < calm.seconds < 5 and lossy.seconds > 10
    assert rows["flamingo", 0].seconds < rows["secagg+", 0].seconds
