"""Sweeps with faults: swept fields of a fault, allowed losses, and runs that did not end as expected."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tacit import Scenario, ScenarioError, load
from tacit.scenarios.command.main import app
from tacit.scenarios.running import runner as running
from tacit.scenarios.running.simulation import Simulation

CRASH = """
[[fault]]
party = "client/1"
at = "lsh.hash"
[[fault]]
kind = "slow"
party = "client/2"
time = 0
factor = 2
"""


@pytest.fixture
def faulty(quick: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quick scenario with a crash and a slow client; it expects no losses."""
    monkeypatch.chdir(quick.parent)
    head, expect = quick.read_text().split("[expect]")
    quick.write_text(head + CRASH + "[expect]" + expect)
    return quick


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def runs_of(folder: str) -> list[dict[str, str]]:
    with Path(folder, "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def unmet_of(result: Result, folder: str) -> list[str]:
    assert result.exit_code in (0, 1), result.output
    return json.loads(Path(folder, "result.json").read_text())["unmet"]


# --- one field of a fault


def test_a_change_can_name_one_field_of_a_fault(faulty: Path) -> None:
    before = load(faulty).fault
    changed = load(faulty, ["fault.1.factor=8", "fault.0.party=client/3", "fault.0.occurrence=2"]).fault
    assert (changed[1].factor, changed[1].party, changed[1].time) == (8.0, "client/2", before[1].time)
    assert (changed[0].party, changed[0].at, changed[0].occurrence) == ("client/3", "lsh.hash", 2)


@pytest.mark.parametrize(("changes", "expected"), [
    (["fault.0.time=1.5"], {"at": None, "time": 1.5}),
    (["fault.0.after=rowsums.mask"], {"at": None, "after": "rowsums.mask"}),
    (["fault.0.occurrence=2", "fault.0.party=client/*"], {"occurrence": 2, "at": "lsh.hash", "party": "client/*"}),
    (["fault.0.kind=delay", "fault=[{kind='delay', by=1}]", "fault.0.by=2s"], {"kind": "delay", "by": "2s"}),
])  # fmt: skip
def test_a_changed_field_removes_the_fields_of_the_file_that_exclude_the_change(
    faulty: Path, changes: list[str], expected: dict[str, Any]
) -> None:
    fault = load(faulty, changes).fault[0]
    assert {name: getattr(fault, name) for name in expected} == expected


@pytest.mark.parametrize(("changes", "message"), [
    (["fault.2.factor=4"], "changes: fault.2.factor: there is no fault 2: the scenario has 2, counted from 0"),
    (["fault=[]", "fault.0.party=server"], "changes: fault.0.party: there is no fault 0: the scenario has none"),
    (["fault.0.factor=4"], 'changes: fault.0.factor: does not go with kind = "crash", but with slow; allowed: party, '),
    (["fault.1.back_after=4"], 'changes: fault.1.back_after: does not go with kind = "slow", but with crash, power; '),
    (["fault.1.facter=4"], 'changes: fault.1.facter: a fault has no "facter"; did you mean factor?; allowed: kind, '),
    (["fault.x.factor=4"], "changes: fault.x.factor: is no field of a fault; allowed: fault.N.FIELD"),
    (["fault.01.factor=4"], "changes: fault.01.factor: is no field of a fault; allowed: fault.N.FIELD"),
    (["fault.1.factor=much"], 'fault.1.factor: "much" is of the wrong kind; allowed: a number, 1 or more'),
    (["fault.0.at=lsh.hush"], 'fault.0.at: "lsh.hush" is not a step'),
    (["fault.0.at=lsh.hash", "fault.0.time=1"],
     "exactly one of at, before, after, time, message, share, count says when; given: at"),
    (["fault.0.occurrence=1", "fault.0.probability=0.5"], "occurrence and probability are both given"),
])  # fmt: skip
def test_a_missing_field_is_reported_in_one_line(faulty: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(faulty, changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_run_and_chaos_accept_fields_of_faults(faulty: Path) -> None:
    once = ("--set", "fault.0.at=rowsums.mask", "--set", "expect={}")
    assert tacit("run", faulty, *once, "--out", "one").exit_code == 0
    assert {loss["party"] for loss in json.loads(Path("one/result.json").read_text())["lost"]} == {"client/1"}
    assert "fault.0.at" not in Path("one/scenario.toml").read_text()
    assert load("one").fault[0].at == "rowsums.mask"
    replayed = tacit("chaos", faulty, *once, "--replay")
    assert replayed.exit_code == 0 and 'at = "rowsums.mask"' in replayed.stdout
    refused = tacit("chaos", faulty, "--set", "fault.0.at=rowsums.mask")
    assert refused.exit_code == 2 and "chaos brings its own faults; allowed: --replay" in refused.stderr


def test_a_file_of_a_fault_is_relative_to_the_current_folder(faulty: Path) -> None:
    Path("trace.csv").write_text("party,up,down\nclient/1,0,1\n")
    fault = load(faulty, ["fault=[{kind='availability', file='x.csv'}]", "fault.0.file=trace.csv"]).fault[0]
    assert fault.file == str(Path("trace.csv").absolute())


@pytest.mark.parametrize(("over", "label"), [
    ("fault.1.factor=2,4", "fault 1 (slow client/2) factor"),
    ("fault.0.party=client/0,client/3", "fault 0 (crash) party"),
    ("fault.0.kind=crash,leave", "fault 0 (client/1) kind"),
    ("fault.0.time=0.01,10s", "fault 0 (crash client/1) time"),
])  # fmt: skip
def test_a_field_is_swept_and_labelled_by_kind_and_party(faulty: Path, over: str, label: str) -> None:
    done = tacit("sweep", faulty, "--over", over, "--set", "expect={}", "--out", "many")
    assert done.exit_code == 0, done.output
    key, _, values = over.partition("=")
    assert [line[key] for line in runs_of("many")] == values.split(",")
    above = [line for line in done.stdout.partition("──")[0].splitlines() if not line.startswith("WARNING")]
    heads = [line[: line.find("  ") if "  " in line else None] for line in above]
    assert " ".join(heads).split()[: len(label.split())] == label.split()
    for number, line in enumerate(runs_of("many")):
        _, index, name = key.split(".")
        found = getattr(load(Path("many", line["folder"])).fault[int(index)], name)
        assert found == type(found)(values.split(",")[number])


# --- allowed losses


@pytest.mark.parametrize(("changes", "unmet"), [
    (["expect.lost_at_most=1"], []),
    (["expect.lost_at_most=0"], ["expect.lost_at_most: expected 0, got 1: client/1"]),
    (["expect.lost_includes=['client/1']"], []),
    (["expect.lost_includes=['client/1']", "expect.lost_at_most=1"], []),
    (["expect.lost_includes=['client/3', 'client/1']"], ["expect.lost_includes: expected client/3, got client/1"]),
    (["expect.lost_includes=['client/1 at rowsums.mask']"],
     ["expect.lost_includes: expected client/1 to be lost at rowsums.mask, it was lost at lsh.hash"]),
    (["fault=[]", "expect.lost_includes=['client/1']"], ["expect.lost_includes: expected client/1, got nobody"]),
])  # fmt: skip
def test_expected_losses_are_compared_with_the_losses_of_the_run(
    faulty: Path, changes: list[str], unmet: list[str]
) -> None:
    arguments = [part for change in changes for part in ("--set", change)]
    result = tacit("run", faulty, *arguments, "--out", "one")
    assert unmet_of(result, "one") == unmet
    assert result.exit_code == (1 if unmet else 0)


@pytest.mark.parametrize(("text", "message"), [
    ("lost_at_most = 1", "expect.lost_at_most: does not go with expect.lost, which says exactly who is lost"),
    ('lost_includes = ["client/1"]', "expect.lost_includes: does not go with expect.lost, which says exactly who"),
    ("lost_at_most = -1", "expect.lost_at_most: -1 is too small; allowed: 0 or more"),
])  # fmt: skip
def test_incompatible_expectations_are_refused(quick: Path, text: str, message: str) -> None:
    quick.write_text(f"{quick.read_text()}{text}\n")
    with pytest.raises(ScenarioError) as caught:
        load(quick)
    assert message in str(caught.value)


@pytest.mark.parametrize(("changes", "message"), [
    (["expect.lost=[]", "expect.lost_at_most=1"], "expect.lost_at_most: does not go with expect.lost"),
    (["expect.lost_at_most=1", "expect.lost_includes=['client/0', 'client/1']"],
     "expect.lost_at_most: 1 is too small, for expect.lost_includes names 2 parties; allowed: 2 or more"),
    (["expect.lost_includes=['client/9']"], 'expect.lost_includes: "client/9" is not a party'),
    (["expect.lost_includes=['client/1 at lsh.hush']"], 'expect.lost_includes: "lsh.hush" is not a step'),
])  # fmt: skip
def test_expectations_that_cannot_be_met_are_refused(quick: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(quick, changes)
    assert message in str(caught.value)


# --- the report on unexpected runs


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scenario], bool]], None]:
    """A function that makes the runs of some scenarios fail with an error."""

    def breaks(which: Callable[[Scenario], bool]) -> None:
        class Breaking(Simulation):
            def __init__(self, scenario: Scenario, **options: Any) -> None:
                super().__init__(scenario, **options)
                if which(scenario):
                    raise RuntimeError("no luck")

        monkeypatch.setattr(running, "Simulation", Breaking)

    return breaks


def test_runs_that_are_not_as_expected_are_named(faulty: Path) -> None:
    over = ("--over", "fault.0.at=lsh.hash,rowsums.mask", "--over", "expect.lost_at_most=0,1", "--seeds", "2")
    done = tacit("sweep", faulty, *over, "--out", "many")
    assert done.exit_code == 1
    lines = [line for line in done.stdout.splitlines() if line.startswith("NOT AS EXPECTED")]
    wrong = [line for line in runs_of("many") if line["expect.lost_at_most"] == "0"]
    assert len(lines) == len(wrong) == 4
    for line, row in zip(lines, wrong, strict=True):
        named = f"fault 0 (crash client/1) at {row['fault.0.at']}, expect.lost_at_most 0, seed {row['seed']}: "
        assert line == f"NOT AS EXPECTED  {named}{row['unmet']} ({row['folder']})"
        assert row["unmet"] == "expect.lost_at_most: expected 0, got 1: client/1"
    for row in runs_of("many"):
        record = json.loads(Path("many", row["folder"], "result.json").read_text())
        assert (row["outcome"], row["reason"]) == (record["outcome"], record["reason"])
        assert row["lost"] == "; ".join(f"{loss['party']} at {loss['step']}" for loss in record["lost"]) != ""
        assert row["unmet"] == "; ".join(record["unmet"])


def test_means_are_over_completed_runs_only(quick: Path, breaking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick.parent)
    breaking(lambda scenario: scenario.seed == 4 or scenario.protocol.k == 4)
    done = tacit("sweep", quick, "--over", "protocol.k=2,4", "--seeds", "3", "--out", "many")
    assert done.exit_code == 1
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line[:1] in "24"}
    completed = [line for line in runs_of("many") if line["outcome"] == "completed"]
    assert [line["seed"] for line in completed] == ["3", "5"]
    low, high = sorted(float(line["accuracy"]) for line in completed)
    assert rows["2"][:3] == ["2", "3", f"{(low + high) / 2:.4f}"] and rows["2"][-2:] == ["1", "failed"]
    assert rows["4"] == ["4", "3", "-", "-", "-", "-", "3", "failed"]
    assert "figures   of the completed runs: 4 of 6 did not complete" in done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("NOT AS EXPECTED")]
    assert len(named) == 4
    assert named[0].startswith("NOT AS EXPECTED  protocol.k 2, seed 4: failed: RuntimeError: no luck; expect.outcome: ")
    failed = [line for line in runs_of("many") if line["outcome"] == "failed"]
    assert {line["reason"] for line in failed} == {"RuntimeError: no luck"} and all(line["unmet"] for line in failed)


def test_aborted_runs_are_named_up_to_a_limit(faulty: Path) -> None:
    arguments = ("--set", "fault.0.party=client/*", "--set", "fault.0.at=rowsums.mask", "--seeds", "14")
    done = tacit("sweep", faulty, *arguments, "--set", "expect.outcome='completed'", "--out", "many")
    assert done.exit_code != 0 and {line["outcome"] for line in runs_of("many")} != {"completed"}
    named = [line for line in done.stdout.splitlines() if line.startswith("NOT AS EXPECTED")]
    assert len(named) == 13 and named[0].startswith("NOT AS EXPECTED  seed 3: ")
    assert named[-1] == "NOT AS EXPECTED  2 more: outcome, reason and unmet in many/sweep.csv"
    assert "4 parties" in done.stdout


def test_a_papers_table_names_runs_that_are_not_as_expected(
    quick: Path, breaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(quick.parent)
    table = "[table]\nseeds = 1\n[[table.row]]\nlabel = 'r'\n[[table.column]]\nlabel = 'c'\n"
    quick.write_text(quick.read_text() + table)
    breaking(lambda scenario: True)
    done = tacit("sweep", quick, "--out", "many")
    assert done.exit_code == 1
    assert "NOT AS EXPECTED  row r, column c, seed 3: failed: RuntimeError: no luck" in done.stdout
    assert runs_of("many")[0]["reason"] == "RuntimeError: no luck" and runs_of("many")[0]["unmet"]
