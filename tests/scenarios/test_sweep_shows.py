"""Tests of a sweep's output apart from accuracy: outputs of declared protocols, and every warning once."""

import csv
import json
import shutil
import statistics
from pathlib import Path

import pytest
from scipy import stats
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app
from tacit.scenarios.sweeping.paired import difference

ROOT = Path(__file__).parents[2]

MEANS = """
[table]
seeds = 2
[[table.column]]
label = "mean"
measure = "output.0"
unit = "1"
[[table.column]]
label = "the only one"
measure = "output"
unit = "1"
[[table.column]]
label = "another"
measure = "output.1"
unit = "1"
[[table.row]]
label = "column 20"
set = { protocol.column = 20 }
"""

COUNTS = """
import numpy as np
from tacit.sim.units import duration
from tacit import Found, Message, OneShot, Step, add_protocol

class PointsSent(Message):
    points: int

class Counts(OneShot):
    name, summary, agrees = "counts", "how many points each client has", False
    own_steps = (Step("client", "count.send", "send its count"), Step("server", "count.take", "take the counts"))

    @property
    def message_types(self):
        return (*super().message_types, PointsSent)

    async def client(self, me, keys, group):
        with me.step("count.send"):
            me.send(me.server, PointsSent(len(me.shard.rows)))

    async def server(self, me, keys, group):
        with me.step("count.take"):
            answers = (await me.collect(PointsSent, group.names, deadline=duration(keys.deadline))).answers
        return Found(tuple(answers), np.array([answer.points for answer in answers.values()], float))

    def oracle(self, keys, shards):
        return np.array([len(shard.rows) for shard in shards.values()], float)

add_protocol(Counts())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def mean() -> Path:
    """The scenario of a secure mean, without its fault."""
    for name in ("secure_mean.py", "secure_mean.toml"):
        shutil.copy(ROOT / "examples" / name, name)
    path = Path("secure_mean.toml")
    path.write_text(path.read_text().partition("[[fault]]")[0])
    return path


def tacit(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300"})
    assert done.exit_code == code, done.output
    return done


def runs_of(folder: str) -> list[dict[str, str]]:
    with Path(folder, "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def outputs(folder: str) -> list[list[float]]:
    return [json.loads(Path(folder, run["folder"], "result.json").read_text())["output"] for run in runs_of(folder)]


# --- output


def test_a_sweep_shows_the_output_of_each_run_and_the_mean(mean: Path) -> None:
    done = tacit("sweep", mean, "--over", "protocol.column=20,21", "--seeds", 2, "--out", "many")
    assert [[float(run["output"])] for run in runs_of("many")] == outputs("many")
    assert [run["accuracy"] for run in runs_of("many")] == [""] * 4
    lines = [line.split() for line in done.stdout.splitlines()]
    assert "output" in lines[1] and "accuracy" not in lines[1]
    for column, ((one,), (other,)) in (("20", outputs("many")[:2]), ("21", outputs("many")[2:])):
        (line,) = (line for line in lines if line[:1] == [column])
        assert line[1:4] == ["2", f"{(one + other) / 2:.6g}", "±"]
        assert float(line[4]) == pytest.approx(abs(one - other) / 2**0.5, rel=1e-4)


def test_a_sweep_shows_outputs_of_several_numbers_in_rows(mean: Path) -> None:
    Path("counts.py").write_text(COUNTS)
    text = '[data]\nname = "digits"\nclients = 4\nlimit = 80\n[protocol]\nname = "counts"\n'
    Path("counts.toml").write_text(f'plugins = ["counts.py"]\n{text}')
    done = tacit("sweep", "counts.toml", "--over", "data.clients=3,5", "--out", "many")
    assert [run["output"] for run in runs_of("many")] == ["27.0; 27.0; 26.0", "16.0; 16.0; 16.0; 16.0; 16.0"]
    words = [line.split() for line in done.stdout.splitlines()]
    first = next(place for place, line in enumerate(words) if line[:1] == ["3"])
    assert words[first][:3] == ["3", "1", "27"] and words[first + 1 : first + 3] == [["27"], ["26"]]
    assert words[first + 3][:3] == ["5", "1", "16"] and words[first + 6] == ["(5", "numbers)"]


def test_a_papers_table_shows_means_of_outputs(mean: Path) -> None:
    mean.write_text(mean.read_text() + MEANS)
    done = tacit("sweep", mean, "--out", "many")
    (one,), (other,) = outputs("many")[:2]
    assert done.stdout.count(f"{(one + other) / 2:.4f} ± {abs(one - other) / 2**0.5:.4f}") == 2
    assert "2 without output.1" in done.stdout


def test_a_sweep_without_outputs_shows_accuracy(quick: Path) -> None:
    done = tacit("sweep", quick, "--out", "many")
    assert "accuracy" in done.stdout and "output" not in done.stdout
    assert [run["output"] for run in runs_of("many")] == [""]


# --- warnings


def warnings(done: Result) -> list[str]:
    return [line.removeprefix("WARNING  ") for line in done.stdout.splitlines() if line.startswith("WARNING")]


PLAIN = 'protocol.hamming = "plaintext": the server reads every hash, because distances are not encrypted'


def test_a_sweep_prints_each_warning_once(quick: Path) -> None:
    before = warnings(tacit("run", quick, "--out", "run"))
    assert before == [PLAIN]
    assert warnings(tacit("sweep", quick, "--seeds", 2, "--out", "many")) == before
    assert warnings(tacit("sweep", "--resume", "many")) == before


def test_a_sweep_names_the_runs_that_a_warning_is_about(quick: Path) -> None:
    found = warnings(tacit("sweep", quick, "--over", "protocol.rows=unlabeled,paper", "--seeds", 2, "--out", "many"))
    assert found[0] == PLAIN
    assert len(found) == 2 and found[1].startswith('protocol.rows = "paper"') and found[1].endswith(" (in 2 of 4 runs)")


def test_a_sweep_prints_warnings_given_at_the_end_of_a_run(quick: Path) -> None:
    fault = 'fault=[{kind = "crash", party = "client/1", time = 9000.0}]'
    swept = tacit("sweep", quick, "--set", fault, "--set", "expect={}", "--seeds", 2, "--out", "many")
    found = warnings(swept)
    assert found[0] == PLAIN and len(found) == 2 and found[1].startswith("fault.0: ")


def test_a_sweep_prints_only_some_of_many_warnings(quick: Path) -> None:
    deadlines = ",".join(f"{number}us" for number in range(1, 15))
    done = tacit("sweep", quick, "--over", f"protocol.deadline={deadlines}", "--out", "many", code=1)
    found = warnings(done)
    assert len(found) == 13 and found[-1].endswith(" more: warnings in each run's result.json")


# --- keys without effect


def test_a_sweep_marks_keys_that_have_no_effect(quick: Path) -> None:
    over = ("--over", "training.averaging=plain,lightsecagg", "--over", "protocol.k=3,4")
    done = tacit("sweep", quick, *over, "--out", "many")
    assert "unused   training.averaging: not a key of xclp\n" in done.stdout
    assert "lightsecagg (unused)   3 " in done.stdout and "protocol.k (unused)" not in done.stdout
    page = tacit("report", "many", "--out", "page.html") and Path("page.html").read_text()
    assert "lightsecagg (unused)" in page and "3 (unused)" not in page
    first, second = (Path("many", runs_of("many")[place]["folder"]) for place in (0, 2))
    assert "training.averaging (unused)" in tacit("compare", first, second).stdout
    assert json.loads(tacit("compare", first, second, "--json").stdout)["unused_keys"] == ["training.averaging"]


# --- paired differences


def test_a_paired_sweep_compares_runs_with_the_same_seed(quick: Path) -> None:
    done = tacit("sweep", quick, "--over", "data.labeled=0.2,0.5", "--seeds", 3, "--out", "many", "--paired")
    assert "same seed, minus data.labeled = 0.2" in done.stdout
    found = [float(run["accuracy"]) for run in runs_of("many")]
    values = [found[3 + place] - found[place] for place in range(3)]
    (line,) = (line.split() for line in done.stdout.splitlines() if line.startswith("data.labeled = 0.5 "))
    assert line[3:5] == ["3", f"{statistics.fmean(values):+.4f}"]
    assert line[8:] == [f"{stats.ttest_1samp(values, 0).pvalue:.3f}", f"{stats.wilcoxon(values).pvalue:.3f}"]
    low, high = stats.ttest_1samp(values, 0).confidence_interval()
    assert line[5:8] == [f"{low:+.4f}", "to", f"{high:+.4f}"]
    assert "paired    nothing to compare" in tacit("sweep", quick, "--out", "one", "--paired").stdout


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.1], (None, None)), ([0.0, 0.0, 0.0], (None, None)), ([0.1, 0.1, 0.1], (0.0, 0.25))],
)
def test_differences_that_do_not_vary_have_no_p_value_or_a_certain_one(
    values: list[float], expected: tuple[float | None, float | None]
) -> None:
    found = difference("a", "b", values)
    assert (found.t, found.wilcoxon) == pytest.approx(expected)
    assert found.mean == pytest.approx(values[0]) and (found.low is None) == (len(values) == 1)
