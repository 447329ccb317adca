"""The bytes benchmark: measured bytes equal the formulas, a wrong formula is reported, and the crossover is found."""

import contextlib
import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Data, Network, ProtocolKeys, Scenario, run
from tacit.benchmarks.bytes import rounds as benchmark
from tacit.benchmarks.bytes.crossover import Grid, Point, crossings, duration, sweep
from tacit.benchmarks.bytes.rounds import VARIANTS, Case
from tacit.benchmarks.command import app
from tacit.protocols.xclp import hamming_iknp
from tests.transfers import computed_once

SMALL = Case((3, 4), 16, 512, 2, tuple(VARIANTS))
TINY = Grid((1e6, 1e10), (0.01,), ((4, 16),), key_bits=512)


@pytest.fixture(autouse=True)
def _with_transfers_computed_once() -> Iterator[None]:
    with computed_once():
        yield


@pytest.mark.parametrize("case", [SMALL, Case((9, 2, 6), 57, 512, 3, ("plaintext", "paillier", "iknp"))])
def test_measured_payloads_equal_the_formulas(case: Case) -> None:
    rows = benchmark.measure(case)
    assert [row.variant for row in rows] == list(VARIANTS)
    for row in rows:
        assert row.differences == []
        measured = row.variant in case.run
        assert (row.payload, row.round_payload) == ((row.formula, row.round_formula) if measured else (None, None))
        assert not measured or (row.sealing % 28 == 0 and row.envelope)
        assert not measured or (row.sealing > 0) == (row.variant != "direct")  # the direct variant has no pairs


def test_the_json_file_has_rows_points_and_crossings(tmp_path: Path) -> None:
    path = tmp_path / "bytes.json"
    assert benchmark.main(json_file=path, cases=[SMALL], grid=TINY, most=0) == 0
    content = json.loads(path.read_text())
    assert content["equal"] is True
    assert [row["variant"] for row in content["rows"]] == list(VARIANTS)
    assert content["rows"][0]["case"]["points"] == [3, 4]
    assert {(point["variant"], point["bandwidth"]) for point in content["points"]} == {
        (variant, bandwidth) for variant in ("paillier", "iknp") for bandwidth in TINY.bandwidths
    }
    assert len(content["crossings"]) == 1


def test_a_wrong_formula_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = hamming_iknp.payloads

    def wrong(points: Mapping[str, int], bits: int, element_bytes: int) -> dict[str, int]:
        return {**right(points, bits, element_bytes), "Extension": 7}

    monkeypatch.setattr(hamming_iknp, "payloads", wrong)
    monkeypatch.setattr(benchmark, "cases_of", lambda quick: [SMALL])
    monkeypatch.setattr(Grid, "make", classmethod(lambda cls, quick: TINY))
    result = CliRunner().invoke(app, ["bytes", "--quick"])
    assert result.exit_code == 1
    assert "NOT THE FORMULA'S  iknp, Extension: 1,024 bytes were sent, the formula says 7" in result.output
    assert "NOT EQUAL" in result.output
    assert result.output.count("NOT THE FORMULA'S") == 1


def test_paillier_wins_on_slow_networks_and_iknp_on_fast_ones() -> None:
    grid = Grid(tuple(np.logspace(6, 10, 5).tolist()), (0.001, 0.05), ((50, 1024),))
    points = sweep(grid)
    times = {(point.latency, point.variant, point.bandwidth): point.seconds for point in points}
    for latency in grid.latencies:
        ahead = [times[latency, "iknp", rate] < times[latency, "paillier", rate] for rate in grid.bandwidths]
        assert not ahead[0] and ahead[-1] and ahead == sorted(ahead)
        for variant in ("paillier", "iknp"):
            line = [times[latency, variant, rate] for rate in grid.bandwidths]
            assert line == sorted(line, reverse=True)
    near, far = crossings(points)
    assert near.bandwidth is not None and far.bandwidth is not None
    assert 1e7 < near.bandwidth < far.bandwidth < 1e9  # iknp makes more round trips


@pytest.mark.parametrize(("bandwidth", "latency"), [(1e6, 0.05), (1e8, 0.01)])
@pytest.mark.parametrize("name", ["paillier", "iknp"])
def test_a_plotted_time_is_that_of_a_real_run(name: str, bandwidth: float, latency: float, tmp_path: Path) -> None:
    keys = {"hamming": name, "bits": 64, "key_bits": 512, "insecure_keys": True, "min_clients": 2, "deadline": 1e5}
    net = {"topology": "mesh", "latency": f"{latency * 1e3:g}ms", "jitter": 0}
    rates = dict.fromkeys(("bandwidth", "server_bandwidth"), f"{bandwidth / 1e6:g}Mbit/s")
    scenario = Scenario(
        engine="inline",
        data=Data(name="digits", limit=40, clients=2, labeled=0.5),
        protocol=ProtocolKeys(**keys),  # type: ignore[arg-type]
        network=Network(**net, **rates),  # type: ignore[arg-type]
    )
    result = run(scenario, out=tmp_path / "run")
    with contextlib.closing(sqlite3.connect(result.folder / "run.sqlite")) as connection:
        entered = connection.execute("SELECT min(entered) FROM steps WHERE step = 'hamming.encode'").fetchone()[0]
        left = connection.execute("SELECT max(\"left\") FROM steps WHERE step = 'hamming.collect'").fetchone()[0]
    plotted = duration(name, 20, 64, bandwidth, latency, 512)
    assert left - entered == pytest.approx(plotted, rel=1e-9)


def line(paillier: Sequence[float], iknp: Sequence[float]) -> list[Point]:
    return [
        Point(1, 8, name, 0.1, 10.0**i, seconds)
        for name, times in (("paillier", paillier), ("iknp", iknp))
        for i, seconds in enumerate(times)
    ]


def test_the_crossing_is_interpolated_and_the_last_one_counts() -> None:
    (found,) = crossings(line([4, 4, 4, 4], [2, 8, 8, 2]))
    assert found.bandwidth == pytest.approx(10**2.5) and found.seconds == pytest.approx(4)
    assert [crossings(line([1, 1], times))[0].note for times in ([2, 2], [0.5, 0.5])] == ["never", "always"]
    assert crossings(line([1, 1], [2, 2]))[0].bandwidth is None


def test_a_plot_that_cannot_be_drawn_is_reported_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="must end in one of"):
        benchmark.main(plot=tmp_path / "a.nothing", cases=[SMALL], grid=TINY, most=0)
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    with pytest.raises(SystemExit, match="plots"):
        benchmark.main(plot=tmp_path / "a.png", cases=[SMALL], grid=TINY, most=0)
    assert capsys.readouterr().out == ""


def test_a_plot_is_drawn(tmp_path: Path) -> None:
    assert benchmark.main(plot=tmp_path / "a.svg", cases=[], grid=TINY, most=0) == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()
