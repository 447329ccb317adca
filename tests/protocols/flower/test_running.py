"""Flower apps on Tacit's network: deterministic, with the bytes of Flower's own messages, under every fault."""

import json
from pathlib import Path

import pytest

from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.chaos.chaos import promising
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.schema.scenario import ScenarioError
from tests.protocols.flower.conftest import Run, scenario_of

ENDED = {f"client/{number}": "completed" for number in range(6)}


def test_a_strategy_averages_and_its_bytes_are_counted(run_app: Run, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_app("averaging")
    assert (result.outcome, result.lost, result.endings) == ("completed", [], ENDED)
    final = json.loads(capsys.readouterr().out.partition("final ")[2].splitlines()[0])
    mean = sum(own * own for own in range(1, 7)) / sum(range(1, 7))  # weighted by the own number, from 0, by halves
    assert final == pytest.approx([mean * 0.75] * 3, abs=0.01)
    first, second = result.round_records
    assert (first.round, second.round, len(second.replied)) == (1, 2, 6)
    assert first.figures_reported["train_loss"] == pytest.approx(mean)
    assert result.accuracy == second.accuracy == 0.5
    rows = {(row.step, row.type): row for row in byte_rows(result.folder)}
    assert {key: row.messages for key, row in rows.items()} == {
        ("flower.join", "NodeJoins"): 6,
        ("flower.train", "AppMessage"): 12,
        ("flower.train", "AppReply"): 12,
        ("flower.evaluate", "AppMessage"): 12,
        ("flower.evaluate", "AppReply"): 12,
    }
    assert rows["flower.train", "AppMessage"].payload > 12 * 140  # three float32 in numpy's format, and more


WEIGHTED = """
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp, strategy

client, server = ClientApp(), ServerApp()


@client.train()
def trained(message, context):
    own = context.node_config["partition-id"]
    metrics = MetricRecord({"train_loss": float(own), "num-examples": 1, "batches": 1 + 2 * own})
    return Message(RecordDict({"arrays": message.content["arrays"], "metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    chosen = strategy.FedAvg(fraction_evaluate=0.0, weighted_by_key="batches")
    found = chosen.start(grid, ArrayRecord([np.zeros(3, np.float32)]), num_rounds=1, timeout=30.0)
    print("strategy", found.train_metrics_clientapp[1]["train_loss"])
"""


def test_numbers_are_weighted_as_the_strategy_weighs_them(
    run_app: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weighted.py").write_text(WEIGHTED)
    result = run_app(tmp_path / "weighted.py", clients=2)
    by_strategy = float(capsys.readouterr().out.partition("strategy ")[2].split()[0])
    assert by_strategy == 0.75  # (0 * 1 + 1 * 3) / 4; each has one example
    assert result.round_records[0].figures_reported["train_loss"] == by_strategy


@pytest.mark.parametrize("app", ["averaging", "legacy"])
def test_the_trace_is_the_same_every_time(run_app: Run, app: str) -> None:
    first, second = run_app(app), run_app(app)
    assert first.trace_hash == second.trace_hash
    assert run_app(app, "seed=2").trace_hash != first.trace_hash


def test_an_app_of_the_older_interface_runs_in_virtual_time(run_app: Run) -> None:
    result = run_app("legacy")
    assert (result.outcome, result.endings) == ("completed", ENDED)
    assert [(one.round, len(one.replied), one.accuracy) for one in result.round_records] == [(1, 6, 0.5), (2, 6, 0.5)]


def test_an_app_waits_for_nodes_that_join_late(run_app: Run) -> None:
    fault = 'fault=[{kind="crash", party="client/2", time=0, back_after="100s"}]'
    result = run_app("legacy", fault, "protocol.join=5s", run_config="min=6")
    assert result.outcome == "completed"
    assert result.virtual_seconds > 100
    assert len(result.round_records[0].cohort) == 6


def test_a_crashed_client_is_left_out_and_takes_part_after_its_return(run_app: Run) -> None:
    fault = 'fault=[{kind="crash", party="client/3", at="flower.train", back_after="40s"}]'
    result = run_app("averaging", fault, run_config="rounds=3")
    assert [len(one.replied) for one in result.round_records] == [5, 6, 6]
    assert {(loss.party, loss.step) for loss in result.lost} == {("client/3", "flower.train")}
    assert result.outcome == "completed"


def test_a_straggler_past_the_time_out_is_not_used(run_app: Run) -> None:
    fault = 'fault=[{kind="slow", party="client/0", time=0, factor=50}]'
    result = run_app("averaging", fault)
    assert ["client/0" in one.replied for one in result.round_records] == [False, False]
    assert {loss.party for loss in result.lost} == {"client/0"}


def test_a_crash_of_the_server_aborts_the_run_and_past_rounds_are_reported(run_app: Run) -> None:
    fault = 'fault=[{kind="crash", party="server", at="flower.evaluate", occurrence=2}]'
    result = run_app("averaging", fault, run_config="rounds=3")
    assert (result.outcome, result.reason) == ("aborted", "the server was lost at flower.evaluate")
    assert [(one.round, one.problem) for one in result.round_records] == [(1, ""), (2, "the server was lost")]


def test_clients_behind_lost_messages_and_partitions_are_lost(run_app: Run) -> None:
    faults = (
        'fault=[{kind="lose", party="client/1", message="AppReply"},'
        ' {kind="partition", party="client/4", time=0.5, lasts="5s"}]'
    )
    result = run_app("averaging", faults, "network.transport=datagram")
    assert result.outcome == "completed"
    assert {loss.party for loss in result.lost} == {"client/1", "client/4"}


def test_secure_aggregation_continues_without_a_client_crashed_at_any_stage(run_app: Run) -> None:
    def fall(stage: str) -> str:
        return f'fault=[{{kind="crash", party="client/2", at="flower.{stage}"}}]'

    calm, again = run_app("secure"), run_app("secure")
    assert calm.shape_hash == again.shape_hash  # its keys are drawn from the operating system
    for stage in ("setup", "share_keys", "collect_masked_vectors", "unmask"):
        result = run_app("secure", fall(stage))
        assert result.outcome == "completed"
        assert result.virtual_seconds == pytest.approx(calm.virtual_seconds + 10, abs=2)
        assert [(loss.party, loss.step) for loss in result.lost] == [("client/2", f"flower.{stage}")]
    rows = {row.step for row in byte_rows(calm.folder)}
    assert rows == {f"flower.{stage}" for stage in ("join", "setup", "share_keys", "collect_masked_vectors", "unmask")}


def test_the_aggregate_without_a_lost_client_is_the_mean_of_the_others(
    run_app: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run_app("secure", 'fault=[{kind="crash", party="client/2", at="flower.collect_masked_vectors"}]')
    assert "sum [0.26, 0.26, 0.26]" in capsys.readouterr().out  # of 0, 0.1, 0.3, 0.4 and 0.5


APP_THAT_RAISES = """
from flwr.app import ArrayRecord, MetricRecord, RecordDict, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client, server = ClientApp(), ServerApp()


@client.query()
def answer(message, context):
    if context.node_config["partition-id"] == 1:
        raise ValueError("no data")
    context.state.metric_records.setdefault("seen", MetricRecord({"times": 0}))["times"] += 1
    times = context.state.metric_records["seen"]["times"]
    return Message(RecordDict({"metrics": MetricRecord({"times": times})}), reply_to=message)


@server.main()
def main(grid, context):
    import time
    nodes = list(grid.get_node_ids())
    for _ in range(2):
        replies = grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])
        assert sorted(reply.has_error() for reply in replies) == [False, False, True], replies
    ids = grid.push_messages([Message(RecordDict(), node, "query") for node in nodes])
    found, began = [], time.time()
    while len(found) < len(nodes):
        time.sleep(3.0)
        found += grid.pull_messages(ids)
    assert time.time() - began == 3.0
    assert [r.content.metric_records["metrics"]["times"] for r in found if r.has_content()] == [3, 3]
    if context.run_config.get("fail"):
        raise RuntimeError("enough")
"""


@pytest.fixture
def raising(tmp_path: Path) -> Path:
    path = tmp_path / "raising.py"
    path.write_text(APP_THAT_RAISES)
    return path


def test_a_client_that_raises_replies_with_an_error_and_keeps_its_context(run_app: Run, raising: Path) -> None:
    result = run_app(raising, clients=3)
    assert (result.outcome, result.reason) == ("completed", "")
    assert result.endings["client/1"] == "its app raised ValueError: no data (raising.py, line 12)"
    (one,) = result.round_records
    assert list(one.errors) == ["client/1"] and "no data" in one.errors["client/1"]


def test_a_server_app_that_raises_aborts_the_run_with_its_line(run_app: Run, raising: Path) -> None:
    result = run_app(raising, clients=3, run_config="fail=true")
    assert result.outcome == "aborted"
    assert "the server app raised RuntimeError: enough" in result.reason and "raising.py, line" in result.reason
    assert "Traceback" in (result.folder / "app-failure.txt").read_text()


def test_an_app_that_waits_for_nodes_that_never_join_ends(run_app: Run) -> None:
    faults = ", ".join(f'{{kind="crash", party="client/{number}", time=0}}' for number in range(5))
    result = run_app("averaging", f"fault=[{faults}]", "protocol.timeout=10min")
    assert result.outcome == "aborted"
    assert "the app waits for more than the 1 nodes that joined" in result.reason


def test_invalid_keys_of_an_app_are_refused_by_name(tmp_path: Path) -> None:
    for change, problem in (
        ('protocol.app=""', "protocol.app"),
        ('protocol.run_config="rounds"', "protocol.run_config"),
        ('protocol.train_time="soon"', "protocol.train_time"),
        ('fault=[{kind="crash", party="client/1", at="flower.trains"}]', "did you mean flower.train"),
    ):
        with pytest.raises(ScenarioError, match=problem):
            scenario_of(tmp_path, "averaging", change)


@pytest.mark.long
@pytest.mark.parametrize("app", ["FedAvg", "FedAdam", "Krum", "secure"])
def test_chaos_breaks_no_promise_of_an_app(tmp_path: Path, app: str) -> None:
    named = {"run_config": "rounds=1"} if app == "secure" else {"run_config": f"strategy={app} rounds=2"}
    scenario_of(tmp_path, "secure" if app == "secure" else "averaging", **named, clients=5)
    loaded = promising(read(tmp_path / "scenario.toml"))
    findings = campaign(loaded.scenario, Plan(schedules=10, quick=True))
    assert findings.verdicts[0].outcome == "completed"
    assert findings.failures == []
