"""The bytes of secure sums by the number of clients: measured, by formula, and Flower's."""

import pytest
from rich.console import Console

from tacit.benchmarks.bytes import sums, votes
from tacit.benchmarks.bytes.sums import flower_bytes
from tacit.protocols.sums.neighbours import DealingInGraph


@pytest.mark.parametrize("most", [50, pytest.param(100, marks=pytest.mark.long)])
def test_sent_bytes_equal_the_formulas_and_a_graph_sends_less_among_many_clients(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Among 100, the number of sums in a run decides the degree of the graph."""
    monkeypatch.setattr(sums, "flower_bytes", lambda *_: None)  # takes 30 s, and has a test of its own
    rows = sums.measure(most)
    assert rows[0].measured == (rows[0].complete, rows[0].signed, rows[0].graph)
    assert [row.clients for row in rows if row.measured] == [size for size in (10, 20, 50, 100) if size <= most]
    assert not any(row.different for row in rows)
    assert all(sent > payload for sent, payload in zip(rows[0].wire, rows[0].measured, strict=True))
    each = {row.clients: (row.complete / row.clients, row.graph / row.clients) for row in rows}
    assert each[1000][0] > 1.9 * each[500][0]
    assert each[1000][1] < 1.1 * each[500][1] < each[500][0] / 5
    assert [(row.k, row.threshold) for row in rows[-2:]] == [(51, 26), (57, 29)]


def test_a_wrong_formula_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = DealingInGraph.payloads
    monkeypatch.setattr(DealingInGraph, "payloads", lambda *arguments: {**right(*arguments), "Revealed": 1})
    rows = sums.measure(10)
    assert [row.clients for row in rows if row.different] == [10]
    sums.print_sums(Console(width=200, force_terminal=True, color_system=None), rows)
    shown = capsys.readouterr().out
    assert "NOT THE FORMULA'S  10 clients" in shown and "Flower's SecAgg+" in shown


def test_bytes_of_votes_equal_the_formulas() -> None:
    (row,) = votes.measure([5])
    assert not row.different
    assert row.plain == 5 * -(-4 * row.points // 8)
    assert row.counted - row.keys >= 5 * 8 * -(-(1 + 10 * row.points) // 4)


def test_the_bytes_of_flowers_secagg_plus_are_measured() -> None:
    pytest.importorskip("flwr")
    found = flower_bytes(5, 5, 3, 100)
    assert found is not None and 5 * 4 * 100 < found < 100_000
