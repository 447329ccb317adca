"""Tables in a paper's layout: valid files, the runs, the output, and the pages."""

import csv
import json
import re
import runpy
import shutil
import signal
import statistics
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import scipy.stats
from typer.testing import CliRunner, Result

from tacit import Scenario, ScenarioError
from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.running import runner as running
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.sweeping.tables import Figure
from tacit.sim import own_code

ROOT = Path(__file__).parents[2]

TABLE = """
[scales.paper]
"data.clients" = 5
data.limit = 50
[table]
title = "Neighbours"
source = "Table 7 of Nobody"
seeds = 2
[[table.row]]
label = "k = 2"
label_paper = "k = 20"
set = { "protocol.k" = 2 }
set_paper = { protocol.k = 4 }
paper = ["34.00 ± 1.12", "", "9"]
[[table.row]]
label = "k = 3"
paper = ["1.00", "2.00", "3.00"]
[[table.column]]
group = "short"
label = "accuracy"
set = { "protocol.bits" = 32 }
[[table.column]]
group = "long"
group_paper = "longer"
label = "accuracy"
[[table.column]]
label = "bytes"
measure = "bytes_total"
unit = "1"
only = "small"
[[table.order]]
above = "long: accuracy"
below = "short: accuracy"
[[table.order]]
above = "k = 3"
below = "k = 2"
within = ["bytes"]
"""


@pytest.fixture
def tabled(quick: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quick scenario with a table of two rows and three columns, and four runs for each seed."""
    monkeypatch.chdir(quick.parent)
    quick.write_text(quick.read_text() + TABLE)
    return quick


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lines_of(folder: str) -> list[dict[str, str]]:
    with Path(folder, "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def cells_of(folder: str) -> list[list[str]]:
    """The table of a table.md, with the headings first."""
    lines = [line for line in Path(folder, "table.md").read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def one_line(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return str(line)


Swept = tuple[Path, Result]


@pytest.fixture(scope="module")
def sweep_elsewhere(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> Swept:
    """The folder of a sweep of that scenario, and the output of the command."""
    folder = tmp_path_factory.mktemp("tabled")
    (folder / "quick.toml").write_text(quick_text + TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder / "out", tacit("sweep", "quick.toml", "--set", "network.latency=5ms", "--out", "out")


@pytest.fixture
def swept(tabled: Path, sweep_elsewhere: Swept) -> Result:
    """The result of that command, with its folder copied to `out`."""
    folder, done = sweep_elsewhere
    shutil.copytree(folder, "out")
    return done


def test_a_table_has_the_means_of_its_runs_beside_the_papers_figures(swept: Result) -> None:
    assert swept.exit_code == 0, swept.output
    runs = [path for path in Path("out").iterdir() if path.is_dir()]
    assert len(runs) == 8  # two of the columns have runs; the column of bytes shares those of one
    heads, first, second = cells_of("out")
    assert heads == ["", "short: accuracy", "long: accuracy<br>(paper: longer: accuracy)", "bytes"]
    for row, (cells, k) in enumerate(((first, 2), (second, 3))):
        records = [json.loads((path / "result.json").read_text()) for path in runs if k_and_bits(path)[0] == k]
        for bits, place in ((32, 1), (64, 2)):
            found = [record["accuracy"] for record, path in of(runs, records, k) if k_and_bits(path)[1] == bits]
            mean, deviation = 100 * statistics.fmean(found), 100 * statistics.stdev(found)
            assert cells[place].startswith(f"{mean:.2f} ± {deviation:.2f}"), (row, place)
    assert first[0] == "k = 2<br>(paper: k = 20)"
    assert first[1].endswith("<br>(paper: 34.00 ± 1.12)") and "paper" not in first[2]
    text = Path("out", "table.md").read_text()
    assert text.startswith("Neighbours (Table 7 of Nobody).\n\n`tacit sweep ")
    assert "--set network.latency=5ms`" in text and "--out" not in text
    assert "scale small; seeds 3, 4; data digits; clients 4; points 60; made by Tacit " in text
    assert text.count(own_code.digest()) == 1
    shown = " ".join(swept.stdout.split())
    assert "Neighbours (Table 7 of Nobody)" in shown and "(paper: 34.00 ± 1.12)" in shown
    assert swept.stdout.rstrip().endswith("folder    out")
    assert [line["seed"] for line in lines_of("out")] == ["3", "4"] * 6


def test_published_figures_of_other_data_are_in_separate_rows(tabled: Path) -> None:
    tabled.write_text(
        tabled.read_text().replace("seeds = 2\n[[table.row]]", 'seeds = 1\npaper_data = "Letters"\n[[table.row]]')
    )
    done = tacit("sweep", tabled, "--set", "network.latency=5ms", "--out", "out")
    assert done.exit_code == 0, done.output
    _, *rows = cells_of("out")
    assert [row[0] for row in rows] == ["k = 2", "k = 3", "Letters (paper): k = 20", "Letters (paper): k = 3"]
    assert rows[2][1:] == ["34.00 ± 1.12", "-", "9"]
    assert all("paper" not in cell for row in rows[:2] for cell in row)
    assert "Letters (paper): k = 20" in " ".join(done.stdout.split())


def k_and_bits(path: Path) -> tuple[int, int]:
    scenario = read(path, without_data=True).scenario
    return scenario.protocol.k, scenario.protocol.bits


def of(runs: list[Path], records: list[dict[str, float]], k: int) -> list[tuple[dict[str, float], Path]]:
    return list(zip(records, [path for path in runs if k_and_bits(path)[0] == k], strict=True))


def test_the_papers_order_is_compared_with_the_spread_of_the_runs(swept: Result) -> None:
    def values(row: str, column: str) -> list[float]:
        own = [each for each in lines_of("out") if (each["row"], each["column"]) == (row, column)]
        return [float(each["value"]) for each in sorted(own, key=lambda each: int(each["seed"]))]

    (line,) = re.findall(r"order     long: accuracy above short: accuracy: (.*)", swept.stdout)
    held = beyond = 0
    for row in ("k = 2", "k = 3"):
        above, below = values(row, "long: accuracy"), values(row, "short: accuracy")
        gap = round(statistics.fmean(above) - statistics.fmean(below), 12) + 0.0
        held += gap > 0
        beyond += gap > 0 and scipy.stats.ttest_rel(above, below).pvalue < 0.05
        low, high = scipy.stats.ttest_rel(above, below).confidence_interval(0.95)
        assert f"{row}: {100 * gap:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]" in line
    assert line.startswith("in every row" if held == 2 else f"in {held} of 2 rows")
    assert not held or f"beyond the spread in {beyond or 'none'}" in line
    more = statistics.fmean(values("k = 3", "bytes")) > statistics.fmean(values("k = 2", "bytes"))
    assert ("order     k = 3 above k = 2: " + ("in every column" if more else "in 0 of 1 column")) in swept.stdout


def test_the_papers_scale_is_applied_to_the_file_before_the_cells(tabled: Path) -> None:
    small, paper = read(tabled), read(tabled, ["scale=paper", "protocol.alpha=0.5"])
    assert (small.scenario.data.clients, small.scenario.data.limit) == (4, 60)
    assert (paper.scenario.data.clients, paper.scenario.data.limit, paper.scenario.data.labeled) == (5, 50, 0.3)
    assert paper.scenario.protocol.alpha == 0.5
    assert read(tabled, ["data.clients=3", "scale=paper"]).scenario.data.clients == 3
    assert small.layout is not None and paper.layout is not None
    assert [row.name for row in paper.layout.rows] == ["k = 20", "k = 3"]
    assert [column.name for column in paper.layout.columns] == ["short: accuracy", "longer: accuracy"]
    assert len(small.layout.columns) == 3
    assert [one.sets(0, 0)["protocol.k"] for one in (small.layout, paper.layout)] == [2, 4]
    assert paper.layout.figures == (("34.00 ± 1.12", ""), ("1.00", "2.00"))
    cell = read(tabled, ["scale=paper", "protocol.k=9"], cell=paper.layout.sets(0, 0)).scenario.protocol
    assert (cell.k, cell.bits) == (4, 32)


def test_options_of_a_sweep_work_with_a_table(tabled: Path) -> None:
    done = tacit("sweep", tabled, "--seeds", "1", "--seed", "8", "--jobs", "1", "--set", "scale=paper", "--out", "out")
    assert done.exit_code == 0, done.output
    assert [line["seed"] for line in lines_of("out")] == ["8"] * 4
    assert len(cells_of("out")[0]) == 3 and "±" not in cells_of("out")[1][1].partition("<br>")[0]
    assert "--set scale=paper --seed 8 --seeds 1`" in Path("out", "table.md").read_text()


def test_a_file_with_a_table_can_be_run_as_a_scenario(tabled: Path) -> None:
    done = tacit("run", tabled, "--out", "one")
    assert done.exit_code == 0 and "to fill in the table: tacit sweep" in done.output
    assert read("one").scenario == msgspec.structs.replace(read(tabled).scenario, name="quick")
    assert read("one").layout is None
    over = tacit("sweep", tabled, "--over", "protocol.k=2,4", "--out", "many")
    assert over.exit_code == 0 and not Path("many", "table.md").exists()
    assert [line["protocol.k"] for line in lines_of("many")] == ["2", "4"]


def test_a_run_that_did_not_complete_is_not_in_the_mean_of_its_cell(
    tabled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Simulation):
        def __init__(self, scenario: Scenario, **options: Any) -> None:
            super().__init__(scenario, **options)
            if scenario.protocol.k == 2 and (scenario.protocol.bits == 32 or scenario.seed == 4):
                raise RuntimeError("no luck")

    monkeypatch.setattr(running, "Simulation", Breaking)
    done = tacit("sweep", tabled, "--out", "out")
    assert done.exit_code == 1
    first = cells_of("out")[1]
    assert first[1] == "2 failed<br>(paper: 34.00 ± 1.12)"
    assert re.fullmatch(r"\d+\.\d\d \(1 of 2 runs: 1 failed\)", first[2])
    assert "long: accuracy above short: accuracy: in" in done.stdout and "not known in k = 2" in done.stdout
    failed = [line for line in lines_of("out") if line["outcome"] == "failed"]
    assert failed and all(line["value"] == "" for line in failed)


def test_a_deviation_that_is_rounding_is_shown_as_0() -> None:
    assert Figure(2, 2, (0.746, 0.746), 0.746, 1e-16, "s", "").text() == "746 ms ± 0 s"
    assert Figure(2, 2, (0.745, 0.747), 0.746, 1e-3, "s", "").text() == "746 ms ± 1 ms"


def test_a_row_may_expect_nothing(tabled: Path) -> None:
    """A run that misses an expectation of the file ends the command with 1, unless its row leaves [expect] empty."""
    tabled.write_text(tabled.read_text().replace("[expect]", "[expect]\naccuracy_at_least = 1.0", 1))
    assert tacit("sweep", tabled, "--seeds", "1", "--out", "unmet").exit_code == 1
    free = tabled.read_text().replace('label = "k = 3"', 'label = "k = 3"\nset = { expect = {} }')
    tabled.write_text(free.replace('{ "protocol.k" = 2 }', '{ "protocol.k" = 2, expect = {} }'))
    done = tacit("sweep", tabled, "--seeds", "1", "--out", "out")
    assert done.exit_code == 0, done.output


def test_a_cell_without_its_measure_has_no_number(tabled: Path) -> None:
    tabled.write_text(tabled.read_text().replace('measure = "bytes_total"', 'measure = "baselines.nothing"'))
    tacit("sweep", tabled, "--seeds", "1", "--out", "out")
    assert [row[3].partition("<br>")[0] for row in cells_of("out")[1:]] == ["1 without baselines.nothing"] * 2


def test_ctrl_c_leaves_a_table_of_the_finished_runs(tabled: Path, stopped) -> None:
    code, output, errors = stopped(2, signal.SIGINT, "sweep", tabled, "--out", "out")
    assert code == 130 and "Traceback" not in errors, errors
    assert re.match(r"\d+\.\d\d \(1 of 2 runs: 1 not run\)", cells_of("out")[1][1])
    assert cells_of("out")[2][1] == "2 not run<br>(paper: 1.00)"
    assert output.rstrip().endswith("folder    out")


# --- mistakes


ROW, COLUMN, ORDER = r"table\.row\.0\.", r"table\.column\.2\.", r"table\.order\.0\."


@pytest.mark.parametrize(("old", "new", "message"), [
    ("set_paper = {", "set_papr = {", r"table\.row\.0\.set_papr: unknown key; did you mean set_paper\?"),
    ('"protocol.k" = 2', '"protocol.kk" = 2', ROW + r'set: "protocol\.kk" is no key .*did you mean protocol\.k\?'),
    ("protocol.k = 4", "protocol.q = 4", r'table\.row\.0\.set_paper: "protocol\.q" is no key of a scenario'),
    ("data.limit = 50", "data.limits = 50", r'scales\.paper: "data\.limits" is no key .*data\.limit\?'),
    ('label = "k = 3"', 'label = "k = 2"', r'table\.row\.1\.label: "k = 2" is there already'),
    ('"", "9"]', '"9"]', r"table\.row\.0\.paper: 2 figures for 3 columns"),
    ('"bytes_total"', '"byte_total"', COLUMN + r'measure: a result has no "byte_total"; did you mean bytes_total\?'),
    ('unit = "1"', 'unit = "kg"', r'table\.column\.2\.unit: "kg" is not one of the allowed: '),
    ('"protocol.bits" = 32', '"protocol.k" = 5', r'table: row "k = 2" and column "short: .* both set protocol\.k'),
    ('above = "long: accuracy"', 'above = "accuracy"', ORDER + r'above: "accuracy" is no label, or that of several'),
    ('above = "k = 3"', 'above = "bytes"', r'table\.order\.1\.above: "bytes" is no label'),
    ('within = ["bytes"]', 'within = ["k = 2"]', r'table\.order\.1\.within: "k = 2" is not the label of a column'),
    ("seeds = 2", "seeds = 0", r"table\.seeds: 0 is too small; allowed: 1 or more"),
    ("seeds = 2", "seeds = 2\nscale = 1", r"table\.scale: unknown key"),
    ("[table]", "[tables]", r"tables: unknown key; did you mean table\?"),
])  # fmt: skip
def test_a_mistake_in_a_table_is_refused_in_one_line(tabled: Path, old: str, new: str, message: str) -> None:
    text = tabled.read_text()
    assert text.count(old) == 1
    tabled.write_text(text.replace(old, new))
    changes = ["scale=paper"] if "paper" in message else []
    where = f'{tabled} with changes "scale=paper": ' if changes else f"{tabled}: "
    with pytest.raises(ScenarioError) as caught:
        read(tabled, changes)
    assert str(caught.value).startswith(where)
    assert re.match(message, str(caught.value).removeprefix(where)), caught.value


def test_a_table_without_rows_or_columns_is_refused(quick: Path) -> None:
    quick.write_text(quick.read_text() + "[table]\ntitle = 'T'\n[[table.row]]\nlabel = 'r'\n")
    with pytest.raises(ScenarioError, match=r"table\.column: a table has at least one"):
        read(quick)


def test_a_change_of_a_key_that_cells_set_is_refused(tabled: Path) -> None:
    found = one_line(tacit("sweep", tabled, "--set", "protocol.k=3", "--out", "out"))
    assert found.startswith('error: --set: protocol.k: the table\'s row "k = 2" sets protocol.k = 2; allowed: ')
    assert "bits = 32" in one_line(tacit("sweep", tabled, "--set", "protocol.bits=16", "--out", "out"))
    assert "protocol" in one_line(tacit("sweep", tabled, "--set", "protocol={k=3}", "--out", "out"))
    assert not Path("out").exists()


def test_a_missing_scale_is_refused_in_one_line(quick: Path) -> None:
    with pytest.raises(ScenarioError, match=r'scale: "paper" is not in the file, which has no \[scales\.paper\]'):
        read(quick, ["scale=paper"])
    with pytest.raises(ScenarioError, match=r'scale: "large" is not one of the allowed: "paper", "small"'):
        read(quick, ["scale=large"])


def test_a_cell_is_checked_before_the_first_run(tabled: Path) -> None:
    tabled.write_text(tabled.read_text().replace('set = { "protocol.k" = 2 }', 'set = { "protocol.k" = 200 }'))
    assert "protocol.k: 200 is too large" in one_line(tacit("sweep", tabled, "--out", "out"))
    assert not Path("out").exists()


# --- built-in tables, and the page of results


TABLES = {name: path for name, path in shipped().items() if path.parent.name == "tables"}
SCALES = [(name, scale) for name, path in TABLES.items() for scale in ("small", "paper")
          if scale == "small" or "scales" in tomllib.loads(path.read_text())]  # fmt: skip


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_a_shipped_table_is_valid_at_both_scales(name: str, scale: str) -> None:
    """Only keys and types are checked: the data need not be on this machine."""
    loaded = read(name, [f"scale={scale}"], without_data=True)
    layout = loaded.layout
    assert layout is not None, name
    assert loaded.scenario.size == "long" and loaded.scenario.expect.outcome == "completed"
    seen = set()
    for row in range(len(layout.rows)):
        for column in range(len(layout.columns)):
            cell = read(name, [f"scale={scale}"], cell=layout.sets(row, column), without_data=True).scenario
            seen.add((msgspec.json.encode(cell), layout.measure(row, column)))
    assert len(seen) == len(layout.rows) * len(layout.columns), "two cells are the same"
    assert layout.scale == scale


def test_a_table_is_put_into_its_place_on_the_page(tabled: Path, tmp_path: Path) -> None:
    tacit("sweep", tabled, "--seeds", "1", "--out", "out")
    page = "# Results\n<!-- table: other -->\nkept\n<!-- end -->\n<!-- table: quick -->\nold\n<!-- end -->\nafter\n"
    results = runpy.run_path(str(ROOT / "docs" / "results.py"))
    table = Path("out", "table.md").read_text()
    found = results["put"](page, table)
    assert found == page.replace("old\n", f"\n{table.strip()}\n\n")
    assert results["put"](found, table) == found
    with pytest.raises(ValueError, match="has no place for it: needed, once: <!-- table: quick -->"):
        results["put"](page.replace("table: quick", "table: quack"), table)


def test_the_values_of_each_seed_are_kept_beside_the_page(tmp_path: Path) -> None:
    lines = (
        "row,column,measure,value,seed,outcome,folder",
        "A,x,accuracy,0.5,1,completed,a1",
        "A,x,accuracy,,2,lost,a2",
    )
    (tmp_path / "sweep.csv").write_text("\n".join(lines))
    found = runpy.run_path(str(ROOT / "docs" / "results.py"))["values"](tmp_path)
    assert found.splitlines() == ["row,column,measure,seed,value", "A,x,accuracy,1,0.5", "A,x,accuracy,2,"]


def test_curves_are_the_accuracies_of_the_rounds(tmp_path: Path) -> None:
    def ended(folder: str, *accuracies: float | None) -> None:
        rounds = [{"round": number, "accuracy": value} for number, value in enumerate(accuracies, start=1)]
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "result.json").write_text(json.dumps({"rounds": rounds}))

    ended("a1", None, 0.5, None, 0.75)
    ended("a2", None, 0.25, None, 0.25)
    ended("b", None, 0.125)
    lines = ("row,column,folder", "A,x,a1", "A,x,a2", "A,y,b", "B,x,b")
    (tmp_path / "sweep.csv").write_text("\n".join(lines))
    found = runpy.run_path(str(ROOT / "docs" / "results.py"))["curves"](tmp_path)
    assert found.splitlines() == [
        "| round | A | B |",
        "| ---: | ---: | ---: |",
        "| 2 | 37.50 | 12.50 |",
        "| 4 | 50.00 | - |",
    ]
