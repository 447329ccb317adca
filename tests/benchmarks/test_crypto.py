import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.benchmarks.command import app
from tacit.benchmarks.crypto.ot import measure_iknp, measure_naor_pinkas
from tacit.benchmarks.crypto.pair import PairSize, iknp_pair
from tacit.benchmarks.crypto.prio3 import measure_prio3
from tacit.benchmarks.crypto.symmetric import measure_masks
from tacit.benchmarks.measure import write_json
from tacit.benchmarks.plots import plot_standings


def test_a_row_of_transfers_can_be_measured_written_and_drawn(tmp_path):
    rows = measure_naor_pinkas(count=4, turns=1, groups=("p256", "modp-2048-short"))
    assert [row.contender for row in rows] == ["Tacit, p256", "Tacit, modp-2048-short"]
    assert all(row.rate > 0 for row in rows)
    assert rows[0].lead == 1

    write_json(tmp_path / "rows.json", quick=True, standings=rows)
    content = json.loads((tmp_path / "rows.json").read_text())
    assert content["quick"] is True
    assert [row["rate"] for row in content["standings"]] == [row.rate for row in rows]

    plot_standings(tmp_path / "rows.png", "Operations a second", rows)
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_extended_transfers_and_a_pair_give_times():
    rows = measure_iknp(count=256, turns=1)
    assert {row.contender for row in rows} > {"Tacit, random", "Tacit, correlated", "Tacit, chosen messages"}
    parts = iknp_pair(PairSize(3, 2, 20), 1)
    assert set(parts) == {"base", "extend", "correct", "finish", "unmask"}
    assert min(parts.values()) >= 0


def test_generating_masks_is_timed_against_another_library():
    rows, seconds = measure_masks(turns=1, clients=2, words=50_000)
    assert [row.contender for row in rows] == 2 * ["Tacit", "pyca/cryptography"]
    assert seconds["Tacit"] > 0


def test_prio3_is_measured_without_a_reference():
    rows = measure_prio3(None, quick=True, turns=1)
    assert {row.contender for row in rows} == {"Tacit"}
    assert len(rows) == 3 * len({row.task.rpartition(": ")[0] for row in rows})


def test_a_folder_without_the_reference_of_prio3_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["crypto", "--quick", "--prio3", str(tmp_path)])
    assert result.exit_code == 2
    assert "cfrg/draft-irtf-cfrg-vdaf" in result.stderr


def test_a_plot_without_matplotlib_is_refused_in_one_line_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    result = CliRunner().invoke(app, ["crypto", "--quick", "--plot", str(tmp_path / "plot.png")])
    assert result.exit_code != 0
    assert "pip install 'tacit-fl[plots]'" in str(result.exception) + result.output
    assert not (tmp_path / "plot.png").exists()


@pytest.mark.parametrize("name", ["plot", "plot.xyz"])
def test_a_plot_of_an_unknown_type_is_refused(tmp_path, name):
    result = CliRunner().invoke(app, ["crypto", "--plot", str(tmp_path / name)])
    assert result.exit_code != 0
    assert "must end in one of" in str(result.exception) + result.output


def test_a_missing_folder_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["crypto", "--plot", str(tmp_path / "none" / "x.png")])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'none' / 'x.png'}: there is no folder")
