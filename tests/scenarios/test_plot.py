"""`tacit plot`: curves of runs as a figure."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.running.folder import read_result
from tacit.scenarios.seeing.plot import curves
from tests.earlier import without_digests


@pytest.fixture
def two(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two folders of training runs; commands run in their parent folder."""
    monkeypatch.chdir(tiny.parent)
    rates = ("0.1", "0.5")
    keys = ["protocol.name=fedavg"]
    return [
        run(load(tiny, [*keys, f"training.learning_rate={rate}"]), out=tiny.parent / f"r{rate}").folder
        for rate in rates
    ]


def command(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["plot", *map(str, arguments)])
    return done.exit_code, done.stdout or done.stderr


def refused(*arguments: object) -> str:
    code, shown = command(*arguments)
    assert code == 2
    (line,) = shown.splitlines()
    return line.removeprefix("error: ")


def test_a_figure_has_a_legend_and_is_the_same_each_time(two: list[Path]) -> None:
    assert command(*two) == (0, "plot      plot.svg\n")
    first = Path("plot.svg").read_text()
    assert "training.learning_rate = 0.1" in first and "training.learning_rate = 0.5" in first
    assert "<dc:date>" not in first
    assert command(*two)[0] == 0  # the default is overwritten
    assert Path("plot.svg").read_text() == first
    assert command(*two, "--x", "bytes", "--y", "messages", "--out", "a.pdf")[0] == 0
    assert command(two[0], "--x", "time", "--out", "a.png")[0] == 0
    assert Path("a.pdf").read_bytes().startswith(b"%PDF") and Path("a.png").read_bytes().startswith(b"\x89PNG")


def test_a_legend_marks_the_keys_without_effect(two: list[Path], tiny: Path) -> None:
    keys = ["protocol.name=fedavg", "training.learning_rate=0.1", "training.mu=0.2"]
    other = run(load(tiny, keys), out=tiny.parent / "other").folder  # only fedprox has training.mu
    labels = [one.label for one in curves([two[0], other], "rounds", "accuracy")]
    assert labels == ["training.mu = 0.01 (unused)", "training.mu = 0.2 (unused)"]
    assert [one.label for one in curves([two[0], two[1]], "rounds", "accuracy")] == [
        "training.learning_rate = 0.1",
        "training.learning_rate = 0.5",
    ]


def test_runs_that_differ_in_the_seed_alone_are_one_curve(two: list[Path], tiny: Path) -> None:
    slow, fast = two
    keys = ["protocol.name=fedavg", "training.learning_rate=0.1"]
    again = run(load(tiny, [*keys, "seed=7"]), out=tiny.parent / "again").folder
    first, second = curves([slow, again, fast], "rounds", "accuracy")
    assert (first.label, second.label) == ("training.learning_rate = 0.1 (2 seeds)", "training.learning_rate = 0.5")
    one, other = (curves([folder], "rounds", "accuracy")[0].points for folder in (slow, again))
    assert [y for _, y in first.points] == pytest.approx(
        [(a + b) / 2 for (_, a), (_, b) in zip(one, other, strict=True)]
    )
    assert first.band == pytest.approx([abs(a - b) / 2**0.5 for (_, a), (_, b) in zip(one, other, strict=True)])
    assert not any(second.band)


def test_totals_of_runs_are_drawn_over_a_key(two: list[Path], tiny: Path) -> None:
    keys = ["protocol.name=fedavg", "training.learning_rate=0.1", "data.clients=5"]
    more = run(load(tiny, keys), out=tiny.parent / "more")
    slow, fast = (read_result(folder) for folder in two)
    first, second = curves([*two, more.folder], "data.clients", "bytes")
    assert first.points == [(load(two[0]).data.clients, slow.bytes_total / 1e6), (5.0, more.bytes_total / 1e6)]
    assert second.points == [(load(two[0]).data.clients, fast.bytes_total / 1e6)]


def test_wrong_axes_files_and_folders_are_refused_in_one_line(two: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(two[0], "--x", "steps").startswith("--x: steps is unknown; allowed: rounds, bytes, time, or a key")
    assert "no number" in refused(two[0], "--x", "protocol.name", "--y", "bytes")
    assert "has no key data.claws" in refused(two[0], "--x", "data.claws", "--y", "bytes")
    assert "is not a figure of a whole run" in refused(two[0], "--x", "data.clients", "--y", "called")
    unmeasured = f"--y: beauty was not measured in the rounds of {two[0]}; allowed: accuracy, "
    assert refused(two[0], "--y", "beauty").startswith(unmeasured)
    assert refused(two[0], "--out", "a.gif") == "--out: a.gif must end in one of .svg, .png, .pdf"
    Path("there.svg").touch()
    assert refused(two[0], "--out", "there.svg") == "--out: there.svg exists already; name a new file"
    assert refused("none") == "none: no such folder; that of a run is needed"
    Path("empty").mkdir()
    assert refused("empty") == "empty: no scenario.toml; a run's folder is needed"
    with closing(sqlite3.connect(two[1] / "run.sqlite")) as connection, connection:
        connection.execute("DELETE FROM ended_rounds")
    without_digests(two[1])
    assert refused(*two) == f"{two[1]}: no round of it has ended; there is nothing to plot"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    assert refused(two[0]) == 'a plot needs matplotlib, which is not installed: pip install "tacit-fl[plots]"'
