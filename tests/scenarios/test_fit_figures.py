"""The figures of local training of one's own are shown as means over the averaged clients, and are sent by nobody."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tacit import Result, load, run
from tacit.parties.learning.metrics import metric_name
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.files.splits import data_of, parts_of, split
from tacit.scenarios.reporting.printed import outcome_lines, round_table
from tacit.scenarios.running.continuing import continue_for
from tacit.scenarios.running.runner import resume
from tacit.scenarios.schema.scenario import Scenario

pytest.importorskip("torch")

PLUGIN = """
from torch import nn
from tacit import add_fit

def loop(model, data, settings, generator):
    optimizer = settings.optimizer(model)
    loss = nn.functional.cross_entropy(model(data.inputs), data.targets)
    loss.backward()
    optimizer.step()
    odd = float("nan") if len(data.inputs) % 2 else 1.0
    return {"loss": float(loss.detach()), "points": len(data.inputs), "even": odd, "round": settings.round_number}

add_fit("figures", "one step, with figures", loop)
add_fit("none", "the same, without", lambda *given: {"loss": loop(*given)["loss"]})
"""

SCENARIO = """
seed = 3
plugins = ["own.py"]
engine = "inline"
[data]
name = "digits"
clients = 4
limit = 150
labeled = 1.0
partition = "dirichlet:1"
[protocol]
name = "fedavg"
[model]
name = "linear"
[training]
fit = "figures"
rounds = 3
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Scenario]:
    home = tmp_path_factory.mktemp("fit")
    (home / "own.py").write_text(PLUGIN)
    (home / "own.toml").write_text(SCENARIO)
    return lambda *changes: load(home / "own.toml", changes)


def sizes(scenario: Scenario) -> dict[str, int]:
    """The labeled points of each client."""
    shards = split(parts_of(scenario).held, data_of(scenario), scenario.seed)
    return {f"client/{place}": int(shard.labeled.sum()) for place, shard in enumerate(shards)}


def fits(result: Result) -> list[dict[str, float]]:
    assert result.outcome == "completed", result.reason
    return [one.fit for one in result.round_records]  # type: ignore[attr-defined]


def test_means_over_clients_are_in_every_table(own: Callable[..., Scenario], tmp_path: Path) -> None:
    scenario = own()
    result = run(scenario, out=tmp_path / "run")
    known = [*sizes(scenario).values()]
    even = {"even": 1.0} if any(not size % 2 for size in known) else {}
    wanted = [{"points": sum(known) / 4, **even, "round": float(number)} for number in range(3)]
    assert fits(result) == wanted
    assert len(set(known)) > 1
    record = json.loads((result.folder / "result.json").read_text())
    assert record["fit"] == wanted[-1] == record["rounds"][-1]["fit"]
    assert record["metrics"] == {}
    with (result.folder / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["fit_round"]) for row in rows] == [0.0, 1.0, 2.0]
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    assert list(result.rounds()["fit_points"]) == [sum(known) / 4] * 3
    console = Console(width=200, record=True)
    print_table(console, round_table(result.round_records))
    assert "fit_points" in console.export_text()
    (line,) = (str(line) for line in outcome_lines(result) if str(line).startswith("fit "))
    assert "no client sends them" in line


def test_nothing_of_them_is_sent(own: Callable[..., Scenario], tmp_path: Path) -> None:
    shown = run(own(), out=tmp_path / "with")
    without = run(own("training.fit=none"), out=tmp_path / "without")
    assert shown.trace_hash == without.trace_hash
    assert shown.bytes_total == without.bytes_total
    assert fits(without) == [{}, {}, {}]


@pytest.mark.parametrize(
    "changes",
    [["protocol.name=fedbuff", "training.buffer=2"], ["training.averaging=secure", "sum.value_bits=16"]],
    ids=["fedbuff", "secure"],
)
def test_they_are_the_same_in_workers_and_go_on(
    own: Callable[..., Scenario], tmp_path: Path, changes: list[str]
) -> None:
    scenario = own(*changes)
    result = run(scenario, out=tmp_path / "run")
    known = sizes(scenario)
    for one, found in zip(result.round_records, fits(result), strict=True):
        averaged = one.averaged  # type: ignore[attr-defined]
        assert found["points"] == pytest.approx(sum(known[name] for name in averaged) / len(averaged))
    pooled = run(scenario, out=tmp_path / "pool", engine="pool:2")
    assert fits(pooled) == fits(result)
    if "secure" in changes[0]:
        return
    shorter = run(own(*changes, "training.rounds=1"), out=tmp_path / "short")
    assert fits(resume(continue_for(shorter.folder, "training.rounds", 3), engine="inline")) == fits(result)


def test_a_metric_of_a_task_cannot_have_the_same_name() -> None:
    assert metric_name("fit_points") == "test_fit_points"
    assert metric_name("bytes") == "test_bytes"
    assert metric_name("rmse") == "rmse"
