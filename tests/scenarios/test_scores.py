"""Tasks with another score than the accuracy: every table, file, chart and comparison has the score's own name."""

import csv
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tacit import Result, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.reporting.printed import outcome_lines, round_table

EXAMPLES = Path(__file__).parents[2] / "examples"
CHANGES = ("training.rounds=2", "engine=inline")


def tacit(*arguments: object) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments: object) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)])
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("scores") / "first"
    return run(load(EXAMPLES / "diabetes.toml", CHANGES), out=out)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("scores") / "second"
    return run(load(EXAMPLES / "diabetes.toml", [*CHANGES, "training.learning_rate=0.1"]), out=out)


def test_the_result_has_the_score_by_its_name(regression: Result) -> None:
    record = json.loads((regression.folder / "result.json").read_text())
    assert (record["score"], record["accuracy"], record["accuracy_selected"]) == ("rmse", None, None)
    assert next(iter(record["metrics"])) == "rmse"
    assert regression.scored == record["metrics"]["rmse"] > 0
    assert regression.scored_selected == record["metrics_selected"]["rmse"]
    assert record["measured_on"] == "the test part of the data set (smaller is better)"
    assert f"rmse {regression.scored:.4f}" in repr(regression)
    assert "accuracy" not in repr(regression)


def test_what_is_printed_names_it(regression: Result) -> None:
    lines = [str(line) for line in outcome_lines(regression)]
    assert re.match(rf"rmse +{regression.scored:.4f}$", lines[1])
    assert not [line for line in lines if "accuracy" in line]
    console = Console(width=200, record=True)
    print_table(console, round_table(regression.round_records, regression.score))
    head = console.export_text().splitlines()
    assert "accuracy" not in " ".join(head)
    assert f"{regression.round_records[-1].own()['rmse']:.4f}" in " ".join(head)


def test_rounds_have_a_column_of_it(regression: Result) -> None:
    with (regression.folder / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert "accuracy" not in rows[0]
    assert [float(row["rmse"]) for row in rows] == [one.measured["rmse"] for one in regression.round_records]
    frame = regression.rounds()
    assert list(frame["rmse"]) == [float(row["rmse"]) for row in rows]
    assert set(rows[0]) == set(frame.columns)


def test_runs_are_compared_by_it(regression: Result, other: Result, tmp_path: Path) -> None:
    both = regression.folder, other.folder
    compared = tacit("compare", *both)
    assert re.search(rf"^rmse +{regression.scored:.4f} +{other.scored:.4f} ", compared, re.MULTILINE)
    assert "accuracy" not in compared
    paired = tacit("compare", "--paired", *both)
    assert re.search(r"pairs +rmse +95% interval", paired)
    assert f"{other.scored - regression.scored:+.4f}" in paired  # type: ignore[operator]


def test_charts_are_of_it(regression: Result, other: Result, tmp_path: Path) -> None:
    both = regression.folder, other.folder
    tacit("plot", *both, "--out", tmp_path / "p.svg")
    assert ">rmse<" in (tmp_path / "p.svg").read_text()
    tacit("report", regression.folder, "--out", tmp_path / "one.html")
    tacit("report", *both, "--out", tmp_path / "two.html")
    for page in (tmp_path / "one.html", tmp_path / "two.html"):
        text = page.read_text()
        assert "rmse by virtual time" in text
        assert "ccuracy by" not in text
    assert f"{regression.scored:.4f}" in (tmp_path / "two.html").read_text()


def test_runs_with_other_scores_are_not_mixed_up(regression: Result, tmp_path: Path) -> None:
    labels = run(load(EXAMPLES / "focal.toml", CHANGES), out=tmp_path / "focal")
    assert (labels.score, labels.scored) == ("accuracy", labels.accuracy)
    said = refused("plot", regression.folder, labels.folder, "--out", tmp_path / "p.svg")
    assert "different scores: rmse in" in said
    said = refused("compare", "--paired", regression.folder, labels.folder)
    assert "different scores: rmse, accuracy" in said
    rows = [line.split()[:3] for line in tacit("compare", regression.folder, labels.folder).splitlines()]
    assert ["rmse", f"{regression.scored:.4f}", "-"] in rows
    assert ["accuracy", "-", f"{labels.accuracy:.4f}"] in rows


def test_a_sweep_has_its_mean_and_range(tmp_path: Path) -> None:
    over = ("--over", "training.learning_rate=0.05,0.1", "--paired")
    changes = [word for change in (*CHANGES, "training.rounds=1") for word in ("--set", change)]
    done = tacit("sweep", EXAMPLES / "diabetes.toml", *over, *changes, "--out", tmp_path / "sweep")
    assert re.search(r"runs +rmse +range +test loss", done)
    assert re.search(r"pairs +rmse +95% interval", done)
    assert "accuracy" not in done
    tacit("report", tmp_path / "sweep", "--out", tmp_path / "sweep.html")
    text = (tmp_path / "sweep.html").read_text()
    assert "rmse, mean and deviation" in text
    assert "ccuracy" not in text


def test_an_expected_accuracy_says_what_there_is_instead(tmp_path: Path) -> None:
    changes = (*CHANGES, "training.rounds=1", "expect.accuracy_at_least=0.5")
    result = run(load(EXAMPLES / "diabetes.toml", changes), out=tmp_path / "run")
    said = "expect.accuracy_at_least: expected 0.5 or more, got no accuracy: the score of the task is rmse"
    assert result.unmet == [said]


def test_clients_that_test_spread_in_the_score(tmp_path: Path) -> None:
    changes = ("training.rounds=1", "training.evaluation=plain", "data.held_out=0.3")
    result = run(load(EXAMPLES / "diabetes.toml", [*CHANGES, *changes]), out=tmp_path / "run")
    each = [one["rmse"] for one in result.evaluation_by_client.values()]
    assert len(set(each)) == 5
    assert result.evaluation["rmse_worst"] == max(each)  # smaller is better
    assert result.evaluation["rmse_mean"] == pytest.approx(sum(each) / 5)
    assert not [name for name in result.evaluation if name.startswith(("loss_", "accuracy"))]
    assert set(result.round_records[0].own()) > {"clients' rmse", "clients' loss", "clients' rmse_worst"}
    assert [line for line in map(str, outcome_lines(result)) if "rmse of a client: mean" in line]
    done = tacit(
        "sweep", EXAMPLES / "diabetes.toml", "--over", "training.epochs=1,2", "--out", tmp_path / "sweep",
        *(word for change in (*CHANGES, *changes) for word in ("--set", change)),
    )  # fmt: skip
    assert "clients rmse worst" in " ".join(done.split())
