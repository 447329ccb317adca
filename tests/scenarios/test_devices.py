"""[[client]], [[link]] and [[host]] in runs, predictions, resumed runs, chaos, changes and reports."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tacit import Client, Device, Host, Link, Scenario, ScenarioError, load
from tacit.protocols.experiment import experiment
from tacit.scenarios.chaos.campaign import Plan, campaign, replayed
from tacit.scenarios.chaos.chaos import ready
from tacit.scenarios.command.main import app
from tacit.scenarios.files.composing import label
from tacit.scenarios.reporting.parties import party_tables
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.runner import carry_out
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.plain import NotPlain

SMALL = [
    "data.limit=120", "data.clients=8", "training.rounds=3", "training.epochs=1", "expect={}", "fault=[]",
    "engine=inline", "protocol.name=fedavg", "protocol.deadline=10s", "training.averaging=plain", "model.name=linear",
]  # fmt: skip

PHONES = (
    Client(preset="4g", speed="lognormal:0.5,0.5"),
    Client(name="client/[0-3]", share=0.5, preset="satellite"),
    Client(name="client/7", preset="lan", cores=2),
)
TABLES: dict[str, dict[str, Any]] = {
    "phones": {"client": PHONES},
    "a slow pair": {"link": (Link(party="server", peer="client/2", latency="normal:1s,0.1s"),)},
    "a host": {"host": (Host(parties=("server", "client/*"), cores=2),), "client": (Client(speed=1e-4),)},
    "two hosts, phones": {
        "host": (Host(parties=("client/[01]",), cores=1), Host(parties=("client/[23]",), cores=1)),
        "client": (*PHONES, Client(speed=1e-4)),
    },
    "handling": {"device": Device(handling="2ms", handling_rate="1MB/s"), "client": PHONES},
    "handling on a host": {
        "device": Device(handling="200ns", handling_rate="10GB/s", server_speed=1e-4),  # at this speed 2 ms and 1 MB/s
        "host": (Host(parties=("server", "client/*"), cores=2),),
        "client": (Client(speed=1e-4),),
    },
}


def small(*changes: str, **tables: Any) -> Scenario:
    return msgspec.structs.replace(load("training-private", [*SMALL, *changes]), **tables)


def ran(scenario: Scenario) -> tuple[str, float]:
    simulation = Simulation(scenario, engine="inline")
    try:
        simulation.run()
        return simulation.trace.trace_hash, simulation.now
    finally:
        simulation.close()


def test_tables_for_each_client_give_the_same_run_as_keys_for_all() -> None:
    network = ["network.latency=normal:30ms,5ms", "network.up=1MB/s", "network.down=2MB/s", "network.loss=0.1"]
    of_all = small(*network, "device.speed=0.5", "device.cores=2")
    each = Client(latency="normal:30ms,5ms", up="1MB/s", down="2MB/s", loss=0.1, speed=0.5, cores=2)
    assert ran(of_all) == ran(small(client=(each,)))
    pair = Link(party="server", latency="normal:30ms,5ms", loss=0.1)
    slow = Client(up="1MB/s", down="2MB/s", speed=0.5, cores=2)
    assert ran(of_all) == ran(small(client=(slow,), link=(pair,)))


def test_a_client_on_a_satellite_link_delays_the_run() -> None:
    alone, satellite = (
        small(client=(Client(preset="lan"), Client(name="client/3", preset=name))) for name in ("", "satellite")
    )
    assert ran(satellite)[1] > ran(alone)[1] + 4 * 2 * 0.279  # enrolment and three rounds, in both directions


def test_jobs_of_parties_on_a_host_share_the_cores_of_the_host() -> None:
    slow, hosts = Client(speed=1e-5), (Host(parties=("client/*",), cores=2),)
    patient = ("protocol.deadline=1000s", "training.validation=0.0")
    alone, shared = (ran(small(*patient, client=(slow,), host=host))[1] for host in ((), hosts))
    assert shared == pytest.approx(4 * alone, rel=0.1)  # eight clients, two cores


@pytest.mark.parametrize("protocol", ["fedavg", "fedbuff"])
@pytest.mark.parametrize("tables", TABLES)
def test_the_predicted_time_with_device_tables_equals_the_run(tables: str, protocol: str) -> None:
    scenario = small(f"protocol.name={protocol}", **TABLES[tables])
    assert predict_run(scenario).virtual_seconds == pytest.approx(ran(scenario)[1], rel=0.03)


@pytest.mark.parametrize("tables", TABLES)
def test_resting_clients_leave_a_run_with_device_tables_unchanged(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = small("training.share=0.5", **TABLES[tables])
    there = ran(scenario)
    monkeypatch.setattr(experiment, "AWAKE", 0)
    assert ran(scenario) == there


def figures_of(simulation: Simulation) -> tuple[object, ...]:
    try:
        summed = simulation.run()
        return simulation.trace.trace_hash, simulation.now, simulation.done, simulation.ledger.rows(), summed.outcome
    finally:
        simulation.close()


@pytest.mark.parametrize(
    ("tables", "protocol"),
    [
        ("phones", "fedavg"),
        ("a slow pair", "fedbuff"),
        ("a host", "fedbuff"),
        ("two hosts, phones", "fedavg"),
        ("two hosts, phones", "fedbuff"),
        ("handling on a host", "fedavg"),
    ],
)
def test_a_run_with_device_tables_resumed_between_two_rounds_ends_alike(tables: str, protocol: str) -> None:
    scenario = small(
        f"protocol.name={protocol}",
        "training.rounds=6",
        "training.buffer=3",
        "protocol.deadline=600s",
        **TABLES[tables],
    )
    simulation = Simulation(scenario, engine="inline")
    states: list[bytes] = []
    at_work: list[int] = []

    def keep(number: int) -> None:
        with suppress(NotPlain):
            states.append(msgspec.msgpack.encode(simulation.state()))
            at_work.append(sum(one.place == "train.update" for one in simulation.clients))

    simulation.after_rounds(keep)
    unbroken = figures_of(simulation)
    assert unbroken[-1] == "completed" and len(states) >= 2
    if protocol == "fedbuff" and "host" in tables:
        assert max(at_work) > 1  # the parties' jobs share cores
    for state in (states[0], states[len(states) // 2]):
        simulation = Simulation(scenario, engine="inline")
        simulation.restore(msgspec.msgpack.decode(state))
        assert figures_of(simulation) == unbroken


# Availability


@pytest.fixture
def away(tmp_path: Path) -> Scenario:
    (tmp_path / "away.csv").write_text("up,down\n0,0.3s\n2s,\n")
    return small(
        "protocol.deadline=0.5s", client=(Client(name="client/[12]", availability=str(tmp_path / "away.csv")),)
    )


def test_an_unavailable_client_is_lost_while_unavailable(away: Scenario, tmp_path: Path) -> None:
    result = carry_out(away, "run", out=tmp_path / "run")
    assert result.outcome == "completed" and not result.unmet and not result.warnings[2:]
    assert {loss.party for loss in result.lost} == {"client/1", "client/2"}
    assert {(one.fault, one.kind, one.party) for one in result.faults} == {(-1, "crash", f"client/{i}") for i in (1, 2)}


def test_chaos_ignores_availability_except_in_a_replay(away: Scenario) -> None:
    found = campaign(away, Plan(singles=False, schedules=3, seed=918273))
    assert found.verdicts[0].outcome == "completed" and found.verdicts[0].faults_fired == 0 and not found.failures
    assert replayed(away).faults_fired == 2
    calm, aside = ready(away, Plan(), [])
    assert aside == 1 and not any(client.availability for client in calm.scenario.client)


# Files, changes and output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "kinds.csv").write_text("share,preset\n1,4g\n1,3g\n")
    path = tmp_path / "own.toml"
    path.write_text('[data]\nlimit = 100\n[[client]]\nfile = "kinds.csv"\n[[client]]\nname = "client/1"\ncores = 2\n')
    return path


def test_files_are_relative_to_the_scenario(file: Path) -> None:
    assert load(file).client[0].file == str(file.parent / "kinds.csv")


def test_the_option_set_changes_one_field_of_one_table(file: Path) -> None:
    scenario = load(file, ["client.1.cores=5", "client.1.preset=lan"])
    assert (scenario.client[1].cores, scenario.client[1].preset) == (5, "lan")
    assert label("client.1.up", [scenario]) == "client 1 (client/1) up"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("client.2.cores=5", "changes: client.2.cores: there is no client 2: the scenario has 2, counted from 0"),
        ("link.0.loss=0.5", "changes: link.0.loss: there is no link 0: the scenario has none"),
        ("client.0.core=5", 'changes: client.0.core: a client has no "core"; did you mean cores?; allowed: name'),
        ("client.x=5", "changes: client.x: is no field of a client; allowed: client.N.FIELD, N counted from 0"),
        ("client.0.preset=5g", 'changes: client.0.preset: "5g" is not one of the allowed: ""'),
        ("client.1.up=fast", 'changes: client.1.up: "fast" is not a rate'),
        ("host=[{parties=['server']}]", "changes: host.0.cores: is needed and not given"),
        ("hosts=[]", "changes: hosts: there is no such key"),
        ("device.handling=-1", "changes: device.handling: -1.0 is not a duration"),
        ("device.handling=often", 'changes: device.handling: "often" is not a duration'),
        ("device.handling_rate=0MB/s", 'changes: device.handling_rate: "0MB/s" carries nothing'),
        ("device.handling_rate=5", "changes: device.handling_rate: 5 is of the wrong kind"),
    ],
)
def test_an_invalid_device_key_is_named(file: Path, change: str, line: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        load(file, [change])
    assert str(refused.value).startswith(line)


@pytest.mark.long  # a pool's processes start
def test_with_handling_a_pool_gives_the_same_run_as_inline() -> None:
    scenario = small(**TABLES["handling on a host"])
    inline, pool = (Simulation(scenario, engine=engine) for engine in ("inline", "pool:2"))
    assert figures_of(inline) == figures_of(pool)


def test_messages_take_longer_with_handling() -> None:
    plain, handled = small(), small(device=Device(handling="50ms"))
    bytes_alone = small(device=Device(handling_rate="100kB/s"))
    assert ran(small(device=Device(handling="0s", handling_rate="unlimited"))) == ran(plain)
    assert 4 * 2 * 8 * 0.05 <= ran(handled)[1] < 4  # the server handles messages to and from eight clients, 4 times
    assert ran(bytes_alone)[1] > ran(plain)[1] + 0.5


def test_the_devices_and_links_of_parties_are_shown_in_tables(file: Path) -> None:
    done = CliRunner().invoke(app, ["keys", str(file)])
    assert done.exit_code == 0 and "client/1" in done.stdout and "3g" in done.stdout
    (kinds,) = party_tables(load(file))
    assert [sum(int(row[1]) for row in kinds.rows), len(kinds.columns)] == [11, len(kinds.rows[0])]
    tables = party_tables(small(**TABLES["two hosts, phones"], link=(Link(party="server", loss=0.1),)))
    assert [table.title for table in tables] == ["who has what", "links of some pairs", "hosts whose cores are shared"]
    handled = party_tables(small(**TABLES["handling"]))[-1]
    assert (handled.title, handled.rows) == ("what a message takes on a core of speed 1", [("2ms", "1MB/s")])
