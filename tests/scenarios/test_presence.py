"""Presence: a server that knows who is gone neither waits for them nor calls them."""

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.protocols.federated.cohort import draw
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.runner import carry_out, resume
from tacit.sim.conditions import Watching
from tacit.sim.streams import generator
from tacit.sim.trace import Event
from tests.protocols.flower.conftest import scenario_of

SMALL = ["network.transport=tcp", "training.rounds=6", "data.limit=400", "expect={}"]
CRASH = '{kind="crash", party="client/3", time="1s"}'
POWER = '{kind="power", party="client/5", time="2s"}'


def training(presence: str, *faults: str, more: tuple[str, ...] = ()) -> tacit.Scenario:
    keys = [f"protocol.presence={presence}", "protocol.heartbeat=3s", "protocol.heartbeat_misses=2"]
    return load("training-stragglers", [*SMALL, *keys, f"fault=[{', '.join(faults)}]", *more])


def called(result: tacit.Result) -> list[set[str]]:
    """The clients that are called to each round."""
    events = result.frame("messages")
    calls = events[events.type == "TrainingRound"]
    return [set(calls[calls["round"] == number].receiver) for number in range(1, 7)]


def test_the_end_of_a_process_is_seen_and_that_of_a_machine_is_not(tmp_path: Path) -> None:
    deadline = 60.0
    blind, seeing = (
        tacit.run(training(presence, CRASH, POWER), out=tmp_path / presence) for presence in ("none", "connection")
    )
    assert 5 * deadline > blind.virtual_seconds > 4 * deadline  # rounds 3 to 6
    assert 3 * deadline > seeing.virtual_seconds > 2 * deadline  # it waits for client/5 alone, in rounds 5 and 6
    assert ["client/3" in members for members in called(seeing)] == [True, True, True, False, False, False]
    assert all("client/5" in members for members in called(seeing))
    assert [loss.party for loss in seeing.lost].count("client/3") == 1


def test_heartbeats_tell_both_and_are_counted(tmp_path: Path) -> None:
    result = tacit.run(training("heartbeat", CRASH, POWER), out=tmp_path / "run")
    assert result.virtual_seconds < 60
    assert all(not {"client/3", "client/5"} & members for members in called(result)[3:])
    beats = [row for row in tacit.bytes(tmp_path / "run").frame().to_dict("records") if row["type"] == "Heartbeat"]
    assert [(row["step"], row["payload"]) for row in beats] == [("presence.heartbeat", 0)]
    assert beats[0]["messages"] == 10 * int(result.virtual_seconds / 3)  # those of the two are gone before the first
    assert beats[0]["envelope"] > 0
    story = "\n".join(str(line) for line in tacit.events(tmp_path / "run"))
    assert "client/3 crashed at 1 s" in story and "known to be gone" in story


def test_who_is_slow_in_sending_is_there(tmp_path: Path) -> None:
    """Its heartbeats wait behind its model, for longer than a server waits for heartbeats."""
    slow = ("network.up=5kbit/s", "protocol.heartbeat=0.2s", "training.rounds=2", "data.clients=4")
    result = tacit.run(training("heartbeat", more=slow), out=tmp_path / "run")
    assert (result.outcome, result.lost) == ("completed", [])
    assert result.virtual_seconds > 2 * 4 and all(len(members) == 4 for members in called(result)[:2])


@pytest.mark.parametrize("presence", ["connection", "heartbeat"])
def test_who_is_back_is_called_again(presence: str, tmp_path: Path) -> None:
    back = CRASH[:-1] + ', back_after="1s"}'
    result = tacit.run(training(presence, back, more=("protocol.heartbeat=0.2s",)), out=tmp_path / "run")
    there = ["client/3" in members for members in called(result)]
    assert there[0] and not all(there) and there[-1]
    assert result.outcome == "completed" and result.virtual_seconds < 30


def test_the_prediction_is_the_run(tmp_path: Path) -> None:
    for presence in ("connection", "heartbeat"):
        scenario = training(presence, CRASH[:-1] + ', back_after="2s"}', POWER)
        result, found = tacit.run(scenario, out=tmp_path / presence), tacit.predict(scenario)
        sums = [sum(getattr(row, name) for row in found.rows) for name in ("messages", "payload", "envelope")]
        assert sums == [result.message_count, result.bytes_payload, result.bytes_envelope]
        assert found.virtual_seconds == result.virtual_seconds


class InRound(tacit.Watch):
    """Ctrl-C when the first model of round 4 is received."""

    def __call__(self, event: Event) -> None:
        if (event.kind, event.type, event.round) == ("deliver", "LocalModel", 4):
            raise KeyboardInterrupt


@pytest.mark.parametrize("presence", ["connection", "heartbeat"])
def test_a_resumed_run_knows_who_was_gone(presence: str, tmp_path: Path) -> None:
    faults = CRASH[:-1] + ', back_after="3s"}', POWER
    scenario = training(presence, *faults, more=("training.checkpoint_every=1",))
    whole = carry_out(scenario, "whole", out=tmp_path / "whole")
    broken = carry_out(scenario, "broken", out=tmp_path / "broken", watch=InRound())
    assert broken.outcome == "interrupted"
    assert resume(tmp_path / "broken").trace_hash == whole.trace_hash


def test_a_secure_sum_goes_on_at_once_with_those_who_are_left(tmp_path: Path) -> None:
    keys = ["network.transport=tcp", "protocol.presence=connection", "expect={}"]
    fault = 'fault=[{kind="crash", party="client/2", before="sum.mask"}]'
    result = tacit.run(load("training-secure-average", [*keys, fault]), out=tmp_path / "run")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)
    assert result.virtual_seconds < 60 and {loss.party for loss in result.lost} == {"client/2"}


def test_xclp_calls_who_is_there(tmp_path: Path) -> None:
    keys = ["network.transport=tcp", "protocol.presence=connection", "protocol.rounds=2", "data.limit=100", "expect={}"]
    cheap = ["protocol.hamming=plaintext", 'fault=[{kind="crash", party="client/2", before="lsh.hash"}]']
    result = tacit.run(load("xclp-digits", [*keys, *cheap]), out=tmp_path / "run")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)
    assert [(loss.round, loss.party) for loss in result.lost] == [(1, "client/2")]
    assert result.virtual_seconds < 60


def test_nodes_of_a_flower_app_are_those_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flwr")
    app = tmp_path / "app.py"
    app.write_text(
        "import time\nfrom flwr.clientapp import ClientApp\nfrom flwr.serverapp import ServerApp\n"
        "client, server = ClientApp(), ServerApp()\n\n\n@server.main()\ndef main(grid, context):\n"
        "    print(len(list(grid.get_node_ids())))\n    time.sleep(20)\n    print(len(list(grid.get_node_ids())))\n"
    )
    keys = ["network.transport=tcp", "protocol.presence=connection"]
    scenario = scenario_of(tmp_path, app, *keys, 'fault=[{kind="crash", party="client/3", time="5s"}]')
    result = carry_out(scenario, "app", out=tmp_path / "run")
    assert result.outcome == "completed", result.reason
    assert [line for line in capsys.readouterr().out.split() if line.isdigit()] == ["6", "5"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["protocol.presence=connection"], 'protocol.presence: "connection" needs network.transport = "tcp"'),
        (["protocol.presence=ping"], 'protocol.presence: "ping"'),
        (["protocol.presence=heartbeat", "protocol.heartbeat_misses=0"], "protocol.heartbeat_misses: 0"),
        (["protocol.presence=heartbeat", "protocol.heartbeat=0s"], "protocol.heartbeat: 0 s"),
    ],
)
def test_mistakes_are_one_line(changes: list[str], problem: str) -> None:
    with pytest.raises(tacit.ScenarioError) as caught:
        load("xclp-digits", changes)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_cohorts_are_drawn_from_those_who_are_there() -> None:
    clients = [f"client/{number}" for number in range(10)]
    everybody = draw(clients, dict.fromkeys(clients, 1), 0.5, source())
    assert draw(clients, dict.fromkeys(clients, 1), 0.5, source(), present=clients) == everybody
    some = draw(clients, dict.fromkeys(clients, 1), 0.5, source(), present=clients[:6])
    assert len(some) == 5 and {*some} <= {*clients[:6]}
    few = draw(clients, dict.fromkeys(clients, 1), 0.5, source(), present=clients[:3])
    assert few == tuple(clients[:3])


def source() -> np.random.Generator:
    return generator(1, "cohort")


@pytest.mark.parametrize(
    "values", [("ping", 1.0, 1), ("heartbeat", 0.0, 1), ("heartbeat", float("inf"), 1), ("heartbeat", 1.0, 0)]
)
def test_settings_are_checked(values: tuple[str, float, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        Watching(*values)
