"""The output of `tacit bytes` for runs and sweeps, on the terminal and in files."""

import csv
import io
import json
import shutil
import sqlite3
import statistics
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tacit import load, run
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.command.main import app
from tacit.scenarios.reporting.report import report
from tacit.scenarios.running import prediction
from tacit.scenarios.running.prediction import predicted
from tests.earlier import without_digests

CALM = ["fault=[]", "expect={}", "protocol.hamming=plaintext", "data.limit=120", "data.clients=4", "protocol.k=3"]
COUNTS = ("messages", "payload", "sealing", "envelope", "total")


@pytest.fixture(autouse=True)
def _in_its_folder(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick.parent)


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def recorded(folder: str | Path) -> dict[str, Any]:
    """The bytes in result.json, under the names of `tacit bytes`."""
    record = json.loads(Path(folder, "result.json").read_text())
    names = ("messages", "bytes_payload", "bytes_sealing", "bytes_envelope", "bytes_total")
    return {short: record[name] for short, name in zip(COUNTS, names, strict=True)}


@pytest.fixture(scope="module")
def sweep_folder(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> Path:
    """The folder of a sweep over choices of the protocol; half of the runs lose a client."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "quick.toml").write_text(quick_text)
    over = ("--over", "protocol.recovery=restart,secure", "--over", "fault.0.time=0.06,5min", "--seeds", "2")
    changes = ("--set", "fault=[{party='client/1', time=0}]", "--set", "expect={}")
    assert tacit("sweep", folder / "quick.toml", *over, *changes, "--out", folder / "many").exit_code == 0
    return folder / "many"


@pytest.fixture
def swept(quick: Path, sweep_folder: Path) -> list[dict[str, str]]:
    """The runs of the sweep, whose folder is copied to `many`."""
    shutil.copytree(sweep_folder, "many")
    with Path("many/sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_recorded_formula_needs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(load("xclp-digits", CALM), out=tmp_path / "run").folder
    by_data = predicted(without_digests(Path(shutil.copytree(folder, tmp_path / "earlier"))))
    with monkeypatch.context() as patched:
        patched.setattr(prediction, "material_of", None)
        found = predicted(folder)
    assert found == by_data and found


def test_a_sweep_has_a_line_for_each_combination(swept: list[dict[str, str]]) -> None:
    done = tacit("bytes", "many")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "many: means over the completed runs"
    found = [line.split() for line in lines if line.split()[:1] in (["restart"], ["secure"])]
    heads = " ".join(done.stdout.split())
    assert len(found) == 4 and "fault 0 (crash" in heads and "client/1) time" in heads
    for words in found:
        recovery, time, runs, messages, payload, formula, sealing, envelope, total, left = words
        members = [recorded(Path("many", line["folder"])) for line in swept
                   if (line["protocol.recovery"], line["fault.0.time"]) == (recovery, time)]  # fmt: skip
        means = [statistics.fmean(member[name] for member in members) for name in COUNTS]
        shown = [float(word.replace(",", "")) for word in (messages, payload, sealing, envelope, total)]
        assert shown == pytest.approx(means, abs=0.05) and (runs, left) == ("2", "0")
        assert formula == (payload if time == "5min" else "-")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files_have_every_run_and_add_up(swept: list[dict[str, str]], quick: Path, kind: str) -> None:
    tacit("run", quick, "--out", "one")
    done = tacit("bytes", "many", "one", f"--{kind}", f"bytes.{kind}")
    assert done.exit_code == 0 and "many: means" in done.stdout
    text = Path(f"bytes.{kind}").read_text()
    if kind == "csv":
        lines = list(csv.DictReader(io.StringIO(text)))
        runs: dict[str, dict[str, Any]] = {}
        for line in lines:
            run = runs.setdefault(line["folder"], {**line, **dict.fromkeys((*COUNTS, "formula"), 0)})
            for name in (*COUNTS, "formula"):
                run[name] += int(line[name] or 0)
        assert [line["step"] for line in lines if line["type"] == "RoundStart"] == ["setup.keys"] * 9
    else:
        runs = {run["folder"]: {**run, **run["values"]} for run in json.loads(text)["runs"]}
        for run in runs.values():
            assert {name: sum(row[name] for row in run["rows"]) for name in COUNTS} == {n: run[n] for n in COUNTS}
    assert list(runs) == [*(f"many/{line['folder']}" for line in swept), "one"]
    for folder, run in runs.items():
        assert {name: run[name] for name in COUNTS} == recorded(folder)
        assert (run["protocol"], run["outcome"], run["fidelity"]) == ("xclp", "completed", "real")
    assert (runs["one"]["formula"], str(runs["one"]["seed"])) == (runs["one"]["payload"], "3")
    for line in swept:
        run = runs[f"many/{line['folder']}"]
        keys = ("protocol.recovery", "fault.0.time", "seed")
        assert [str(run[key]) for key in keys] == [line[key] for key in keys]
        assert (run["formula"] or None) == (run["payload"] if line["fault.0.time"] == "5min" else None)


def test_files_can_be_written_to_the_standard_output(quick: Path) -> None:
    tacit("run", quick, "--out", "one")
    printed = tacit("bytes", "one", "--json", "-")
    assert printed.exit_code == 0 and json.loads(printed.stdout)["runs"][0]["total"] == recorded("one")["total"]
    printed = tacit("bytes", "one", "--csv", "-")
    assert sum(int(row["total"]) for row in csv.DictReader(io.StringIO(printed.stdout))) == recorded("one")["total"]
    both = tacit("bytes", "one", "--csv", "-", "--json", "-")
    assert both.exit_code == 2 and "both go to standard output" in both.stderr


def test_bytes_of_a_papers_table_include_runs_that_did_not_complete(quick: Path) -> None:
    table = "[table]\nseeds = 1\n[[table.row]]\nlabel = 'all'\n[[table.row]]\nlabel = 'none'\n"
    lost = 'set = { fault = [{ party = "server", at = "rowsums.sum" }] }\n'
    quick.write_text(quick.read_text() + table + lost + "[[table.column]]\nlabel = 'c'\nset = { \"protocol.k\" = 4 }\n")
    tacit("sweep", quick, "--out", "many")
    found = {line.split()[0]: line.split() for line in tacit("bytes", "many").stdout.splitlines()}
    runs = sorted(Path("many").glob("0*"))
    assert found["all"][-2:] == [f"{recorded(runs[0])['total']:,}", "0"]
    assert found["none"] == ["none", "c", "1", *["-"] * 6, "1"]
    tacit("bytes", "many", "--json", "bytes.json")
    written = json.loads(Path("bytes.json").read_text())["runs"]
    assert [run["values"] for run in written] == [{"row": "all", "column": "c"}, {"row": "none", "column": "c"}]
    assert [run["total"] for run in written] == [recorded(run)["total"] for run in runs]
    assert written[1]["outcome"] == "aborted" and written[1]["formula"] is None


def test_a_killed_sweep_is_reported_with_the_command_that_resumes(quick: Path) -> None:
    tacit("sweep", quick, "--out", "many")
    Path("many/sweep.csv").unlink()
    done = tacit("bytes", "many")
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert "sweep.csv: no table of its runs; `tacit sweep --resume many` goes on with the sweep" in done.stderr


def test_a_run_with_an_unreadable_scenario_is_still_counted(swept: list[dict[str, str]]) -> None:
    before = tacit("bytes", "many").stdout
    scenario = Path("many", swept[0]["folder"], "scenario.toml")
    scenario.write_text("of_another_version = 1\n" + scenario.read_text())
    without_digests(scenario.parent)
    done = tacit("bytes", "many")
    assert done.exit_code == 0, done.output
    assert [line.split()[:4] for line in done.stdout.splitlines()] == [line.split()[:4] for line in before.splitlines()]


def test_a_wrong_formula_is_marked_and_fails_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tacit("run", "quick.toml", "--out", "one").exit_code == 0
    right = tacit("bytes", "one", "--check")
    assert right.exit_code == 0 and "WRONG" not in right.stdout
    kind = type(PROTOCOLS["xclp"])
    formula = kind.sent_bytes

    def wrong(self: Any, *arguments: Any) -> dict[str, int | None]:
        found = dict(formula(self, *arguments) or {})
        return {**found, "Join": (found["Join"] or 0) + 1}

    monkeypatch.setattr(kind, "sent_bytes", wrong)
    assert tacit("run", "quick.toml", "--out", "two").exit_code == 0
    done = tacit("bytes", "two", "--check")
    assert done.exit_code == 1 and tacit("bytes", "two").exit_code == 0
    (row,) = (line for line in done.stdout.splitlines() if " Join " in line and "formula" not in line)
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("formula "))
    assert "WRONG" in row and said.startswith("formula   WRONG for Join: ") and said.endswith(" bytes sent")
    assert said[10:] in report([Path("two")])


def test_bytes_are_shown_by_client_up_and_down(quick: Path) -> None:
    changes = [part for change in CALM for part in ("--set", change)]
    assert tacit("run", quick, *changes, "--out", "one").exit_code == 0
    done = tacit("bytes", "one", "--by", "client", "--json", "one.json")
    (found,) = json.loads(Path("one.json").read_text())["runs"]
    assert list(found["clients"]) == [f"client/{number}" for number in range(4)]
    for name, one in found["clients"].items():
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(name)]
        assert [int(cell.replace(",", "")) for cell in line.split()[1:]] == list(one.values())
    with sqlite3.connect("one/run.sqlite") as connection:
        whole = "SELECT sum(payload + sealing + envelope) FROM events WHERE kind = 'send' AND party LIKE 'client/%'"
        assert sum(one["bytes_up"] for one in found["clients"].values()) == connection.execute(whole).fetchone()[0]
