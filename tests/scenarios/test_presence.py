"""Presence: a server that knows which clients are gone neither waits for them nor calls them."""

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.protocols.federated.cohort import draw
from tacit.scenarios.chaos.broad import calm_scenario
from tacit.scenarios.chaos.campaign import bare_run, first_run
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.schedules import random_schedules
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.runner import carry_out, resume
from tacit.sim.conditions import Watching
from tacit.sim.streams import generator
from tacit.sim.trace import Event
from tests.protocols.flower.conftest import scenario_of

SMALL = ["network.transport=tcp", "training.rounds=6", "data.limit=400", "device.speed=0.0065", "expect={}"]
CRASH = '{kind="crash", party="client/3", time="1s"}'
POWER = '{kind="power", party="client/5", time="2s"}'


def training(presence: str, *faults: str, more: tuple[str, ...] = ()) -> tacit.Scenario:
    keys = [f"protocol.presence={presence}", "protocol.heartbeat=3s", "protocol.heartbeat_misses=2"]
    return load("training-stragglers", [*SMALL, *keys, f"fault=[{', '.join(faults)}]", *more])


def clients_called(result: tacit.Result) -> list[set[str]]:
    """The clients that are called to each round."""
    events = result.frame("messages")
    calls = events[events.type == "TrainingRound"]
    return [set(calls[calls["round"] == number].receiver) for number in range(1, 7)]


def test_presence_by_connection_detects_a_crash_but_no_power_loss(tmp_path: Path) -> None:
    deadline = 60.0
    blind, seeing = (
        tacit.run(training(presence, CRASH, POWER), out=tmp_path / presence) for presence in ("none", "connection")
    )
    assert 5 * deadline > blind.virtual_seconds > 4 * deadline  # rounds 3 to 6
    assert 3 * deadline > seeing.virtual_seconds > 2 * deadline  # it waits for client/5 alone, in rounds 5 and 6
    assert ["client/3" in members for members in clients_called(seeing)] == [True, True, True, False, False, False]
    assert all("client/5" in members for members in clients_called(seeing))
    assert [loss.party for loss in seeing.lost].count("client/3") == 1


def test_heartbeats_detect_crashes_and_power_losses_and_are_counted_as_bytes(tmp_path: Path) -> None:
    result = tacit.run(training("heartbeat", CRASH, POWER), out=tmp_path / "run")
    assert result.virtual_seconds < 60
    assert all(not {"client/3", "client/5"} & members for members in clients_called(result)[3:])
    beats = [row for row in tacit.bytes(tmp_path / "run").frame().to_dict("records") if row["type"] == "Heartbeat"]
    assert [(row["step"], row["payload"]) for row in beats] == [("presence.heartbeat", 0)]
    # The two other clients are gone before their first heartbeat.
    assert beats[0]["messages"] == 10 * int(result.virtual_seconds / 3)
    assert beats[0]["envelope"] > 0
    story = "\n".join(str(line) for line in tacit.events(tmp_path / "run"))
    assert "client/3 crashed at 1 s" in story and "known to be gone" in story


def test_a_client_that_sends_slowly_counts_as_present(tmp_path: Path) -> None:
    """The client's heartbeats wait behind its model, for longer than the server waits for heartbeats."""
    slow = ("network.up=5kbit/s", "protocol.heartbeat=0.2s", "training.rounds=2", "data.clients=4")
    result = tacit.run(training("heartbeat", more=slow), out=tmp_path / "run")
    assert (result.outcome, result.lost) == ("completed", [])
    assert result.virtual_seconds > 2 * 4 and all(len(members) == 4 for members in clients_called(result)[:2])


@pytest.mark.parametrize("presence", ["connection", "heartbeat"])
def test_a_returned_client_is_called_again(presence: str, tmp_path: Path) -> None:
    back = CRASH[:-1] + ', back_after="1s"}'
    result = tacit.run(training(presence, back, more=("protocol.heartbeat=0.2s",)), out=tmp_path / "run")
    there = ["client/3" in members for members in clients_called(result)]
    assert there[0] and not all(there) and there[-1]
    assert result.outcome == "completed" and result.virtual_seconds < 30


def test_the_prediction_with_presence_equals_the_run(tmp_path: Path) -> None:
    for presence in ("connection", "heartbeat"):
        scenario = training(presence, CRASH[:-1] + ', back_after="2s"}', POWER)
        result, found = tacit.run(scenario, out=tmp_path / presence), tacit.predict(scenario)
        sums = [sum(getattr(row, name) for row in found.rows) for name in ("messages", "payload", "envelope")]
        assert sums == [result.message_count, result.bytes_payload, result.bytes_envelope]
        assert found.virtual_seconds == result.virtual_seconds


class InRound(tacit.Watch):
    """A watch that sends Ctrl-C when the first model of round 4 is received."""

    def __call__(self, event: Event) -> None:
        if (event.kind, event.type, event.round) == ("deliver", "LocalModel", 4):
            raise KeyboardInterrupt


@pytest.mark.parametrize("presence", ["connection", "heartbeat"])
def test_a_resumed_run_knows_the_clients_that_were_gone(presence: str, tmp_path: Path) -> None:
    faults = CRASH[:-1] + ', back_after="3s"}', POWER
    scenario = training(presence, *faults, more=("training.checkpoint_every=1",))
    whole = carry_out(scenario, "whole", out=tmp_path / "whole")
    broken = carry_out(scenario, "broken", out=tmp_path / "broken", watch=InRound())
    assert broken.outcome == "interrupted"
    assert resume(tmp_path / "broken").trace_hash == whole.trace_hash


def test_a_secure_sum_continues_at_once_without_a_client_known_to_be_gone(tmp_path: Path) -> None:
    keys = ["network.transport=tcp", "protocol.presence=connection", "expect={}"]
    fault = 'fault=[{kind="crash", party="client/2", before="sum.mask"}]'
    result = tacit.run(load("training-secure-average", [*keys, fault]), out=tmp_path / "run")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)
    assert result.virtual_seconds < 60 and {loss.party for loss in result.lost} == {"client/2"}


def test_xclp_calls_only_clients_that_are_present(tmp_path: Path) -> None:
    keys = ["network.transport=tcp", "protocol.presence=connection", "protocol.rounds=2", "data.limit=100", "expect={}"]
    cheap = [
        "engine=inline",
        "protocol.hamming=plaintext",
        "protocol.bits=64",
        'fault=[{kind="crash", party="client/2", before="lsh.hash"}]',
    ]
    result = tacit.run(load("xclp-digits", [*keys, *cheap]), out=tmp_path / "run")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)
    assert [(loss.round, loss.party) for loss in result.lost] == [(1, "client/2")]
    assert result.virtual_seconds < 60


def test_a_flower_app_sees_only_nodes_that_are_present(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_invalid_keys_of_presence_are_refused_in_one_line(changes: list[str], problem: str) -> None:
    with pytest.raises(tacit.ScenarioError) as caught:
        load("xclp-digits", changes)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_cohorts_are_drawn_from_the_clients_that_are_present() -> None:
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
def test_invalid_settings_of_presence_are_refused(values: tuple[str, float, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        Watching(*values)


@pytest.mark.parametrize(
    "network", [[], ["network.transport=datagram"], ["network.topology=mesh"], ["network.loss=0.02"]], ids=str
)
def test_heartbeats_work_on_every_transport(network: list[str], tmp_path: Path) -> None:
    keys = ["network.transport=reliable", "protocol.heartbeat_misses=4", "protocol.heartbeat=2s", *network]
    scenario = training("heartbeat", CRASH, POWER, more=tuple(keys))
    result = tacit.run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed" and result.virtual_seconds < 60
    assert not {"client/3", "client/5"} & clients_called(result)[-1]
    assert predict_run(scenario).virtual_seconds == result.virtual_seconds  # of this seed


def test_presence_none_sends_no_heartbeats_and_changes_no_trace(tmp_path: Path) -> None:
    """The other keys of presence have no effect without it."""
    result, other = (
        tacit.run(load("training-stragglers", [*SMALL, *keys, f"fault=[{CRASH}]"]), out=tmp_path / str(len(keys)))
        for keys in ([], ["protocol.presence=none", "protocol.heartbeat=1s", "protocol.heartbeat_misses=7"])
    )
    assert result.trace_hash == other.trace_hash
    assert "Heartbeat" not in set(other.frame("messages").type)


@pytest.mark.parametrize(
    ("presence", "fault", "how"),
    [
        ("connection", CRASH, "its connection was closed"),
        ("heartbeat", CRASH, "no heartbeat for 2 intervals"),
        ("heartbeat", '{kind="pause", party="client/3", time="1s", lasts="20s"}', "no heartbeat for 2 intervals"),
        ("heartbeat", '{kind="partition", party="client/3", time="1s"}', "no heartbeat for 2 intervals"),
    ],
)
def test_causes_state_how_the_server_knew_of_a_lost_client(presence: str, fault: str, how: str, tmp_path: Path) -> None:
    tacit.run(training(presence, fault), out=tmp_path / "run")
    (lost,) = [line for line in tacit.events(tmp_path / "run") if line.kind == "lost"]
    waited, knew, *why = lost.because
    assert "server waited" in waited and f"client/3 was known to be gone: {how}" in knew
    assert why and any(word in why[-1] for word in ("crashed", "paused", "cut off"))


def test_a_hidden_cohort_is_drawn_from_all_clients_and_gone_ones_are_not_called(tmp_path: Path) -> None:
    """Otherwise the remaining clients would be drawn more often than the privacy accountant assumes."""
    keys = [
        "data.limit=400",
        "expect={}",
        "training.rounds=8",
        "protocol.heartbeat=0.2s",
        "protocol.heartbeat_misses=2",
    ]
    fault = 'fault=[{kind="crash", party="client/[0-3]", before="train.update"}]'
    calls = []
    for presence in ("none", "heartbeat"):
        scenario = load("training-private", [*keys, fault, f"protocol.presence={presence}"])
        result = tacit.run(scenario, out=tmp_path / presence)
        frame = result.frame("messages")
        rounds = frame[frame.type == "TrainingRound"]
        calls.append([set(rounds[rounds["round"] == number].receiver) for number in range(1, 9)])
    gone = {f"client/{number}" for number in range(4)}
    blind, seeing = calls
    assert any(members & gone for members in blind[2:])
    for drawn, members in zip(blind[2:], seeing[2:], strict=True):
        assert drawn - gone <= members <= drawn


def test_a_secure_sum_below_its_threshold_is_not_opened(tmp_path: Path) -> None:
    """A wait that ends early opens no sum over fewer clients than one that ends at its deadline."""
    outcomes = []
    for presence in ("none", "connection"):
        keys = ["network.transport=tcp", f"protocol.presence={presence}", "expect={}"]
        fault = 'fault=[{kind="crash", party="client/[1-9]", before="sum.mask"}]'
        result = tacit.run(load("training-secure-average", [*keys, fault]), out=tmp_path / presence)
        shown = result.frame("messages")
        outcomes.append((result.outcome, sum(shown.type == "Revealed"), result.virtual_seconds))
    blind, seeing = outcomes
    assert blind[:2] == seeing[:2] and blind[0] != "completed"
    assert seeing[2] < blind[2]


@pytest.mark.parametrize(
    "name",
    [
        "fedavg, flamingo, signed, connections watched",
        "xclp, plaintext, shamir, star, connections watched",
        "fedavg, secagg+, eight clients, heartbeats",
        "fedbuff, mesh, datagram, heartbeats",
        "fedct, connections watched",
        "private-cells, star, heartbeats",
    ],
)
def test_no_schedule_of_faults_breaks_a_promise_with_presence(name: str) -> None:
    """One configuration of each family; the long tests of broad chaos go through all of them."""
    scenario = calm_scenario(next(one for one in CONFIGURATIONS if one.name == name), 61)
    first = first_run(scenario)
    assert first.outcome == "completed" and not first.broken
    for faults in random_schedules(first.course, 4, 61, 10.0):
        found = bare_run(scenario, faults, first.calm)
        assert not found.broken, (faults, found.broken)
