import json
import sys
import tomllib
from functools import partial
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
from tacit.protocols.crypto import naor_pinkas
from tacit.protocols.crypto.groups import find_group


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


def _table(path: Path) -> Path:
    path.write_text(
        '[machine]\ntext = "one core of a machine; of p256: another one; of trees: a third"\n\n[seconds]\n'
        '"p256.power" = 5.0\n"p256.older" = 6.0\n"iknp.columns" = 7.0\n\n# A word on what follows.\n'
        '[processors.avx512-ifma]\n"paillier-512.power" = 8.0\n'
    )
    return path


def test_a_part_of_the_cost_table_is_measured_and_the_rest_stays(tmp_path: Path) -> None:
    file = _table(tmp_path / "costs.toml")
    result = CliRunner().invoke(app, ["crypto", "--quick", "--costs", str(file), "--only", "p256"])
    assert result.exit_code == 0, result.output
    text = file.read_text()
    assert "# A word on what follows." in text
    found = tomllib.loads(text)
    seconds = found["seconds"]
    assert seconds.pop("iknp.columns") == 7 and seconds.pop("p256.older") == 6
    assert {name.partition(".")[0] for name in seconds} == {"p256"}
    assert 0 < seconds["p256.power"] < 5
    counted = [naor_pinkas.setup_work, partial(naor_pinkas.request_work, count=1)]
    counted += [partial(work, count=1, size=1) for work in (naor_pinkas.send_work, naor_pinkas.receiver_pads_work)]
    assert {name for work in counted for name in work(find_group("p256"))} == set(seconds)
    assert found["processors"] == {"avx512-ifma": {"paillier-512.power": 8}}
    first, trees, here = found["machine"]["text"].split("; ")[:3]
    assert [first, trees] == ["one core of a machine", "of trees: a third"] and here.startswith("of p256: cpu ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--only", "p256"], "needs --costs"),
        (["--costs", "{file}", "--only", "p25"], "no operations that begin with p25; allowed: p256, iknp"),
        (["--costs", "{file}.none", "--only", "p256"], "No such file"),
        (["--costs", __file__, "--only", "p256"], "test_crypto.py: "),
    ],
)
def test_a_part_of_no_cost_table_is_refused(tmp_path: Path, arguments: list[str], problem: str) -> None:
    file = _table(tmp_path / "costs.toml")
    before = file.read_text()
    result = CliRunner().invoke(app, ["crypto", *(one.format(file=file) for one in arguments)])
    assert result.exit_code != 0
    assert "--only" in str(result.exception) + result.output and problem in str(result.exception) + result.output
    assert file.read_text() == before
