"""Apps that wait in unusual ways, that use other sources of time and randomness, and that do not want to end."""

from pathlib import Path

import pytest

import tacit
from tacit.scenarios.reporting.printed import round_table
from tacit.scenarios.seeing.plot import curves
from tests.protocols.flower.conftest import Run

HEAD = """
import time
from datetime import datetime
from time import sleep
import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client, server = ClientApp(), ServerApp()
DRAWN = float(np.random.rand())


@client.query()
def answer(message, context):
    began = time.time()
    while context.run_config.get("loop") and time.time() < began + 1.0:
        pass
    sleep(20.0 * context.node_config["partition-id"])
    figures = {"took": time.time() - began, "drawn": DRAWN, "chance": float(np.random.default_rng().random())}
    return Message(RecordDict({"metrics": MetricRecord(figures)}), reply_to=message)


def queries(grid, number=0):
    return [Message(RecordDict(), node, "query", group_id=str(number)) for node in grid.get_node_ids()]


@server.main()
def main(grid, context):
"""

PULLS = """
    for number in (1, 2):
        ids, found = list(grid.push_messages(queries(grid, number))), []
        while len(found) < len(ids):
            sleep(5)
            found += grid.pull_messages(ids)
        print("errors", sum(reply.has_error() for reply in found))
"""
SLEEPS = """
    found = list(grid.send_and_receive(queries(grid), timeout=30.0))
    print("took", sorted(round(reply.content["metrics"]["took"]) for reply in found))
    sleep(3600.0)
"""
STUBBORN = """
    while True:
        try:
            list(grid.send_and_receive(queries(grid)))
        except:
            pass
"""
ENDLESS = """
    while True:
        time.sleep(5.0)
"""


def app(folder: Path, body: str) -> Path:
    path = folder / "hard.py"
    path.write_text(HEAD + body)
    return path


def test_a_client_that_sleeps_is_the_cause_of_a_missed_reply(run_app: Run, tmp_path: Path) -> None:
    """Tacit simulates the sleep, and the record has it."""
    # The app of client/2 sleeps for 40 s, longer than the 30 s of the wait.
    result = run_app(app(tmp_path, SLEEPS), "protocol.timeout=2min", clients=3)
    lines = tacit.events(result, unfolded=True)
    ends = {chain[-1].text for line in lines if line.kind in ("lost", "deadline") for chain in line.causes}
    assert ends and all(text.startswith("client/2 slept in flower.query from ") for text in ends)
    assert all(text.endswith(" for 40 s (its app's sleep)") for text in ends)


def test_replies_pulled_after_their_time_are_errors(
    run_app: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = 'fault=[{kind="crash", party="client/1", at="flower.query", occurrence=2}]'
    result = run_app(app(tmp_path, PULLS), fault, "protocol.timeout=2min", clients=3)
    assert (result.outcome, capsys.readouterr().out.split()) == ("completed", ["errors", "0", "errors", "1"])
    first, second = result.round_records
    assert (len(first.replied), second.replied) == (3, ("client/0", "client/2"))
    assert [(loss.party, loss.step, loss.round) for loss in result.lost] == [("client/1", "flower.query", 2)]


def test_sleep_in_clients_and_of_a_server_is_virtual_and_chance_is_the_same(
    run_app: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = run_app(app(tmp_path, SLEEPS), clients=3), run_app(app(tmp_path, SLEEPS), clients=3)
    assert first.trace_hash == second.trace_hash
    assert first.virtual_seconds > 3600
    assert "took [0, 20]" in capsys.readouterr().out  # a sleep of 40 s exceeds the time-out
    assert [loss.party for loss in first.lost] == ["client/2"]


def test_a_client_that_polls_the_clock_reaches_its_time(run_app: Run, tmp_path: Path) -> None:
    result = run_app(app(tmp_path, SLEEPS), clients=2, run_config="loop=true")
    assert result.round_records[0].figures_reported["took"] == pytest.approx(1 + 10, abs=0.1)


def test_an_apps_own_metrics_are_in_the_table_of_rounds_and_in_curves(run_app: Run, tmp_path: Path) -> None:
    result = run_app(app(tmp_path, PULLS), clients=3)
    first, second = (one.figures_reported["took"] for one in result.round_records)
    (curve,) = curves([result.folder], "rounds", "took")
    assert curve.points == [(1, first), (2, second)] and first > 0
    table = round_table(result.round_records)
    assert {"took", "drawn", "chance"} <= set(table.headings)
    assert [row[table.headings.index("took")] for row in table.rows] == [first, second]
    page = tacit.report(result.folder).read_text(encoding="utf-8")
    assert all(f"{name} by rounds" in page for name in ("took", "drawn", "chance"))
    assert f">{first:.4f}</data>" in page and "Accuracy by rounds" not in page


def test_an_app_that_catches_every_exception_ends_with_its_server(run_app: Run, tmp_path: Path) -> None:
    fault = 'fault=[{kind="crash", party="server", at="flower.query", occurrence=2}]'
    result = run_app(app(tmp_path, STUBBORN), fault, clients=2)
    assert result.reason == "the server was lost at flower.query"


def test_an_app_that_only_waits_is_ended_with_the_reason(run_app: Run, tmp_path: Path) -> None:
    result = run_app(app(tmp_path, ENDLESS), "protocol.timeout=10min", clients=2)
    assert result.reason == "the app has sent nothing and received nothing since 0 s"
