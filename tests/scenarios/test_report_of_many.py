"""`tacit report` of several runs, of a sweep, and of a chaos campaign."""

import csv
import json
import shlex
import shutil
import statistics
from pathlib import Path

import pytest
import tomli_w

from tacit import load, run, sweep
from tacit.scenarios.schema.scenario import as_table
from tests.pages import Page, command, refused, report

FREE = ["expect={}", "protocol.deadline=10s"]


def test_a_report_of_two_runs_equals_the_output_of_compare(quick: Path) -> None:
    """The page has the sums, the keys that differ, and the first event that differs."""
    crash = 'fault=[{kind="crash", party="client/2", at="hamming.evaluate"}]'
    changes = {"one": [], "other": [crash]}
    folders = [run(load(quick, [*FREE, *own]), out=quick.parent / name).folder for name, own in changes.items()]
    command("report", *folders)
    page = Page((folders[0] / "comparison.html").read_text())
    compared = json.loads(command("compare", *folders, "--json"))
    results = {line[0]: line[1:] for line in page.tables["the results of the runs"]}
    assert results["accuracy"][:2] == [f"{one['accuracy']:.4f}" for one in compared["runs"]]
    printed = command("compare", *folders)
    for name in ("accuracy", "virtual time", "bytes"):
        assert " ".join(printed.split(f"\n{name} ")[1].split("\n")[0].split()) == " ".join(results[name])
    keys = {line[0] for line in page.tables["keys that differ"][1:]}
    assert keys == set(compared["keys"])
    for line in printed.splitlines()[-5:]:
        assert line.removeprefix("trace     ") in page.text
    steps = [line[0] for line in page.tables["bytes by step"][1:-1]]
    assert set(steps) == {step for one in compared["runs"] for step in one["bytes_by_step"]}
    marked = [found.get("class") for tag, found in page.elements if tag == "tr" and found.get("class") == "marked"]
    assert marked and compared["first_difference"]["second"]["step"] in steps
    assert "Lost in B" in page.text and "because client/2 crashed at" in page.text


def test_a_report_of_equal_runs_states_no_difference(quick: Path) -> None:
    folders = [run(load(quick, FREE), out=quick.parent / name).folder for name in ("one", "other")]
    command("report", *folders, "--out", quick.parent / "both.html")
    page = Page((quick.parent / "both.html").read_text())
    assert "The scenarios are the same." in page.text and "the traces are the same" in page.text
    assert refused(*folders * 5).startswith("10 runs do not fit on a page; allowed: up to 8")


def test_a_report_of_a_sweep_has_means_and_every_run(quick: Path) -> None:
    over = {"protocol.k": [2, 3], "network.latency": ["10ms", "20ms"]}
    folder = quick.parent / "swept"
    sweep(quick, over, seeds=2, changes=FREE, out=folder)
    page = report(folder)
    with (folder / "sweep.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert page.named["outcome"] == "8 of 8 runs completed"
    head, *lines = page.tables["means over the completed runs"]
    assert len(lines) == 4
    for line in lines:
        mine = [one for one in runs if (one["protocol.k"], one["network.latency"]) == (line[0], line[1])]
        accuracies = [float(one["accuracy"]) for one in mine]
        shown = f"{statistics.fmean(accuracies):.4f} ± {statistics.stdev(accuracies):.4f}"
        assert line[head.index("accuracy")] == shown
    assert len(page.tables["every run"]) == 9
    assert shlex.split(page.named["replay"])[:3] == ["tacit", "sweep", str(quick)]
    assert "Accuracy, mean and deviation" in page.text


def test_the_table_in_a_report_of_a_sweep_equals_the_written_table(quick: Path) -> None:
    quick.write_text(
        quick.read_text()
        + '[[table.row]]\nlabel="two"\npaper=["12 | 34"]\nset={"protocol.k"=2}\n[[table.column]]\nlabel="near"\n'
    )
    folder = quick.parent / "tabled"
    sweep(quick, seeds=2, changes=["expect={}"], out=folder)
    page = report(folder)
    row = next(line for line in (folder / "table.md").read_text().splitlines() if line.startswith("| two"))
    label, cell = page.tables["the table of the sweep"][1]
    assert label == "two" and row == f"| two | {cell} |".replace("(paper: 12 |", "<br>(paper: 12 \\|")


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> Path:
    """The folder of a small chaos campaign on the quick scenario."""
    quick = tmp_path_factory.mktemp("chaos") / "quick.toml"
    quick.write_text(quick_text)
    command("chaos", quick, "--quick", "--schedules", "1", "--jobs", "1", "--out", quick.parent / "chaos")
    return quick.parent / "chaos"


@pytest.fixture
def folder(chaos: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(chaos, tmp_path / "chaos"))


def test_a_report_of_chaos_has_a_grid_of_parties_and_steps(folder: Path) -> None:
    page, found = report(folder), json.loads((folder / "chaos.json").read_text())
    runs = len(found["runs"])
    assert page.named["outcome"] == f"All {len(found['promises'])} promises held in {runs} runs"
    head, *lines = page.tables["outcome by party and step"]
    shown = {
        (line[0], step): letter for line in lines for step, letter in zip(head[1:], line[1:], strict=True) if letter
    }
    letters = {"completed": "C", "aborted": "A", "failed": "F"}
    for one in found["runs"]:
        if len(one["faults"]) == 1 and set(one["faults"][0]) <= {"kind", "party", "before", "after"}:
            (fault,) = one["faults"]
            way = "before" if "before" in fault else "after"
            assert shown.pop((fault["party"], f"{way} {fault[way]}")) == letters[one["outcome"]]
    assert shown == {}
    assert page.tables["runs by fault"][-1][2:] == [
        str(runs), *(str(sum(one["outcome"] == outcome for one in found["runs"])) for outcome in letters), "0",
    ]  # fmt: skip


def test_a_run_that_broke_a_promise_is_repeated_for_its_timeline(folder: Path, quick: Path) -> None:
    """The record is changed to name a crash that broke a promise, although it breaks none."""
    found = json.loads((folder / "chaos.json").read_text())
    one = next(one for one in found["runs"] if one["faults"] and one["lost"] and one["outcome"] == "completed")
    failed = load(quick, [f"fault={json.dumps(one['faults']).replace(': ', ' = ')}", "expect={}"])
    (folder / "failure-1.toml").write_text(tomli_w.dumps(as_table(failed)))
    broken = {"promise": "clean end", "how": "it <b>was</b> not"}
    found["failures"] = [
        {
            **broken,
            "runs": 1,
            "faults": one["faults"],
            "replay": "tacit chaos F --replay",
            "trace_hash": one["trace_hash"],
        }
    ]
    one["broken"] = [broken]
    (folder / "chaos.json").write_text(json.dumps(found))
    page = report(folder)
    assert page.named["outcome"] == f"A promise was broken in 1 of {len(found['runs'])} runs"
    assert page.named["replay"] == "tacit chaos F --replay" and "it <b>was</b> not" in page.text
    assert any(attributes.get("class") == "timeline" for _, attributes in page.elements)
    assert (folder / "failure-1" / "result.json").is_file()
    found["failures"][0]["trace_hash"] = "0"
    (folder / "chaos.json").write_text(json.dumps(found))
    assert "another trace, so there is no timeline" in report(folder).text


def test_a_folder_without_a_chaos_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chaos.json").write_text("{}")
    assert refused(tmp_path).startswith(f"{tmp_path / 'chaos.json'}: not the record of a chaos sweep: ")
    (tmp_path / "notes.md").write_text("# Notes")
    assert refused(tmp_path / "notes.md").startswith(f"{tmp_path / 'notes.md'}: neither the folder of a run, ")
