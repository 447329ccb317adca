"""The benchmark of a cell at the paper's scale: what it runs, that it stops and continues, and its messages."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from typer.testing import CliRunner

from tacit import Training
from tacit.benchmarks import paper_scale
from tacit.benchmarks.command import app
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.runner import resume
from tests.photographs import drawn

CHANGED = {"rounds", "label_from", "decay_rounds", "evaluate_every", "checkpoint_every"}
SMALL = ("data.limit=300", "data.clients=3")


def bench(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["paper-scale", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def given(changes: tuple[str, ...]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


@pytest.fixture
def quick(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A function that runs or resumes the quick cell among three clients and returns what it has written as JSON."""

    def run(out: Path, minutes: float | None = None, *, resumed: bool = False) -> dict[str, Any]:
        file, clock = tmp_path / "figures.json", count(0.0, 10.0)
        tick = lambda: float(next(clock))  # noqa: E731
        if resumed:
            code = paper_scale.resume(out, minutes, file, clock=tick)
        else:
            code = paper_scale.main(
                rounds=6, minutes=minutes, changes=SMALL, quick=True, out=out, json_file=file, clock=tick
            )
        assert code == 0
        found: dict[str, Any] = json.loads(file.read_bytes())
        return found

    return run


def test_the_cell_of_the_paper_runs_on_photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn(tmp_path / "data", monkeypatch, 1200, 20)
    file = tmp_path / "figures.json"
    smaller = given(("model.width=0.01", "training.epochs=1", "training.device=cpu"))
    shown = bench("--rounds", 2, *smaller, "--out", tmp_path / "run", "--json", file)
    assert "CIFAR-10, i.i.d.; FedAvg+XCLP; m_L = 100: n_L = 1000 (seed 1)" in shown
    assert "data cifar10, 100 clients device cpu run 2 rounds, from round 2 on with pseudo-labels, a check" in shown
    assert "cell 3,000 rounds, from round 1,501 on with pseudo-labels" in shown
    assert "round 1 of 2 rounds on labels alone" in shown and "round 2 of 2 rounds with pseudo-labels" in shown
    assert "paper 70.91 ± 0.71 % accuracy in this cell, with all of its rounds" in shown and "no GPU" not in shown
    found = json.loads(file.read_bytes())
    assert [(stage["name"], stage["rounds"]) for stage in found["stages"]] == [
        ("rounds on labels alone", 1),
        ("rounds with pseudo-labels", 1),
    ]
    assert (found["first"], found["last"], found["outcome"]) == (1, 2, "completed")
    assert found["device_memory"] is None and found["memory"] > 1e8


def test_only_the_rounds_of_a_cell_are_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn(tmp_path, monkeypatch, 2500, 20)
    cell = paper_scale.cell_of("training-cifar10-iid", "FedAvg+XCLP", "m_L = 50: n_L = 1000", 1500, ())
    table = read("training-cifar10-iid", ["scale=paper"])
    assert table.layout is not None
    whole = read("training-cifar10-iid", ["scale=paper"], cell=table.layout.sets(4, 2)).scenario
    found = cell.loaded.scenario
    assert cell.figure == "70.81 ± 1.65" and (cell.rounds, cell.label_from) == (3000, 1501)
    assert (found.data.labeled_clients, found.training.learning_rate) == (50, 0.1)
    differ = [
        key for key in whole.training.__struct_fields__ if getattr(whole.training, key) != getattr(found.training, key)
    ]
    assert set(differ) <= CHANGED
    assert structs.replace(found, title="", training=Training()) == structs.replace(
        whole, title="", training=Training()
    )
    by_default = paper_scale.cell_of("training-cifar10-iid", "FedAvg+XCLP", "", None, ("training.device=cpu",))
    assert by_default.hundredth and by_default.loaded.scenario.training.rounds == 15


@pytest.mark.parametrize("rounds", [1, 2, 15, 40, 1500, 3000])
def test_stages_and_decay_keep_their_share_of_the_rounds(rounds: int) -> None:
    whole = Training(rounds=3000, label_from=1501, decay_rounds=2000, evaluate_every=50, checkpoint_every=50)
    found = {key.removeprefix("training."): value for key, value in paper_scale.shortened(whole, rounds).items()}
    assert found["label_from"] == rounds // 2 + 1 and found["rounds"] == rounds
    assert found["decay_rounds"] == -(-2 * rounds // 3)
    assert 1 <= found["checkpoint_every"] <= 30 and 1 <= found["evaluate_every"] <= 50
    if rounds == 3000:
        assert Training(**found) == structs.replace(whole, checkpoint_every=30)


def test_a_run_out_of_time_stops_at_a_checkpoint_and_continues(
    quick: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = quick(tmp_path / "whole")
    assert (whole["first"], whole["last"], whole["rounds"]) == (1, 6, 6)
    capsys.readouterr()
    first = quick(tmp_path / "parts", 0.8)  # the clock moves by 10 s whenever it is read
    shown = " ".join(capsys.readouterr().out.split())
    assert first["outcome"] == "interrupted" and first["first"] == 1 and 1 <= first["last"] < 5
    assert f"stopped after round {first['last']} of 6, by --minutes 0.8" in shown
    assert f"--resume {tmp_path / 'parts'} (from round {first['last'] + 1} on" in shown
    second = quick(tmp_path / "parts", 0.0, resumed=True)
    assert second["first"] == second["last"] == first["last"] + 1 and second["outcome"] == "interrupted"
    ended = resume(tmp_path / "parts")  # as `tacit run --resume` does
    assert ended.trace_hash == whole["trace_hash"] and ended.accuracy == whole["accuracy"]


def test_the_quick_run_needs_no_further_data_and_says_what_it_is(tmp_path: Path) -> None:
    shown = bench("--quick", "--rounds", 2, *given(SMALL), "--row", "FedAvg (labeled only)", "--out", tmp_path / "run")
    assert "FedAvg (labeled only)" in shown and "pseudo-labels" not in shown
    assert "outcome completed, accuracy" in shown and "measured 2 rounds in" in shown
    refused = bench("--resume", tmp_path / "run", code=2)
    assert "this run has ended already (completed)" in refused


def test_missing_data_and_other_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    assert "cifar10 is not on this machine; get it by: tacit data fetch cifar10" in bench(code=2)
    row = bench("--quick", "--row", "FedAvg+XCLQ", code=2)
    assert "--row: the table has no row 'FedAvg+XCLQ'; did you mean FedAvg+XCLP?; allowed: FedAvg (labeled" in row
    assert "no column 'n_L = 1000'" in bench("--quick", "--column", "n_L = 1000", code=2)
    assert "xclp-digits: table: this file has no table" in bench("xclp-digits", "--set", "scale=small", code=2)
    assert "allowed: --rounds N" in bench("--quick", "--set", "training.rounds=3", code=2)
    assert "sets protocol.name" in bench("--quick", "--set", "protocol.name=fedavg", code=2)
    assert "continues a run unchanged" in bench("--quick", "--resume", tmp_path, code=2)
    assert "holds no scenario.toml" in bench("--resume", tmp_path, code=2)
